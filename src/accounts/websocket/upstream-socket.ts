/** One WebSocket to one upstream, from the handshake to the close. It reports its events to its current user. */

import { parseResponseHead, type ResponseHead } from "../../net/http-client/answer-head.ts";
import type {
  ClientConnectionSocket,
  ConnectionEnd,
  ConnectionUser,
} from "../../net/http-client/connection.ts";
import type { ConnectionRoute, Connections } from "../../net/http-client/connections.ts";
import type { AnswerHeaders, HttpFailure } from "../../net/http-client/contract.ts";
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
import type { Deadline, Deadlines } from "../../net/wire/deadlines.ts";
import { FramedBody } from "../../net/wire/framed-body.ts";
import { joinParts, type Part, wholePart } from "../../net/wire/parts.ts";

export interface SocketUser {
  /** The handshake is complete, and messages can be sent. */
  opened(socket: UpstreamSocket): void;
  /** The handshake was rejected with an HTTP response. The body is null when it was too long. The last call. */
  refused(status: number, headers: AnswerHeaders, body: Uint8Array | null): void;
  message(bytes: Uint8Array, start: number, end: number): void;
  /** All messages of one read were reported. */
  readEnded(): void;
  /** The last call. */
  closed(socket: UpstreamSocket, failure: HttpFailure): void;
}

export interface SocketSetting {
  connections: Connections;
  alarms: Deadlines;
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
 * A conversation over WebSockets. The socket that served it last has its last response and can continue from it. The
 * owner of the conversation creates this object and ends it.
 */
export class SocketConversation {
  private answered: { readonly socket: UpstreamSocket; readonly responseId: string } | null = null;
  private isOver = false;

  get last(): { readonly socket: UpstreamSocket; readonly responseId: string } | null {
    return this.answered;
  }

  note(socket: UpstreamSocket, responseId: string): void {
    if (this.isOver) return;
    this.answered = { socket, responseId };
    socket.thread = this;
  }

  /** The last response can no longer be continued. */
  forget(): void {
    if (this.answered !== null) this.answered.socket.thread = null;
    this.answered = null;
  }

  /** The conversation has ended: its socket can be used for any other. */
  end(): void {
    this.isOver = true;
    this.forget();
  }
}

const NORMAL = 1000;
/** Normal, going away, restart: close codes that are unrelated to the last request. */
const ORDERLY_CLOSES: ReadonlySet<number> = new Set([NORMAL, 1001, 1012]);

export class UpstreamSocket implements ConnectionUser {
  user: SocketUser;
  /** The response headers of the handshake. */
  headers: AnswerHeaders | null = null;
  openedAtMs = 0;
  /** Updated periodically by the socket pool. */
  heardAtMs = 0;
  hasSpoken = false;
  pingedAtMs: number | null = null;
  usedAtMs = 0;
  /** The conversation that can continue from the last response. */
  thread: SocketConversation | null = null;
  /** The conversation that sent the last request, whatever its outcome. */
  askedBy: SocketConversation | null = null;
  /** The upstream closed the socket as it may at any time, so it may not have seen the last request. */
  hasLeft = false;
  private readonly setting: SocketSetting;
  private readonly address: SocketAddress;
  private readonly key = newHandshakeKey();
  private readonly connection: ClientConnectionSocket;
  private readonly frames: FrameReader;
  private phase: "handshake" | "refusal" | "open" | "over" = "handshake";
  private alarm: Deadline | null = null;
  /** Bytes of the handshake response while its head is incomplete. */
  private gathered: Buffer = Buffer.alloc(0);
  private refusal: { head: ResponseHead; body: FramedBody; parts: Part[]; bytes: number } | null = null;
  private unsent: Uint8Array[] = [];
  private unsentFrom = 0;
  /** Sent after the unsent bytes. The pong for the last ping replaces earlier ones. */
  private pong: Uint8Array | null = null;
  private isPaused = false;
  private isStarting = true;

  constructor(setting: SocketSetting, address: SocketAddress, user: SocketUser) {
    this.setting = setting;
    this.address = address;
    this.user = user;
    this.frames = new FrameReader({ isMasked: false, messageBytesMax: setting.messageBytesMax });
    this.connection = setting.connections.open(address.route.place, this);
    this.isStarting = false;
  }

  get isOpen(): boolean {
    return this.phase === "open";
  }

  /** Everything was written. */
  get isSent(): boolean {
    return this.unsent.length === 0;
  }

  get isHeldUp(): boolean {
    return this.isPaused;
  }

  send(message: readonly Part[]): void {
    this.put(buildFrame(TEXT, message, newMask()));
  }

  ping(): void {
    this.pingedAtMs = this.setting.monotonicMs();
    this.put(buildFrame(PING, [], newMask()));
  }

  pause(): void {
    this.isPaused = true;
    this.connection.pause();
  }

  resume(): void {
    this.isPaused = false;
    this.connection.resume();
  }

  /** Sends a close frame first, if possible. The user is not notified. */
  close(code: number = NORMAL): void {
    if (this.phase === "over") return;
    const canSendClose = this.phase === "open" && this.isSent;
    this.letGo();
    if (!canSendClose) this.connection.destroy();
    else {
      const closing = closeFrame(code, "", newMask());
      this.connection.write(closing, 0, closing.length);
      this.connection.close();
    }
  }

  /** The upstream no longer responds. */
  fail(reason: string): void {
    this.lose({ kind: "reset", reason });
  }

  opened(): void {
    const { route, path, headers } = this.address;
    this.alarm = this.setting.alarms.set(this.setting.handshakeTimeoutMs, () =>
      this.lose({ kind: "connect_timeout", reason: "the handshake was not answered in time" }),
    );
    this.put(Buffer.from(buildHandshake(path, route.hostLine, headers, this.key), "latin1"));
  }

  received(_connection: ClientConnectionSocket, bytes: Buffer): void {
    this.hasSpoken = true;
    switch (this.phase) {
      case "open":
        this.readFrames(bytes);
        return;
      case "handshake":
        this.readHandshake(bytes);
        return;
      case "refusal":
        this.readRefusal(bytes);
    }
  }

  drained(): void {
    this.flush();
  }

  closed(connection: ClientConnectionSocket, end: ConnectionEnd): void {
    // Some failures are reported during the connecting call, before the socket is known to its user.
    if (this.isStarting) queueMicrotask(() => this.closed(connection, end));
    else if (this.phase === "refusal" && end.kind === "fin") this.endRefusal();
    else {
      this.hasLeft = true;
      this.lose(end.kind === "fin" ? { kind: "reset", reason: "the upstream closed the connection" } : end);
    }
  }

  private readHandshake(bytes: Buffer): void {
    const { headBytesMax } = this.setting;
    this.gathered = this.gathered.length === 0 ? bytes : Buffer.concat([this.gathered, bytes]);
    const head = parseResponseHead(this.gathered, 0);
    if (typeof head === "string") this.lose({ kind: "bad_http", reason: head });
    else if ((head?.bodyAt ?? this.gathered.length) > headBytesMax) {
      this.lose({ kind: "bad_http", reason: `a head of more than ${headBytesMax} bytes` });
    } else if (head !== null) this.takeHead(head);
  }

  private takeHead(head: ResponseHead): void {
    const rest = this.gathered.subarray(head.bodyAt);
    this.gathered = Buffer.alloc(0);
    if (head.status === 101) {
      const fault = findHandshakeFault(head, this.key);
      if (fault !== null) {
        this.lose({ kind: "bad_http", reason: fault });
        return;
      }
      this.stopAlarm();
      this.phase = "open";
      this.headers = head;
      this.openedAtMs = this.setting.monotonicMs();
      this.user.opened(this);
      if (rest.length > 0 && this.isOpen) this.readFrames(rest);
    } else if (head.status < 200) {
      // Another head follows. The deadline limits how many.
      if (rest.length > 0) this.readHandshake(rest);
    } else {
      this.phase = "refusal";
      this.refusal = { head, body: new FramedBody(head.framing, true), parts: [], bytes: 0 };
      this.readRefusal(rest);
    }
  }

  private readRefusal(bytes: Buffer): void {
    const { refusal } = this;
    if (refusal === null) return;
    const { body, parts } = refusal;
    body.at = 0;
    for (let piece = body.next(bytes); piece !== null; piece = body.next(bytes)) {
      refusal.bytes += piece.end - piece.start;
      if (refusal.bytes > this.setting.errorBytesMax) {
        this.endRefusal();
        return;
      }
      parts.push(piece);
    }
    if (body.hasEnded || body.wrong !== null) this.endRefusal();
  }

  private endRefusal(): void {
    const { refusal, user } = this;
    if (refusal === null || this.phase === "over") return;
    this.letGo();
    this.connection.destroy();
    const isWhole = refusal.bytes <= this.setting.errorBytesMax && refusal.body.wrong === null;
    user.refused(refusal.head.status, refusal.head, isWhole ? joinParts(refusal.parts) : null);
  }

  private readFrames(bytes: Uint8Array): void {
    const fault = this.frames.push(bytes, this);
    if (fault === null) {
      if (this.isOpen) this.user.readEnded();
    } else if (this.isOpen) {
      const closing = closeFrame(fault.code, "", newMask());
      if (this.isSent) this.connection.write(closing, 0, closing.length);
      this.lose({ kind: "bad_http", reason: fault.reason });
    }
  }

  /** Called by the frame reader. */
  message(opcode: number, bytes: Uint8Array, start: number, end: number): void {
    if (!this.isOpen) return;
    if (opcode === TEXT) this.user.message(bytes, start, end);
    else this.lose({ kind: "bad_http", reason: "a message that is no text" });
  }

  /** Called by the frame reader. */
  control(opcode: number, payload: Uint8Array): void {
    if (!this.isOpen) return;
    if (opcode === PING) {
      this.pong = buildFrame(PONG, wholePart(payload), newMask());
      if (this.isSent) this.flush();
    } else if (opcode === CLOSE) {
      const code = readClose(payload)?.code ?? null;
      this.hasLeft = code !== null && ORDERLY_CLOSES.has(code);
      // Messages before it in the same read are reported first.
      this.user.readEnded();
      if (this.isSent) {
        const echo = closeFrame(code, "", newMask());
        this.connection.write(echo, 0, echo.length);
      }
      this.lose({ kind: "reset", reason: `the upstream closed with ${code ?? "no code"}` });
    }
  }

  private put(bytes: Uint8Array): void {
    this.unsent.push(bytes);
    if (this.unsent.length === 1) this.flush();
  }

  private flush(): void {
    for (let next = this.nextUnsent(); next !== undefined; next = this.nextUnsent()) {
      this.unsentFrom += this.connection.write(next, this.unsentFrom, next.length);
      if (this.unsentFrom < next.length) return;
      this.unsent.shift();
      this.unsentFrom = 0;
    }
  }

  private nextUnsent(): Uint8Array | undefined {
    if (this.isSent && this.pong !== null) {
      this.unsent.push(this.pong);
      this.pong = null;
    }
    return this.unsent[0];
  }

  private lose(failure: HttpFailure): void {
    if (this.phase === "over") return;
    this.letGo();
    this.connection.destroy();
    this.user.closed(this, failure);
  }

  private letGo(): void {
    this.phase = "over";
    this.stopAlarm();
  }

  private stopAlarm(): void {
    if (this.alarm !== null) this.setting.alarms.cancel(this.alarm);
    this.alarm = null;
  }
}

function newMask(): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(4));
}
