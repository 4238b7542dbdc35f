/**
 * One request and its answer, on one connection, or on a second one when the first had been kept too long.
 *
 * Whatever happens (bytes, the end of the connection, `resume`) leaves its trace in the fields and calls `advance`,
 * the only place that calls the taker. So calls come in order, never one within another, and not at all while paused.
 */

import { FramedBody } from "../wire/framed-body.ts";
import { UNTIL_CLOSE } from "../wire/http-fields.ts";
import { type Part, wholeBytesPart } from "../wire/parts.ts";
import type { BatchedWriter } from "../wire/write-batcher.ts";
import { parseResponseHead, type ResponseHead } from "./answer-head.ts";
import type { ClientConnectionSocket, ConnectionEnd, ConnectionUser } from "./connection.ts";
import type { ConnectionRoute, Connections } from "./connections.ts";
import type { HttpExchange, HttpFailure, OutgoingRequest, ResponseHandler } from "./contract.ts";
import { buildHead, encodeHead, findHeadFault } from "./request-head.ts";
import { startUpload, type Upload } from "./upload.ts";
import { isFreed, writeParts, writeRequest } from "./whole-request.ts";

export interface ExchangeContext {
  readonly connections: Connections;
  readonly headBytesMax: number;
  monotonicMs(): number;
}

const LF = 10;
const STALE_MS = 250;

const NO_PARTS: readonly Part[] = [];

/** A class, so that an exchange costs one object and no closures. */
export class ClientExchange implements HttpExchange, ConnectionUser, BatchedWriter {
  private readonly context: ExchangeContext;
  private readonly request: OutgoingRequest;
  private readonly taker: ResponseHandler;
  private route: ConnectionRoute | null = null;
  private connection: ClientConnectionSocket | null = null;
  /** The connection had served before: that it breaks now says nothing about the upstream. */
  private isReused = false;
  private isStarting = true;
  private isOver = false;

  /** What is still to be written, first to last. */
  private unsent: readonly Part[] = NO_PARTS;
  /** Where the request is to go that waits in the outbox. */
  private postedTo: ClientConnectionSocket | null = null;
  private upload: Upload | null = null;
  private isSent = false;
  private sentAtMs = 0;
  hasBegun = false;

  private isPaused = false;
  private isAdvancing = false;
  /** The read that is being worked on; further ones wait for a pause to end, or for the head to be whole. */
  private read: Buffer | null = null;
  private later: Buffer[] | null = null;
  private ended: ConnectionEnd | null = null;
  private hasHeard = false;
  /** What came of the head so far is no whole one. */
  private isHeadPartial = false;
  private headFrom = 0;
  private skippedBytes = 0;
  private body: FramedBody | null = null;
  private keepsAlive = false;

  constructor(context: ExchangeContext, request: OutgoingRequest, taker: ResponseHandler) {
    this.context = context;
    this.request = request;
    this.taker = taker;
  }

  start(): void {
    const fault = findHeadFault(this.request);
    if (fault === null) this.startOn(this.context.connections);
    else this.endSoon({ kind: "bad_http", reason: fault });
    this.isStarting = false;
  }

  private startOn(connections: Connections): void {
    try {
      this.route = connections.routeOf(this.request.target);
    } catch {
      this.endSoon({ kind: "refused", reason: "the target is no address" });
      return;
    }
    const idle = connections.takeIdle(this.route.place);
    if (idle === null) {
      this.connection = connections.open(this.route.place, this);
      return;
    }
    this.isReused = true;
    this.connection = idle;
    idle.user = this;
    this.write(idle, this.route);
  }

  pause(): void {
    if (this.isOver) return;
    this.isPaused = true;
    // Otherwise the socket is paused by the first read that comes: many a pause is over before.
    if (!this.isAdvancing && this.holdsBytes()) this.connection?.pause();
  }

  resume(): void {
    if (!this.isPaused) return;
    this.isPaused = false;
    if (!this.isAdvancing) this.advance();
  }

  abort(): void {
    if (this.isOver) return;
    this.connection?.destroy();
    this.letGo();
  }

  opened(): void {
    if (this.isOver || this.connection === null || this.route === null) return;
    this.write(this.connection, this.route);
  }

  received(_connection: ClientConnectionSocket, bytes: Buffer): void {
    this.hasHeard = true;
    if (this.read === null && this.later === null) this.begin(bytes);
    else if (this.later === null) this.later = [bytes];
    else this.later.push(bytes);
    if (this.isPaused) this.connection?.pause();
    else this.advance();
  }

  drained(): void {
    if (this.upload !== null) this.upload.drained();
    else if (this.unsent.some(isFreed)) this.abort();
    else if (this.unsent.length > 0 && this.connection !== null) {
      this.sent(writeParts(this.connection, this.unsent));
    }
  }

  closed(connection: ClientConnectionSocket, end: ConnectionEnd): void {
    if (this.isStarting) {
      queueMicrotask(() => this.closed(connection, end));
      return;
    }
    if (this.isOver || connection !== this.connection) return;
    this.upload?.stop();
    this.ended = end;
    this.advance();
  }

  uploaded(fault: string | null): void {
    if (fault === null) this.isSent = true;
    if (fault === null || this.isOver) return;
    this.connection?.destroy();
    this.isReused = false;
    this.ended = { kind: "reset", reason: fault };
    this.advance();
  }

  private write(connection: ClientConnectionSocket, route: ConnectionRoute): void {
    const { body } = this.request;
    const head = buildHead(this.request, route.hostLine);
    if (body !== null && "open" in body) {
      this.begins();
      this.upload = startUpload(encodeHead(head), body, connection, this);
      return;
    }
    const unsent = writeRequest(connection, this, head, body ?? NO_PARTS);
    if (unsent === null) this.postedTo = connection;
    else {
      this.begins();
      this.sent(unsent);
    }
  }

  private begins(): void {
    this.hasBegun = true;
    this.sentAtMs = this.context.monotonicMs();
  }

  /** Called by the outbox. */
  send(bytes: Uint8Array, from: number, to: number): void {
    const { connection } = this;
    // It is over, or begins anew on another one.
    if (connection === null || connection !== this.postedTo) return;
    this.postedTo = null;
    this.begins();
    const taken = connection.write(bytes, from, to);
    const left = to - from - taken;
    this.sent(left === 0 ? NO_PARTS : [wholeBytesPart(Buffer.copyBytesFrom(bytes, from + taken, left))]);
  }

  private sent(unsent: readonly Part[]): void {
    this.unsent = unsent;
    this.isSent = unsent.length === 0;
  }

  /** Does what can be done now, and leaves the socket as the taker wants it. */
  private advance(): void {
    if (this.isAdvancing) return;
    this.isAdvancing = true;
    try {
      while (!this.isPaused && !this.isOver && this.step());
    } catch {
      // Only the taker can have thrown. It may still hold a request open: it hears of the end.
      if (!this.isOver) this.failNow({ kind: "reset", reason: "the taker of the answer threw" });
    }
    this.isAdvancing = false;
    if (this.isOver || this.connection === null) return;
    if (!this.isPaused) this.connection.resume();
    else if (this.holdsBytes()) this.connection.pause();
  }

  private holdsBytes(): boolean {
    return this.read !== null || this.later !== null;
  }

  /** One call of the taker at most; false when there is nothing more to do. */
  private step(): boolean {
    const { read, body } = this;
    if (read === null) return this.nextRead();
    if (body === null) return this.stepHead(read);
    const piece = body.next(read);
    if (piece !== null) {
      // The last piece of a read leaves nothing that would have to be held while paused.
      if (body.at === read.length && !body.hasEnded) this.read = null;
      this.taker.data(piece);
      return true;
    }
    if (body.wrong !== null) this.failNow({ kind: "bad_http", reason: body.wrong });
    else if (body.hasEnded) this.endNow(body.at < read.length);
    else this.read = null;
    return true;
  }

  private stepHead(read: Buffer): boolean {
    const { headBytesMax } = this.context;
    const head = this.isHeadPartial ? null : parseResponseHead(read, this.headFrom);
    if (typeof head === "string") {
      this.failNow({ kind: "bad_http", reason: head });
      return true;
    }
    const bytes = this.skippedBytes + (head === null ? read.length : head.bodyAt) - this.headFrom;
    if (bytes > headBytesMax) {
      this.failNow({ kind: "bad_http", reason: `a head of more than ${headBytesMax} bytes` });
    } else if (head === null) return this.waitForHead(read);
    else if (head.status === 101) this.failNow({ kind: "bad_http", reason: "an upgrade nobody asked for" });
    else if (head.status >= 200) this.beginBody(head);
    else {
      // They are counted, so that they cannot go on for ever.
      this.skippedBytes = bytes;
      this.headFrom = head.bodyAt;
    }
    return true;
  }

  private beginBody(head: ResponseHead): void {
    this.keepsAlive = head.keepsAlive;
    this.body = new FramedBody(head.framing, true);
    this.body.at = head.bodyAt;
    this.taker.head(head.status, head);
  }

  /** More of the head must come: from a read that waits, or from the connection, unless that is gone. */
  private waitForHead(read: Buffer): boolean {
    this.isHeadPartial = true;
    const more = this.takeLater();
    if (more === null) return this.closeIfEnded();
    this.read = Buffer.concat([read.subarray(this.headFrom), more]);
    this.headFrom = 0;
    // Without the end of a line there is nothing new to say: a head that comes byte by byte is not parsed for each.
    this.isHeadPartial = !more.includes(LF);
    return true;
  }

  private nextRead(): boolean {
    const next = this.takeLater();
    if (next === null) return this.closeIfEnded();
    this.begin(next);
    return true;
  }

  private begin(read: Buffer): void {
    this.read = read;
    if (this.body !== null) this.body.at = 0;
  }

  private takeLater(): Buffer | null {
    const next = this.later?.shift() ?? null;
    if (this.later?.length === 0) this.later = null;
    return next;
  }

  private closeIfEnded(): boolean {
    if (this.ended === null) return false;
    this.closeNow(this.ended);
    return true;
  }

  /** The connection is gone, and everything it brought has been handed on. */
  private closeNow(end: ConnectionEnd): void {
    const isFin = end.kind === "fin";
    if (this.mayRepeat() && this.route !== null) {
      this.isReused = false;
      this.ended = null;
      this.unsent = NO_PARTS;
      this.upload = null;
      this.isSent = false;
      this.connection = this.context.connections.open(this.route.place, this);
    } else if (isFin && this.body?.framing === UNTIL_CLOSE) this.endNow(false);
    else this.failNow(isFin ? { kind: "reset", reason: "closed before the end of the answer" } : end);
  }

  /**
   * A kept connection that the upstream closed at the same moment breaks at once, and the request was not looked at.
   * Later than that somebody may have worked on it, and whether to ask again is for the caller to decide.
   */
  private mayRepeat(): boolean {
    if (!this.isReused || this.hasHeard) return false;
    return !this.isSent || this.context.monotonicMs() - this.sentAtMs < STALE_MS;
  }

  private endNow(hasExcess: boolean): void {
    const { connection, taker } = this;
    const isReusable = this.keepsAlive && this.isSent && !hasExcess && this.ended === null;
    this.letGo();
    // Before the taker is told, so that what it sends next finds the connection.
    if (isReusable && connection !== null) this.context.connections.keep(connection);
    else if (this.isSent) connection?.close();
    else connection?.destroy();
    taker.end();
  }

  private failNow(failure: HttpFailure): void {
    const { taker } = this;
    this.connection?.destroy();
    this.letGo();
    try {
      taker.failed(failure);
    } catch {
      // It was the last call: there is nobody left to tell.
    }
  }

  private endSoon(failure: HttpFailure): void {
    queueMicrotask(() => {
      if (!this.isOver) this.failNow(failure);
    });
  }

  private letGo(): void {
    this.isOver = true;
    this.upload?.stop();
    this.connection = null;
    this.read = null;
    this.later = null;
    this.unsent = NO_PARTS;
  }
}
