/** One WebSocket to one upstream, from the handshake to the close. It reports its events to its current user. */

import type { Deadline, Deadlines } from "../../base/deadlines.ts";
import { nextTurn } from "../../base/next-turn.ts";
import { joinParts, type Part, wholePart } from "../../base/parts.ts";
import type {
  ClientConnectionSocket,
  ConnectionEnd,
  ConnectionUser,
} from "../../net/http-client/connection.ts";
import type { ConnectionRoute, Connections } from "../../net/http-client/connections.ts";
import type { HttpFailure, ResponseHeaders } from "../../net/http-client/contract.ts";
import type { ResponseHead } from "../../net/http-client/response-head.ts";
import {
  buildFrame,
  CLOSE,
  closeFrame,
  FrameReader,
  PING,
  PONG,
  readClose,
  TEXT,
} from "../../net/websocket/frames.ts";
import { buildHandshake, findHandshakeFault, newHandshakeKey } from "../../net/websocket/handshake.ts";
import { FramedBody } from "../../net/wire/framed-body.ts";
import { HandshakeHead } from "./handshake-head.ts";

export interface SocketUser {
  /** The handshake is complete, and messages can be sent. */
  onOpen(socket: UpstreamSocket): void;
  /** The handshake was rejected with an HTTP response. The body is null when it was too long. The last call. */
  onReject(status: number, headers: ResponseHeaders, body: Uint8Array | null): void;
  onMessage(bytes: Uint8Array, start: number, end: number): void;
  /** All messages of one read were reported. */
  onReadEnd(): void;
  /** The last call. */
  onClose(socket: UpstreamSocket, failure: HttpFailure): void;
}

export interface SocketSetting {
  connections: Connections;
  deadlines: Deadlines;
  monotonicMs(): number;
  headBytesMax: number;
  messageBytesMax: number;
  /** Maximum body size of a rejected handshake. */
  errorBytesMax: number;
  /** From the opening of the connection to the end of the handshake. */
  handshakeTimeoutMs: number;
}

/** The destination and the headers of the handshake. */
export interface SocketAddress {
  readonly route: ConnectionRoute;
  readonly path: string;
  /** Complete lines, as for any request. */
  readonly headers: string;
}

/**
 * A lane of turns at upstream sockets. The socket that served it last has its last response and can continue from it.
 * The owner of the lane creates this object and ends it.
 */
export class UpstreamLane {
  #lastResponse: { readonly socket: UpstreamSocket; readonly responseId: string } | null = null;
  #isOver = false;

  get last(): { readonly socket: UpstreamSocket; readonly responseId: string } | null {
    return this.#lastResponse;
  }

  recordResponse(socket: UpstreamSocket, responseId: string): void {
    if (this.#isOver) return;
    this.#lastResponse = { socket, responseId };
    socket.reservedLane = this;
  }

  /** The last response can no longer be continued. */
  clear(): void {
    if (this.#lastResponse !== null) this.#lastResponse.socket.reservedLane = null;
    this.#lastResponse = null;
  }

  /** The lane has ended: its socket can be used for any other. */
  end(): void {
    this.#isOver = true;
    this.clear();
  }
}

const NORMAL = 1000;
/** A longer read is handled in slices: its short messages would hold the event loop. */
const SLICE_BYTES_MAX = 64 * 1024;
/** Normal, going away, restart: close codes that are unrelated to the last request. */
const ORDERLY_CLOSES: ReadonlySet<number> = new Set([NORMAL, 1001, 1012]);

export class UpstreamSocket implements ConnectionUser {
  user: SocketUser;
  /** The response headers of the handshake. */
  headers: ResponseHeaders | null = null;
  openedAtMs = 0;
  /** Updated periodically by the socket pool. */
  lastReceivedAtMs = 0;
  hasReceived = false;
  pingedAtMs: number | null = null;
  usedAtMs = 0;
  /** The lane that can continue from the last response. */
  reservedLane: UpstreamLane | null = null;
  /** The lane that sent the last request, whatever its outcome. */
  lastLane: UpstreamLane | null = null;
  /** The upstream closed the socket as it may at any time, so it may not have seen the last request. */
  isClosedByUpstream = false;
  readonly #setting: SocketSetting;
  readonly #address: SocketAddress;
  readonly #key = newHandshakeKey();
  readonly #connection: ClientConnectionSocket;
  readonly #frames: FrameReader;
  #phase: "handshake" | "rejection" | "open" | "over" = "handshake";
  #deadline: Deadline | null = null;
  readonly #head: HandshakeHead;
  #rejection: { head: ResponseHead; body: FramedBody; parts: Part[]; bytes: number } | null = null;
  #unsent: Uint8Array[] = [];
  #unsentFrom = 0;
  /** Sent after the unsent bytes. The pong for the last ping replaces earlier ones. */
  #pong: Uint8Array | null = null;
  #isPaused = false;
  /** Slices of reads that are still to be handled. Meanwhile the connection is paused. */
  #slices: Promise<void> | null = null;
  #isStarting = true;

  constructor(setting: SocketSetting, address: SocketAddress, user: SocketUser) {
    this.#setting = setting;
    this.#address = address;
    this.user = user;
    this.#head = new HandshakeHead(setting.headBytesMax);
    this.#frames = new FrameReader({ isMasked: false, messageBytesMax: setting.messageBytesMax });
    this.#connection = setting.connections.open(address.route.slot, this);
    this.#isStarting = false;
  }

  get isOpen(): boolean {
    return this.#phase === "open";
  }

  /** Everything was written. */
  get isSent(): boolean {
    return this.#unsent.length === 0;
  }

  get isReadPaused(): boolean {
    return this.#isPaused;
  }

  send(parts: readonly Part[]): void {
    this.#enqueue(buildFrame(TEXT, parts, newMask()));
  }

  ping(): void {
    this.pingedAtMs = this.#setting.monotonicMs();
    this.#enqueue(buildFrame(PING, [], newMask()));
  }

  pause(): void {
    this.#isPaused = true;
    this.#connection.pause();
  }

  resume(): void {
    this.#isPaused = false;
    if (this.#slices === null) this.#connection.resume();
  }

  /** Sends a close frame first, if possible. The user is not notified. */
  close(code: number = NORMAL): void {
    if (this.#phase === "over") return;
    const canSendClose = this.#phase === "open" && this.isSent;
    this.#markClosed();
    if (!canSendClose) this.#connection.destroy();
    else {
      const closing = closeFrame(code, "", newMask());
      this.#connection.write(closing, 0, closing.length);
      this.#connection.close();
    }
  }

  /** The upstream no longer responds. */
  fail(reason: string): void {
    this.#closeWithFailure({ kind: "reset", reason });
  }

  onOpen(): void {
    const { route, path, headers } = this.#address;
    this.#deadline = this.#setting.deadlines.set(this.#setting.handshakeTimeoutMs, () =>
      this.#closeWithFailure({ kind: "connect_timeout", reason: "the WebSocket handshake timed out" }),
    );
    this.#enqueue(Buffer.from(buildHandshake(path, route.hostLine, headers, this.#key), "latin1"));
  }

  onData(_connection: ClientConnectionSocket, bytes: Buffer): void {
    this.hasReceived = true;
    switch (this.#phase) {
      case "open":
        if (this.#slices === null && bytes.length <= SLICE_BYTES_MAX) this.#readFrames(bytes);
        else this.#readInSlices(bytes);
        return;
      case "handshake":
        this.#readHandshake(bytes);
        return;
      case "rejection":
        this.#readRejection(bytes);
    }
  }

  onDrain(): void {
    this.#flush();
  }

  onClose(connection: ClientConnectionSocket, end: ConnectionEnd): void {
    // Some failures are reported during the connecting call, before the socket is known to its user.
    if (this.#isStarting) queueMicrotask(() => this.onClose(connection, end));
    else if (this.#slices !== null) void this.#slices.then(() => this.onClose(connection, end));
    else if (this.#phase === "rejection" && end.kind === "fin") this.#endRejection();
    else {
      this.isClosedByUpstream = true;
      this.#closeWithFailure(
        end.kind === "fin" ? { kind: "reset", reason: "the upstream closed the connection" } : end,
      );
    }
  }

  #readHandshake(bytes: Buffer): void {
    const head = this.#head.add(bytes);
    if (typeof head === "string") this.#closeWithFailure({ kind: "bad_http", reason: head });
    else if (head !== null) this.#handleHead(head);
  }

  #handleHead(head: ResponseHead): void {
    const rest = this.#head.takeRest(head);
    if (head.status === 101) {
      const fault = findHandshakeFault(head, this.#key);
      if (fault !== null) {
        this.#closeWithFailure({ kind: "bad_http", reason: fault });
        return;
      }
      this.#cancelDeadline();
      this.#phase = "open";
      this.headers = head;
      this.openedAtMs = this.#setting.monotonicMs();
      this.user.onOpen(this);
      if (rest.length > 0 && this.isOpen) this.#readFrames(rest);
    } else {
      this.#phase = "rejection";
      this.#rejection = { head, body: new FramedBody(head.framing, true), parts: [], bytes: 0 };
      this.#readRejection(rest);
    }
  }

  #readRejection(bytes: Buffer): void {
    const rejection = this.#rejection;
    if (rejection === null) return;
    const { body, parts } = rejection;
    body.at = 0;
    for (let piece = body.next(bytes); piece !== null; piece = body.next(bytes)) {
      rejection.bytes += piece.end - piece.start;
      if (rejection.bytes > this.#setting.errorBytesMax) {
        this.#endRejection();
        return;
      }
      parts.push(piece);
    }
    if (body.hasEnded || body.fault !== null) this.#endRejection();
  }

  #endRejection(): void {
    const { user } = this;
    const rejection = this.#rejection;
    if (rejection === null || this.#phase === "over") return;
    this.#markClosed();
    this.#connection.destroy();
    const isWhole = rejection.bytes <= this.#setting.errorBytesMax && rejection.body.fault === null;
    user.onReject(rejection.head.status, rejection.head, isWhole ? joinParts(rejection.parts) : null);
  }

  #readInSlices(bytes: Uint8Array): void {
    this.#connection.pause();
    const handled = this.#handleSlices(this.#slices, bytes);
    const slices = handled
      .catch(() => this.fail("a message could not be handled"))
      .then(() => {
        if (this.#slices !== slices) return;
        this.#slices = null;
        if (!this.#isPaused) this.#connection.resume();
      });
    this.#slices = slices;
  }

  async #handleSlices(before: Promise<void> | null, bytes: Uint8Array): Promise<void> {
    await before;
    for (let at = 0; at < bytes.length && this.isOpen; at += SLICE_BYTES_MAX) {
      if (at > 0) await nextTurn();
      this.#readFrames(bytes.subarray(at, at + SLICE_BYTES_MAX));
    }
  }

  #readFrames(bytes: Uint8Array): void {
    const fault = this.#frames.push(bytes, this);
    if (fault === null) {
      if (this.isOpen) this.user.onReadEnd();
    } else if (this.isOpen) {
      const closing = closeFrame(fault.code, "", newMask());
      if (this.isSent) this.#connection.write(closing, 0, closing.length);
      this.#closeWithFailure({ kind: "bad_http", reason: fault.reason });
    }
  }

  /** Called by the frame reader. */
  onMessage(opcode: number, bytes: Uint8Array, start: number, end: number): void {
    if (!this.isOpen) return;
    if (opcode === TEXT) this.user.onMessage(bytes, start, end);
    else this.#closeWithFailure({ kind: "bad_http", reason: "received a message that is not text" });
  }

  /** Called by the frame reader. */
  onControl(opcode: number, payload: Uint8Array): void {
    if (!this.isOpen) return;
    if (opcode === PING) {
      this.#pong = buildFrame(PONG, wholePart(payload), newMask());
      if (this.isSent) this.#flush();
    } else if (opcode === CLOSE) {
      const code = readClose(payload)?.code ?? null;
      this.isClosedByUpstream = code !== null && ORDERLY_CLOSES.has(code);
      // Messages before it in the same read are reported first.
      this.user.onReadEnd();
      if (this.isSent) {
        const echo = closeFrame(code, "", newMask());
        this.#connection.write(echo, 0, echo.length);
      }
      this.#closeWithFailure({ kind: "reset", reason: `the upstream closed with ${code ?? "no code"}` });
    }
  }

  #enqueue(bytes: Uint8Array): void {
    this.#unsent.push(bytes);
    if (this.#unsent.length === 1) this.#flush();
  }

  #flush(): void {
    for (let next = this.#nextUnsent(); next !== undefined; next = this.#nextUnsent()) {
      this.#unsentFrom += this.#connection.write(next, this.#unsentFrom, next.length);
      if (this.#unsentFrom < next.length) return;
      this.#unsent.shift();
      this.#unsentFrom = 0;
    }
  }

  #nextUnsent(): Uint8Array | undefined {
    if (this.isSent && this.#pong !== null) {
      this.#unsent.push(this.#pong);
      this.#pong = null;
    }
    return this.#unsent[0];
  }

  #closeWithFailure(failure: HttpFailure): void {
    if (this.#phase === "over") return;
    this.#markClosed();
    this.#connection.destroy();
    this.user.onClose(this, failure);
  }

  #markClosed(): void {
    this.#phase = "over";
    this.#cancelDeadline();
  }

  #cancelDeadline(): void {
    if (this.#deadline !== null) this.#setting.deadlines.cancel(this.#deadline);
    this.#deadline = null;
  }
}

function newMask(): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(4));
}
