/**
 * One request and its response on one connection, or on a second one when the first was idle for too long.
 *
 * Every event (bytes, the end of the connection, `resume`) is stored in fields and then calls `advance`, the only
 * place that calls the response sink. So calls are ordered, never nested, and never made while paused.
 */

import { type Part, wholeBytesPart } from "../../base/parts.ts";
import { FramedBody } from "../wire/framed-body.ts";
import { containsHeadEnd, UNTIL_CLOSE } from "../wire/http-fields.ts";
import type { ClientConnectionSocket, ConnectionEnd, ConnectionUser } from "./connection.ts";
import type { ConnectionRoute, Connections } from "./connections.ts";
import type { HttpExchange, HttpFailure, OutgoingRequest, ResponseSink } from "./contract.ts";
import { buildHead, encodeHead, findHeadFault } from "./request-head.ts";
import { parseResponseHead, type ResponseHead } from "./response-head.ts";
import { Upload } from "./upload.ts";
import { isFreed, type RequestSender, writeParts, writeRequest } from "./whole-request.ts";

interface ExchangeContext {
  readonly connections: Connections;
  readonly headBytesMax: number;
  monotonicMs(): number;
}

/** A longer read is passed on in pieces, between which a sink that works on them can pause. */
const PIECE_BYTES_MAX = 64 * 1024;
const STALE_MS = 250;

const NO_PARTS: readonly Part[] = [];

/** A class, so that an exchange costs one object and no closures. */
export class ClientExchange implements HttpExchange, ConnectionUser, RequestSender {
  readonly #context: ExchangeContext;
  readonly #request: OutgoingRequest;
  readonly #sink: ResponseSink;
  #route: ConnectionRoute | null = null;
  #connection: ClientConnectionSocket | null = null;
  /** The connection has served a request before: if it breaks now, the upstream may still be healthy. */
  #isReused = false;
  #isStarting = true;
  #isOver = false;

  /** Parts that are still to be written, in order. */
  #unsent: readonly Part[] = NO_PARTS;
  /** The connection of the request that waits in the write batcher. */
  #batchedOn: ClientConnectionSocket | null = null;
  #upload: Upload | null = null;
  #isSent = false;
  #sentAtMs = 0;
  hasBegun = false;

  #isPaused = false;
  #isAdvancing = false;
  /** The read that is being processed. Further reads wait for the end of a pause or for the complete head. */
  #read: Buffer | null = null;
  #queuedReads: Buffer[] | null = null;
  #connectionEnd: ConnectionEnd | null = null;
  #hasReceived = false;
  /** The bytes of the head so far are incomplete. */
  #isHeadPartial = false;
  #headFrom = 0;
  #skippedBytes = 0;
  #body: FramedBody | null = null;
  #keepsAlive = false;

  constructor(context: ExchangeContext, request: OutgoingRequest, sink: ResponseSink) {
    this.#context = context;
    this.#request = request;
    this.#sink = sink;
  }

  start(): void {
    const error = findHeadFault(this.#request);
    if (error === null) this.#startOn(this.#context.connections);
    else this.#endSoon({ kind: "bad_http", reason: error });
    this.#isStarting = false;
  }

  #startOn(connections: Connections): void {
    try {
      this.#route = connections.resolveRoute(this.#request.target);
    } catch {
      this.#endSoon({ kind: "refused", reason: "the target is not an address" });
      return;
    }
    const idle = connections.takeIdle(this.#route.slot);
    if (idle === null) {
      this.#connection = connections.open(this.#route.slot, this);
      return;
    }
    this.#isReused = true;
    this.#connection = idle;
    idle.user = this;
    this.#write(idle, this.#route);
  }

  pause(): void {
    if (this.#isOver) return;
    this.#isPaused = true;
    // Otherwise the socket is paused when the next read arrives. Many pauses end before that.
    if (!this.#isAdvancing && this.#holdsBytes()) this.#connection?.pause();
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    if (!this.#isAdvancing) this.#advance();
  }

  abort(): void {
    if (this.#isOver) return;
    this.#connection?.destroy();
    this.#markOver();
  }

  onOpen(): void {
    if (this.#isOver || this.#connection === null || this.#route === null) return;
    this.#write(this.#connection, this.#route);
  }

  onData(_connection: ClientConnectionSocket, bytes: Buffer): void {
    this.#hasReceived = true;
    if (this.#read === null && this.#queuedReads === null) this.#begin(bytes);
    else if (this.#queuedReads === null) this.#queuedReads = [bytes];
    else this.#queuedReads.push(bytes);
    if (this.#isPaused) this.#connection?.pause();
    else this.#advance();
  }

  onDrain(): void {
    if (this.#upload !== null) this.#upload.onDrain();
    else if (this.#unsent.some(isFreed)) this.abort();
    else if (this.#unsent.length > 0 && this.#connection !== null) {
      this.#recordUnsent(writeParts(this.#connection, this.#unsent));
    }
  }

  onClose(connection: ClientConnectionSocket, end: ConnectionEnd): void {
    if (this.#isStarting) {
      queueMicrotask(() => this.onClose(connection, end));
      return;
    }
    if (this.#isOver || connection !== this.#connection) return;
    this.#upload?.stop();
    this.#connectionEnd = end;
    this.#advance();
  }

  onUploadEnd(error: string | null): void {
    if (error === null) this.#isSent = true;
    if (error === null || this.#isOver) return;
    this.#connection?.destroy();
    this.#isReused = false;
    this.#connectionEnd = { kind: "reset", reason: error };
    this.#advance();
  }

  #write(connection: ClientConnectionSocket, route: ConnectionRoute): void {
    const { body } = this.#request;
    const head = buildHead(this.#request, route.hostLine);
    if (body !== null && "open" in body) {
      this.beginWrite();
      this.#upload = new Upload({ head: encodeHead(head), body, connection, listener: this });
      this.#upload.start();
      return;
    }
    const unsent = writeRequest(connection, this, head, body ?? NO_PARTS);
    if (unsent === null) this.#batchedOn = connection;
    else this.#recordUnsent(unsent);
  }

  beginWrite(): void {
    this.hasBegun = true;
    this.#sentAtMs = this.#context.monotonicMs();
    this.#request.beforeWrite?.();
  }

  /** Called by the write batcher. */
  send(bytes: Uint8Array, from: number, to: number): void {
    const connection = this.#connection;
    // The exchange has ended, or it restarts on another connection.
    if (connection === null || connection !== this.#batchedOn) return;
    this.#batchedOn = null;
    this.beginWrite();
    const written = connection.write(bytes, from, to);
    const unsentBytes = to - from - written;
    this.#recordUnsent(
      unsentBytes === 0
        ? NO_PARTS
        : [wholeBytesPart(Buffer.copyBytesFrom(bytes, from + written, unsentBytes))],
    );
  }

  #recordUnsent(unsent: readonly Part[]): void {
    this.#unsent = unsent;
    this.#isSent = unsent.length === 0;
  }

  /** Processes everything that is available, then pauses or resumes the socket as the sink requested. */
  #advance(): void {
    if (this.#isAdvancing) return;
    this.#isAdvancing = true;
    try {
      while (!this.#isPaused && !this.#isOver && this.#step());
    } catch {
      // Only the sink can have thrown. It may still hold a request open, so it is notified of the end.
      if (!this.#isOver) this.#failNow({ kind: "reset", reason: "the response sink threw an error" });
    }
    this.#isAdvancing = false;
    if (this.#isOver || this.#connection === null) return;
    if (!this.#isPaused) this.#connection.resume();
    else if (this.#holdsBytes()) this.#connection.pause();
  }

  #holdsBytes(): boolean {
    return this.#read !== null || this.#queuedReads !== null;
  }

  /** Makes at most one call of the sink. Returns false when nothing is left to do. */
  #step(): boolean {
    const read = this.#read;
    const body = this.#body;
    if (read === null) return this.#nextRead();
    if (body === null) return this.#stepHead(read);
    const piece = body.next(read, Math.min(read.length, body.at + PIECE_BYTES_MAX));
    if (piece !== null) {
      // After the last piece of a read, nothing has to be held while paused.
      if (body.at === read.length && !body.hasEnded) this.#read = null;
      this.#sink.data(piece);
      return true;
    }
    if (body.fault !== null) this.#failNow({ kind: "bad_http", reason: body.fault });
    else if (body.hasEnded) this.#endNow(body.at < read.length);
    else if (body.at >= read.length) this.#read = null;
    return true;
  }

  #stepHead(read: Buffer): boolean {
    const { headBytesMax } = this.#context;
    const head = this.#isHeadPartial ? null : parseResponseHead(read, this.#headFrom);
    if (typeof head === "string") {
      this.#failNow({ kind: "bad_http", reason: head });
      return true;
    }
    const bytes = this.#skippedBytes + (head === null ? read.length : head.bodyAt) - this.#headFrom;
    if (bytes > headBytesMax) {
      this.#failNow({ kind: "bad_http", reason: `the response head exceeds ${headBytesMax} bytes` });
    } else if (head === null) return this.#waitForHead(read);
    else if (head.status === 101)
      this.#failNow({ kind: "bad_http", reason: "an upgrade that was not requested" });
    else if (head.status >= 200) this.#beginBody(head);
    else {
      // Interim responses are counted, so that they cannot continue forever.
      this.#skippedBytes = bytes;
      this.#headFrom = head.bodyAt;
    }
    return true;
  }

  #beginBody(head: ResponseHead): void {
    this.#keepsAlive = head.keepsAlive;
    this.#body = new FramedBody(head.framing, true);
    this.#body.at = head.bodyAt;
    this.#sink.head(head.status, head);
  }

  /** The head is incomplete: takes the next waiting read, or waits for the connection unless it has ended. */
  #waitForHead(read: Buffer): boolean {
    this.#isHeadPartial = true;
    const more = this.#takeQueuedRead();
    if (more === null) return this.#closeIfEnded();
    const known = read.length - this.#headFrom;
    const joined = Buffer.concat([read.subarray(this.#headFrom), more]);
    this.#read = joined;
    this.#headFrom = 0;
    // A head that arrives in small pieces is not parsed for each piece.
    this.#isHeadPartial = !containsHeadEnd(joined, known, joined.length);
    return true;
  }

  #nextRead(): boolean {
    const next = this.#takeQueuedRead();
    if (next === null) return this.#closeIfEnded();
    this.#begin(next);
    return true;
  }

  #begin(read: Buffer): void {
    this.#read = read;
    if (this.#body !== null) this.#body.at = 0;
  }

  #takeQueuedRead(): Buffer | null {
    const next = this.#queuedReads?.shift() ?? null;
    if (this.#queuedReads?.length === 0) this.#queuedReads = null;
    return next;
  }

  #closeIfEnded(): boolean {
    if (this.#connectionEnd === null) return false;
    this.#closeNow(this.#connectionEnd);
    return true;
  }

  /** The connection has ended, and all received bytes were passed on. */
  #closeNow(end: ConnectionEnd): void {
    const isFin = end.kind === "fin";
    if (this.#mayResend() && this.#route !== null) {
      this.#isReused = false;
      this.#connectionEnd = null;
      this.#unsent = NO_PARTS;
      this.#upload = null;
      this.#isSent = false;
      this.#connection = this.#context.connections.open(this.#route.slot, this);
    } else if (isFin && this.#body?.framing === UNTIL_CLOSE) this.#endNow(false);
    else
      this.#failNow(
        isFin ? { kind: "reset", reason: "the connection was closed before the end of the response" } : end,
      );
  }

  /**
   * An idle connection that the upstream closed at the same moment breaks at once, and the upstream did not process
   * the request. After `STALE_MS` it may have been processed, so the caller decides whether to retry.
   */
  #mayResend(): boolean {
    if (!this.#isReused || this.#hasReceived) return false;
    return !this.#isSent || this.#context.monotonicMs() - this.#sentAtMs < STALE_MS;
  }

  #endNow(hasExcess: boolean): void {
    const connection = this.#connection;
    const isReusable = this.#keepsAlive && this.#isSent && !hasExcess && this.#connectionEnd === null;
    this.#markOver();
    // Before the sink is called, so that its next request can use the connection.
    if (isReusable && connection !== null) this.#context.connections.returnIdle(connection);
    else if (this.#isSent) connection?.close();
    else connection?.destroy();
    this.#sink.end();
  }

  #failNow(failure: HttpFailure): void {
    this.#connection?.destroy();
    this.#markOver();
    try {
      this.#sink.fail(failure);
    } catch {
      // It was the last call, so the exception cannot be reported.
    }
  }

  #endSoon(failure: HttpFailure): void {
    queueMicrotask(() => {
      if (!this.#isOver) this.#failNow(failure);
    });
  }

  #markOver(): void {
    this.#isOver = true;
    this.#upload?.stop();
    this.#connection = null;
    this.#read = null;
    this.#queuedReads = null;
    this.#unsent = NO_PARTS;
  }
}
