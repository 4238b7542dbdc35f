/**
 * One client connection: reads heads and bodies and writes responses, one request at a time. A request that arrives
 * while another is served waits for its turn.
 */

import { freeBytes } from "../wire/bytes.ts";
import { CHUNKED, CR } from "../wire/http-fields.ts";
import {
  type HttpBody,
  type HttpResponse,
  SharedResponse,
  StreamedResponse,
  WholeResponse,
} from "../wire/http-message.ts";
import { HeadReader } from "./head-reader.ts";
import { IncomingBody, WholeBody } from "./incoming-body.ts";
import { IncomingRequest, Upgrade } from "./incoming-request.ts";
import { ReadAhead } from "./read-ahead.ts";
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
  private request: IncomingRequest | null = null;
  /** The body of the current request, while it is still arriving. */
  private incoming: IncomingBody | null = null;
  /** Set after an upgrade. */
  private protocol: UpgradedProtocol | null = null;
  /** Notifies the source of the current stream that the client disconnected. */
  private leave: (() => void) | null = null;
  /** Bytes that were read and not parsed: part of a head, or pipelined requests. */
  private ahead: ReadAhead | null = null;
  private isHeadPartial = false;
  /** Whether another request may follow on this connection. */
  private keepsAlive = true;
  private readonly heads = new HeadReader();
  /** Requests that had arrived when the one before them was answered. */
  private queuedCount = 0;
  /** Bound callbacks for asynchronous responses, created with the first one. */
  private answered: ((response: HttpResponse | Upgrade) => void) | null = null;
  private broke: ((thrown: unknown) => void) | null = null;

  // Socket events.
  received(bytes: Buffer): void {
    if (this.state === "between")
      this.receivedHead(this.ahead === null ? bytes : this.joined(this.ahead, bytes));
    else if (this.state === "upgraded") this.protocol?.received(bytes);
    else if (this.incoming !== null) {
      this.receivedBody(this.incoming, bytes, 0);
      // The response is complete, so the rest of the body was only skipped.
      if (this.state === "answered") this.goOn();
      else if (this.incoming?.isAhead) this.pause();
    } else if (this.keepsAlive) this.keepAhead(bytes);
    else freeBytes(bytes);
    if (this.ahead !== null || this.incoming !== null || this.isOccupying) this.account();
  }

  drained(): void {
    this.sinceMs = this.hall.nowMs;
    if (this.state === "over" || !this.sender.flush()) return;
    if (this.state === "ending") this.endNow();
    else if (this.state === "upgraded") this.protocol?.drained();
    else if (this.state === "answered") this.goOn();
    this.account();
  }

  closed(): void {
    if (this.state === "over") return;
    this.state = "over";
    this.hall.left(this);
    this.incoming?.fail();
    try {
      this.leave?.();
      this.protocol?.closed();
    } catch (thrown) {
      this.hall.fault(thrown);
    }
    this.sender.drop();
    this.leaving?.abort();
    this.request = null;
    this.incoming = null;
    this.dropAhead();
    this.account();
  }

  /**
   * An exception was thrown while handling this connection. Close it, so that the client does not wait for a
   * response.
   */
  failed(thrown: unknown): void {
    this.hall.fault(thrown);
    this.terminate();
  }

  look(nowMs: number): void {
    if (this.state === "upgraded") return;
    const { headMs, idleMs, firstByteMs, unaskedMs, lingerMs, stallMs } = this.hall.limits;
    const ms = nowMs - this.sinceMs;
    if (this.sender.bytes > 0) {
      if (ms > stallMs) this.terminate();
    } else if (this.state === "answered" || this.state === "lingering") {
      if (ms > lingerMs) this.terminate();
    } else if (this.state === "within") {
      // While the socket is paused, a disconnect of the client goes unnoticed.
      if (ms > unaskedMs && this.isPaused) this.discardUnread();
    } else if (this.state === "between") {
      const isDue = ms > (this.isHeadPartial ? headMs : this.trust === "silent" ? firstByteMs : idleMs);
      if (isDue && this.isHeadPartial) this.refuse(HEAD_TIMEOUT);
      else if (isDue) this.end();
    }
    this.account();
  }

  retire(): void {
    if (this.state === "between") this.end();
  }

  // Memory accounting.

  /** Bodies of authenticated clients are counted by other limits once they are read. */
  protected get unreadBytes(): number {
    const { ahead, incoming } = this;
    const bytes = ahead === null ? 0 : ahead.occupiedBytes;
    const isCounted = incoming !== null && (this.trust !== "authenticated" || incoming.isUnasked);
    return isCounted ? bytes + incoming.occupiedBytes : bytes;
  }

  yieldBytes(): void {
    if (this.trust !== "authenticated") this.terminate();
    else this.discardUnread();
  }

  /** Discards pipelined requests. The client sends them again on another connection. */
  private discardUnread(): void {
    if (this.incoming?.isUnasked) this.incoming.throwAway();
    if (this.ahead !== null) {
      this.dropAhead();
      this.keepsAlive = false;
      this.resume();
      if (this.state === "between" || this.state === "queued") this.end();
    }
    this.account();
  }

  private dropAhead(): void {
    this.ahead?.release();
    this.ahead = null;
  }

  // Reading.

  private joined(ahead: ReadAhead, bytes: Buffer): Buffer {
    const known = ahead.length;
    ahead.append(bytes);
    // A head that arrives in small pieces is not parsed for each piece.
    if (this.isHeadPartial && ahead.length <= this.hall.limits.headBytesMax && !ahead.mayEndHead(known)) {
      return NO_BYTES;
    }
    this.ahead = null;
    return ahead.take();
  }

  private receivedHead(bytes: Buffer): void {
    const from = skipEmptyLines(bytes);
    // Half of an empty line is not the start of a head.
    const isHalfLine = from + 1 === bytes.length && bytes[from] === CR;
    if (isHalfLine) this.ahead = new ReadAhead(bytes.subarray(from));
    if (isHalfLine || from === bytes.length) return;
    const head = this.heads.read(bytes, from, this.hall.limits.headBytesMax);
    if (head === null) {
      if (!this.isHeadPartial) this.sinceMs = this.hall.nowMs;
      this.isHeadPartial = true;
      this.ahead = new ReadAhead(from === 0 ? bytes : bytes.subarray(from));
    } else if (head instanceof RequestHead) {
      this.isHeadPartial = false;
      this.begin(head, bytes);
    } else this.refuse(head);
  }

  private begin(head: RequestHead, bytes: Buffer): void {
    this.state = "within";
    if (this.trust === "silent") this.trust = "anonymous";
    this.sinceMs = this.hall.nowMs;
    this.keepsAlive = head.asked.keepsAlive;
    const { framing, bodyAt } = head;
    const bodyTo = bodyAt + framing;
    if (framing !== CHUNKED && bodyTo <= bytes.length) {
      if (bodyTo < bytes.length) this.keepAhead(bytes.subarray(bodyTo));
      this.serve(head, framing === 0 ? null : new WholeBody(bytes, bodyAt, bodyTo));
      return;
    }
    const body = new IncomingBody(framing, this);
    this.incoming = body;
    this.receivedBody(body, bytes, bodyAt);
    this.serve(head, body);
    // Not earlier: a handler that reads the body at once receives everything that arrives.
    if (this.incoming?.isAhead) this.pause();
  }

  private serve(head: RequestHead, body: HttpBody | null): void {
    this.request = new IncomingRequest(this, head, body);
    const response = this.hall.serve(this.request);
    if (response instanceof Promise) {
      this.answered ??= this.answer.bind(this);
      this.broke ??= this.failed.bind(this);
      response.then(this.answered, this.broke);
    } else this.answer(response);
  }

  private receivedBody(body: IncomingBody, bytes: Buffer, from: number): void {
    const at = body.push(bytes, from);
    if (!body.isOver) return;
    this.incoming = null;
    // The socket may be paused for the reader of the body. Resume it, so that a disconnect is noticed.
    this.resume();
    if (body.isBroken) this.keepsAlive = false;
    else if (at < bytes.length) this.keepAhead(bytes.subarray(at));
  }

  private keepAhead(bytes: Buffer): void {
    if (this.ahead === null) this.ahead = new ReadAhead(bytes);
    else this.ahead.append(bytes);
    if (this.isFarAhead) this.pause();
  }

  /** Whether to stop reading: for a turn, for earlier requests, or for the reader of a body. */
  private get isFarAhead(): boolean {
    if (this.state === "queued" || this.incoming?.isAhead === true) return true;
    return this.ahead !== null && this.ahead.length > this.hall.limits.aheadBytesMax;
  }

  // BodySource.

  wanted(): void {
    if (this.request?.head.asked.expectsContinue) this.write(CONTINUE);
  }

  // Writing.

  private refuse(fault: RequestFault): void {
    this.state = "within";
    this.keepsAlive = false;
    this.ahead = null;
    writeWhole(this, this.hall.refuse(fault), false);
  }

  /** Catches everything, because there is no caller that could handle an exception. */
  private answer(response: HttpResponse | Upgrade): void {
    try {
      if (this.request === null) abandonResponse(response);
      else this.say(this.request, response);
    } catch (thrown) {
      this.failed(thrown);
    }
  }

  private say(request: IncomingRequest, response: HttpResponse | Upgrade): void {
    const isBodyless = request.method === "HEAD";
    // Without 100 Continue, the client may send its body anyway or its next request instead.
    const mayWithhold = request.head.asked.expectsContinue && this.incoming?.isWanted === false;
    if (mayWithhold || this.hall.isClosing || isTooLate(response)) this.keepsAlive = false;
    this.incoming?.throwAway();
    if (response instanceof WholeResponse) writeWhole(this, response, isBodyless);
    else if (response instanceof StreamedResponse) startStream(this, response, isBodyless);
    else if (response instanceof SharedResponse) writeShared(this, response, isBodyless);
    else if (response instanceof Upgrade) this.upgrade(request, response);
    else void writeResponse(this, response, isBodyless);
  }

  private upgrade(request: IncomingRequest, { head, open }: Upgrade): void {
    // The boundary between the body and the other protocol would depend on how much of the body has arrived.
    if (request.head.framing !== 0) {
      this.refuse({ kind: "malformed", reason: "a change of protocol with a body" });
      return;
    }
    this.write(head);
    this.request = null;
    this.state = "upgraded";
    this.heads.forget();
    this.protocol = open(this);
    const { ahead } = this;
    this.ahead = null;
    this.resume();
    if (ahead !== null) this.protocol.received(ahead.take());
  }

  /** Header lines that belong to the connection. */
  get connectionLines(): string {
    const { dateLine } = this.hall;
    if (!this.keepsAlive) return `${dateLine}connection: close\r\n`;
    return this.request?.head.asked.isHttp10 ? `${dateLine}connection: keep-alive\r\n` : dateLine;
  }

  /** HTTP/1.0 has no chunks: the end of the connection is the end of the response. */
  endsByClosing(): boolean {
    if (!this.request?.head.asked.isHttp10) return false;
    this.keepsAlive = false;
    return true;
  }

  whenLeft(leave: () => void): void {
    this.leave = leave;
  }

  /** The response is complete. */
  finished(): void {
    this.leave = null;
    this.request = null;
    if (this.state === "over") return;
    this.state = "answered";
    this.sinceMs = this.hall.nowMs;
    this.goOn();
  }

  /** Continues with the next request once the body is skipped and the client has read most of its response. */
  private goOn(): void {
    const { aheadBytesMax } = this.hall.limits;
    if (this.sender.postedBytes > aheadBytesMax) this.sender.hurry();
    if (this.keepsAlive && (this.incoming !== null || this.sender.bytes > aheadBytesMax)) return;
    this.sinceMs = this.hall.nowMs;
    if (!this.keepsAlive || (this.ahead === null && this.hall.isClosing)) this.end();
    else if (this.ahead !== null) this.queue();
    else this.state = "between";
  }

  private queue(): void {
    this.state = "queued";
    this.queuedCount++;
    const read = () => this.readAhead();
    // Not on the current stack: a client that pipelines thousands of requests would overflow it.
    if (this.trust !== "authenticated") this.hall.strangerTurns.add(read);
    else if (this.queuedCount % CONSECUTIVE_REQUESTS_MAX !== 0) queueMicrotask(read);
    else {
      this.pause();
      setImmediate(read);
    }
  }

  private readAhead(): void {
    const { ahead } = this;
    if (this.state !== "queued" || ahead === null) return;
    this.ahead = null;
    this.state = "between";
    try {
      this.receivedHead(ahead.take());
      if (!this.isFarAhead) this.resume();
      this.account();
    } catch (thrown) {
      this.failed(thrown);
    }
  }

  end(): void {
    if (this.state === "ending" || this.state === "lingering" || this.state === "over") return;
    this.state = "ending";
    this.keepsAlive = false;
    this.incoming = null;
    this.dropAhead();
    this.resume();
    this.sender.hurry();
    if (this.sender.bytes === 0) this.endNow();
  }

  private endNow(): void {
    this.state = "lingering";
    this.hall.ended(this);
    this.sinceMs = this.hall.nowMs;
    // Half-close: bytes of the client are still read, and the client closes when it has seen the end.
    this.socket.shutdown();
  }

  /** A connection that has its complete response is closed in order. */
  cut(): void {
    if (this.state === "lingering") this.socket.end();
    this.terminate();
  }

  terminate(): void {
    if (this.state === "over") return;
    // Batched responses are sent first.
    this.sender.hurry();
    this.socket.terminate();
    this.closed();
  }
}
