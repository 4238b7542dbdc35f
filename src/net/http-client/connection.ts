/** One socket to one upstream, from connecting to closing. It reports its events to its current user. */

import type { Socket, SocketHandler } from "bun";
import type { Deadline, Deadlines } from "../wire/deadlines.ts";
import type { HttpFailure } from "./contract.ts";

/** A destination. Connections to the same destination are interchangeable. */
export interface ConnectionSlot {
  readonly hostname: string;
  readonly port: number;
  /** One object for all connections of the destination, because the runtime caches its TLS context by this object. */
  readonly tls: { serverName: string; ALPNProtocols: string; rejectUnauthorized: true; ca?: string } | null;
  readonly idle: ClientConnectionSocket[];
}

/** `fin` is an orderly close. Whether it is a failure depends on what was still expected. */
export type ConnectionEnd = HttpFailure | { readonly kind: "fin" };

/**
 * The user of a connection. It is an object, and all sockets share their callbacks, so a socket costs no closures.
 */
export interface ConnectionUser {
  /** Connected and, with TLS, verified. */
  opened(): void;
  received(connection: ClientConnectionSocket, bytes: Buffer): void;
  /** More can be written, after `write` accepted only a part. */
  drained(): void;
  /** The last call. */
  closed(connection: ClientConnectionSocket, end: ConnectionEnd): void;
}

const FIN: ConnectionEnd = { kind: "fin" };

export class ClientConnectionSocket {
  readonly place: ConnectionSlot;
  user: ConnectionUser;
  idleSinceMs = 0;
  private socket: Socket<ClientConnectionSocket> | null = null;
  private phase: "connecting" | "open" | "over" = "connecting";
  private isPaused = false;
  private readonly alarms: Deadlines;
  private alarm: Deadline | null;

  constructor(slot: ConnectionSlot, user: ConnectionUser, deadlines: Deadlines, connectTimeoutMs: number) {
    this.place = slot;
    this.user = user;
    this.alarms = deadlines;
    this.alarm = deadlines.set(connectTimeoutMs, () =>
      this.lose({ kind: "connect_timeout", reason: `no connection within ${connectTimeoutMs} ms` }),
    );
  }

  get isOpen(): boolean {
    return this.phase === "open";
  }

  connect(): void {
    const { hostname, port, tls } = this.place;
    // `Promise.try`, because the runtime throws some errors synchronously.
    Promise.try(() =>
      Bun.connect({ hostname, port, ...(tls === null ? {} : { tls }), socket: HANDLERS, data: this }),
    ).catch((err: unknown) => this.lose({ kind: "refused", reason: errorCode(err) }));
  }

  /** Returns the number of accepted bytes. The rest must be written again after `drained`. */
  write(bytes: Uint8Array, from: number, to: number): number {
    if (this.phase !== "open" || this.socket === null) return 0;
    const written = this.socket.write(bytes, from, to - from);
    if (written >= 0) return written;
    this.loseSoon({ kind: "reset", reason: "the connection was closed while writing" });
    return 0;
  }

  pause(): void {
    if (this.isPaused || this.phase !== "open") return;
    this.isPaused = true;
    this.socket?.pause();
  }

  resume(): void {
    if (!this.isPaused) return;
    this.isPaused = false;
    if (this.phase === "open") this.socket?.resume();
  }

  /** Closes in order, when nothing is left to send. The user is not notified. */
  close(): void {
    if (this.phase === "over") return;
    this.phase = "over";
    this.socket?.close();
  }

  /**
   * Closes at once: the other side sees a reset. The user is not notified. A socket that is still connecting is
   * closed once it is connected.
   */
  destroy(): void {
    if (this.phase === "over") return;
    this.phase = "over";
    this.stopAlarm();
    this.socket?.terminate();
  }

  /** Called by the socket. */
  connected(socket: Socket<ClientConnectionSocket>): void {
    this.socket = socket;
    if (this.phase === "over") socket.terminate();
    else if (this.place.tls === null) this.becomeOpen();
  }

  /** Called by the socket. */
  shook(isTrusted: boolean, err: Error | null): void {
    if (this.phase !== "connecting") return;
    if (isTrusted && err === null) this.becomeOpen();
    else this.lose({ kind: "tls", reason: errorCode(err) });
  }

  /** Called by the socket. */
  ended(err: Error | undefined): void {
    if (this.phase === "connecting" && this.place.tls !== null) {
      this.lose({ kind: "tls", reason: "closed during the handshake" });
    } else this.lose(err === undefined ? FIN : { kind: "reset", reason: errorCode(err) });
  }

  /** Called by the socket. */
  received(bytes: Buffer): void {
    if (this.phase === "open") this.user.received(this, bytes);
  }

  /** Called by the socket. */
  drained(): void {
    if (this.phase === "open") this.user.drained();
  }

  private becomeOpen(): void {
    this.phase = "open";
    this.stopAlarm();
    this.user.opened();
  }

  private lose(end: ConnectionEnd): void {
    if (this.phase === "over") return;
    this.destroy();
    this.user.closed(this, end);
  }

  private loseSoon(end: ConnectionEnd): void {
    queueMicrotask(() => this.lose(end));
  }

  private stopAlarm(): void {
    if (this.alarm !== null) this.alarms.cancel(this.alarm);
    this.alarm = null;
  }
}

const HANDLERS: SocketHandler<ClientConnectionSocket> = {
  open: (socket) => socket.data.connected(socket),
  // `authorized` is checked as well: if `rejectUnauthorized` were off, success would only mean that the handshake
  // completed.
  handshake: (socket, success, err) => socket.data.shook(success && socket.authorized, err),
  data: (socket, bytes) => socket.data.received(bytes),
  drain: (socket) => socket.data.drained(),
  close: (socket, err) => socket.data.ended(err),
  error: (socket, err) => socket.data.ended(err),
};

function errorCode(err: unknown): string {
  if (typeof err !== "object" || err === null) return "unknown";
  if ("code" in err && typeof err.code === "string") return err.code;
  return "unknown";
}
