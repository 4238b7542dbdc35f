/**
 * One client connection: reads heads and bodies and writes responses, one request at a time. A request that arrives
 * while another is served waits for its turn.
 */

import { freeBytes } from "../../base/bytes.ts";
import type { Backpressure } from "../wire/body-sink.ts";
import { CHUNKED, CR } from "../wire/http-fields.ts";
import {
  type HttpBody,
  type HttpResponse,
  SharedResponse,
  StreamedResponse,
  WholeResponse,
} from "../wire/http-message.ts";
import { ReadAhead } from "../wire/read-ahead.ts";
import { findTimeout } from "./connection-timeouts.ts";
import { HeadReader } from "./head-reader.ts";
import { IncomingBody, WholeBody } from "./incoming-body.ts";
import { IncomingRequest, Upgrade } from "./incoming-request.ts";
import { CONTINUE, HEAD_TIMEOUT, type RequestFault, RequestHead, skipEmptyLines } from "./request-head.ts";
import {
  abandonResponse,
  isTooLate,
  type ResponseWriter,
  startStream,
  writeResponse,
  writeShared,
  writeWhole,
} from "./response-writer.ts";
import type { ManagedConnection } from "./server-context.ts";
import { SocketSide } from "./socket-side.ts";
import type { SocketWriter, UpgradedProtocol } from "./socket-writer.ts";

/** After this many pipelined requests in a row, the connection yields to other connections. */
const CONSECUTIVE_REQUESTS_MAX = 64;
const NO_BYTES = Buffer.alloc(0);

export class ServerConnection extends SocketSide implements SocketWriter, ResponseWriter, ManagedConnection {
  #request: IncomingRequest | null = null;
  /** The body of the current request, while it is still arriving. */
  #incoming: IncomingBody | null = null;
  /** Set after an upgrade. */
  #protocol: UpgradedProtocol | null = null;
  bodySource: Backpressure | null = null;
  /** Bytes that were read and not parsed: part of a head, or pipelined requests. */
  #unparsed: ReadAhead | null = null;
  #isHeadPartial = false;
  /** Whether another request may follow on this connection. */
  #keepsAlive = true;
  readonly #heads = new HeadReader();
  /** Requests that had arrived when the one before them got its response. */
  #queuedCount = 0;
  /** Bound callbacks for asynchronous responses, created with the first one. */
  #onResponse: ((response: HttpResponse | Upgrade) => void) | null = null;
  #onFailure: ((thrown: unknown) => void) | null = null;

  // Socket events.
  onData(bytes: Buffer): void {
    if (this.state === "between")
      this.#handleHead(this.#unparsed === null ? bytes : this.#joinUnparsed(this.#unparsed, bytes));
    else if (this.state === "upgraded") this.#protocol?.onData(bytes);
    else if (this.#incoming !== null) {
      this.#handleBody(this.#incoming, bytes, 0);
      // The response is complete, so the rest of the body was only skipped.
      if (this.state === "responded") this.#advance();
      else if (this.#incoming?.isAhead) this.pause();
    } else if (this.#keepsAlive) this.#bufferUnparsed(bytes);
    else freeBytes(bytes);
    if (this.#unparsed !== null || this.#incoming !== null || this.isOccupying) this.reportMemory();
  }

  onDrain(): void {
    this.sinceMs = this.context.nowMs;
    if (this.state === "over" || !this.sender.flush()) return;
    if (this.state === "ending") this.#endNow();
    else if (this.state === "upgraded") this.#protocol?.onDrain();
    else if (this.state === "responded") this.#advance();
    else this.bodySource?.resume();
    this.reportMemory();
  }

  onClose(): void {
    if (this.state === "over") return;
    this.state = "over";
    this.context.onClose(this);
    this.#incoming?.fail();
    try {
      this.bodySource?.abort();
      this.#protocol?.onClose();
    } catch (thrown) {
      this.context.reportFault(thrown);
    }
    this.sender.drop();
    this.disconnectController?.abort();
    this.#request = null;
    this.#incoming = null;
    this.#dropUnparsed();
    this.reportMemory();
  }

  /** This connection's handling threw: close it, so that its client does not wait for a response. */
  failResponse(thrown: unknown): void {
    this.context.reportFault(thrown);
    this.terminate();
  }

  checkTimeouts(nowMs: number): boolean {
    if (this.state === "upgraded") return false;
    const { state, trust, isPaused } = this;
    const isHeadPartial = this.#isHeadPartial;
    const timed = { state, trust, isPaused, isHeadPartial, hasUnsentBytes: this.sender.bytes > 0 };
    const action = findTimeout(timed, nowMs - this.sinceMs, this.context.limits);
    if (action === "terminate") this.terminate();
    else if (action === "discard_unread") this.#discardUnread();
    else if (action === "refuse") this.#reject(HEAD_TIMEOUT);
    else if (action === "end") this.end();
    this.reportMemory();
    return action !== null;
  }

  closeWhenIdle(): void {
    if (this.state === "between") this.end();
  }

  // Memory accounting.

  /** Bodies of authenticated clients are counted by other limits once they are read. */
  protected get unreadBytes(): number {
    const unparsed = this.#unparsed;
    const incoming = this.#incoming;
    const bytes = unparsed === null ? 0 : unparsed.occupiedBytes;
    const isCounted = incoming !== null && (this.trust !== "authenticated" || incoming.isUnrequested);
    return isCounted ? bytes + incoming.occupiedBytes : bytes;
  }

  yieldBytes(): void {
    if (this.trust !== "authenticated") this.terminate();
    else this.#discardUnread();
  }

  /** Discards pipelined requests. The client sends them again on another connection. */
  #discardUnread(): void {
    if (this.#incoming?.isUnrequested) this.#incoming.discard();
    if (this.#unparsed !== null) {
      this.#dropUnparsed();
      this.#keepsAlive = false;
      this.resume();
      if (this.state === "between" || this.state === "queued") this.end();
    }
    this.reportMemory();
  }

  #dropUnparsed(): void {
    this.#unparsed?.release();
    this.#unparsed = null;
  }

  // Reading.

  #joinUnparsed(unparsed: ReadAhead, bytes: Buffer): Buffer {
    const known = unparsed.length;
    unparsed.append(bytes);
    // A head that arrives in small pieces is not parsed for each piece.
    if (
      this.#isHeadPartial &&
      unparsed.length <= this.context.limits.headBytesMax &&
      !unparsed.mayEndHead(known)
    ) {
      return NO_BYTES;
    }
    this.#unparsed = null;
    return unparsed.take();
  }

  #handleHead(bytes: Buffer): void {
    const from = skipEmptyLines(bytes);
    // Half of an empty line is not the start of a head.
    const isHalfLine = from + 1 === bytes.length && bytes[from] === CR;
    if (isHalfLine) this.#unparsed = new ReadAhead(bytes.subarray(from));
    if (isHalfLine || from === bytes.length) return;
    const head = this.#heads.read(bytes, from, this.context.limits.headBytesMax);
    if (head === null) {
      if (!this.#isHeadPartial) this.sinceMs = this.context.nowMs;
      this.#isHeadPartial = true;
      this.#unparsed = new ReadAhead(from === 0 ? bytes : bytes.subarray(from));
    } else if (head instanceof RequestHead) {
      this.#isHeadPartial = false;
      this.#begin(head, bytes);
    } else this.#reject(head);
  }

  #begin(head: RequestHead, bytes: Buffer): void {
    this.state = "within";
    if (this.trust === "silent") this.trust = "anonymous";
    this.sinceMs = this.context.nowMs;
    this.#keepsAlive = head.options.keepsAlive;
    const { framing, bodyAt } = head;
    const bodyTo = bodyAt + framing;
    if (framing !== CHUNKED && bodyTo <= bytes.length) {
      if (bodyTo < bytes.length) this.#bufferUnparsed(bytes.subarray(bodyTo));
      this.#serve(head, framing === 0 ? null : new WholeBody(bytes, bodyAt, bodyTo));
      return;
    }
    const body = new IncomingBody(framing, this);
    this.#incoming = body;
    this.#handleBody(body, bytes, bodyAt);
    this.#serve(head, body);
    // Not earlier: a handler that reads the body at once receives everything that arrives.
    if (this.#incoming?.isAhead) this.pause();
  }

  #serve(head: RequestHead, body: HttpBody | null): void {
    this.#request = new IncomingRequest(this, head, body);
    const response = this.context.serve(this.#request);
    if (response instanceof Promise) {
      this.#onResponse ??= this.#handleResponse.bind(this);
      this.#onFailure ??= this.failResponse.bind(this);
      response.then(this.#onResponse, this.#onFailure);
    } else this.#handleResponse(response);
  }

  #handleBody(body: IncomingBody, bytes: Buffer, from: number): void {
    const at = body.push(bytes, from);
    if (!body.isOver) return;
    this.#incoming = null;
    // The socket may be paused for the reader of the body. Resume it, so that a disconnect is noticed.
    this.resume();
    if (body.isBroken) this.#keepsAlive = false;
    else if (at < bytes.length) this.#bufferUnparsed(bytes.subarray(at));
  }

  #bufferUnparsed(bytes: Buffer): void {
    if (this.#unparsed === null) this.#unparsed = new ReadAhead(bytes);
    else this.#unparsed.append(bytes);
    if (this.#isReadAheadFull) this.pause();
  }

  /** Whether to stop reading: for a turn, for earlier requests, or for the reader of a body. */
  get #isReadAheadFull(): boolean {
    if (this.state === "queued" || this.#incoming?.isAhead === true) return true;
    return this.#unparsed !== null && this.#unparsed.length > this.context.limits.readAheadBytesMax;
  }

  // BodySource.
  onBodyRequested(): void {
    if (this.#request?.head.options.expectsContinue) this.write(CONTINUE);
  }

  // Writing.

  #reject(fault: RequestFault): void {
    this.state = "within";
    this.#keepsAlive = false;
    this.#unparsed = null;
    writeWhole(this, this.context.reject(fault), false);
  }

  /** Catches everything, because there is no caller that could handle an exception. */
  #handleResponse(response: HttpResponse | Upgrade): void {
    try {
      if (this.#request === null) abandonResponse(response);
      else this.#respond(this.#request, response);
    } catch (thrown) {
      this.failResponse(thrown);
    }
  }

  #respond(request: IncomingRequest, response: HttpResponse | Upgrade): void {
    const isBodyless = request.method === "HEAD";
    // Without 100 Continue, the client may send its body anyway or its next request instead.
    const mayWithhold = request.head.options.expectsContinue && this.#incoming?.isWanted === false;
    if (mayWithhold || this.context.phase !== "open" || isTooLate(response)) this.#keepsAlive = false;
    this.#incoming?.discard();
    if (response instanceof WholeResponse) writeWhole(this, response, isBodyless);
    else if (response instanceof StreamedResponse) startStream(this, response, isBodyless);
    else if (response instanceof SharedResponse) writeShared(this, response, isBodyless);
    else if (response instanceof Upgrade) this.#upgrade(request, response);
    else void writeResponse(this, response, isBodyless);
  }

  #upgrade(request: IncomingRequest, { head, open }: Upgrade): void {
    // The boundary between the body and the other protocol would depend on how much of the body has arrived.
    if (request.head.framing !== 0) {
      this.#reject({ kind: "malformed", reason: "a protocol upgrade with a body" });
      return;
    }
    this.write(head);
    this.#request = null;
    this.state = "upgraded";
    this.#heads.forget();
    this.#protocol = open(this);
    const unparsed = this.#unparsed;
    this.#unparsed = null;
    this.resume();
    if (unparsed !== null) this.#protocol.onData(unparsed.take());
  }

  get connectionLines(): string {
    const { dateLine } = this.context;
    if (!this.#keepsAlive) return `${dateLine}connection: close\r\n`;
    return this.#request?.head.options.isHttp10 ? `${dateLine}connection: keep-alive\r\n` : dateLine;
  }

  /** HTTP/1.0 has no chunks: the end of the connection is the end of the response. */
  endsByClosing(): boolean {
    if (!this.#request?.head.options.isHttp10) return false;
    this.#keepsAlive = false;
    return true;
  }

  endResponse(): void {
    this.bodySource = null;
    this.#request = null;
    if (this.state === "over") return;
    this.state = "responded";
    this.sinceMs = this.context.nowMs;
    this.#advance();
  }

  /** Continues with the next request once the body is skipped and the client has read most of its response. */
  #advance(): void {
    const { readAheadBytesMax: aheadBytesMax } = this.context.limits;
    if (this.sender.batchedBytes > aheadBytesMax) this.sender.flushBatched();
    if (this.#keepsAlive && (this.#incoming !== null || this.sender.bytes > aheadBytesMax)) return;
    this.sinceMs = this.context.nowMs;
    if (!this.#keepsAlive || (this.#unparsed === null && this.context.phase === "closing")) this.end();
    else if (this.#unparsed !== null) this.#queue();
    else this.state = "between";
  }

  #queue(): void {
    this.state = "queued";
    this.#queuedCount++;
    const read = () => this.#readUnparsed();
    // Not on the current stack: a client that pipelines thousands of requests would overflow it.
    if (this.trust !== "authenticated") this.context.unauthenticatedTurns.add(read);
    else if (this.#queuedCount % CONSECUTIVE_REQUESTS_MAX !== 0) queueMicrotask(read);
    else {
      this.pause();
      setImmediate(read);
    }
  }

  #readUnparsed(): void {
    const ahead = this.#unparsed;
    if (this.state !== "queued" || ahead === null) return;
    this.#unparsed = null;
    this.state = "between";
    try {
      this.#handleHead(ahead.take());
      if (!this.#isReadAheadFull) this.resume();
      this.reportMemory();
    } catch (thrown) {
      this.failResponse(thrown);
    }
  }

  end(): void {
    if (this.state === "ending" || this.state === "lingering" || this.state === "over") return;
    this.state = "ending";
    this.#keepsAlive = false;
    this.#incoming = null;
    this.#dropUnparsed();
    this.resume();
    this.sender.flushBatched();
    if (this.sender.bytes === 0) this.#endNow();
  }

  #endNow(): void {
    this.state = "lingering";
    this.context.onResponseEnd(this);
    this.sinceMs = this.context.nowMs;
    // Half-close: bytes of the client are still read, and the client closes when it has seen the end.
    this.socket.shutdown();
  }

  /** A connection that has its complete response is closed in order. */
  closeNow(): void {
    if (this.state === "lingering") this.socket.end();
    this.terminate();
  }

  terminate(): void {
    if (this.state === "over") return;
    // Batched responses are sent first.
    this.sender.flushBatched();
    this.socket.terminate();
    this.onClose();
  }
}
