/** One socket to one upstream, from the first SYN to the last byte; what it hears goes to whoever uses it. */

import type { Socket, SocketHandler } from "bun";
import type { Deadline, Deadlines } from "../wire/deadlines.ts";
import type { HttpFailure } from "./contract.ts";

/** Where connections go that may stand in for each other. */
export interface ConnectionSlot {
  readonly hostname: string;
  readonly port: number;
  /** One object for all connections there: the runtime keeps its TLS context by it. */
  readonly tls: { serverName: string; ALPNProtocols: string; rejectUnauthorized: true; ca?: string } | null;
  readonly idle: ClientConnectionSocket[];
}

/** A `fin` is an orderly end; whether it is a failure depends on what was still expected. */
export type ConnectionEnd = HttpFailure | { readonly kind: "fin" };

/** The callbacks of a socket cost no closures: all sockets share them, and a user is an object. */
export interface ConnectionUser {
  /** Connected and, with TLS, sure of the other side. */
  opened(): void;
  received(connection: ClientConnectionSocket, bytes: Buffer): void;
  /** More can be written, after `write` took less than all. */
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

  constructor(place: ConnectionSlot, user: ConnectionUser, alarms: Deadlines, connectTimeoutMs: number) {
    this.place = place;
    this.user = user;
    this.alarms = alarms;
    this.alarm = alarms.set(connectTimeoutMs, () =>
      this.lose({ kind: "connect_timeout", reason: `no connection within ${connectTimeoutMs} ms` }),
    );
  }

  get isOpen(): boolean {
    return this.phase === "open";
  }

  connect(): void {
    const { hostname, port, tls } = this.place;
    // Reached by promise only, since the runtime reports some errors within the call.
    Promise.try(() =>
      Bun.connect({ hostname, port, ...(tls === null ? {} : { tls }), socket: HANDLERS, data: this }),
    ).catch((err: unknown) => this.lose({ kind: "refused", reason: codeOf(err) }));
  }

  /** How many bytes were taken; what was not must be written again after `drained`. */
  write(bytes: Uint8Array, from: number, to: number): number {
    if (this.phase !== "open" || this.socket === null) return 0;
    const taken = this.socket.write(bytes, from, to - from);
    if (taken >= 0) return taken;
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

  /** An orderly close, when nothing is left to be sent. The user is not told. */
  close(): void {
    if (this.phase === "over") return;
    this.phase = "over";
    this.socket?.close();
  }

  /** At once: the other side sees a reset. The user is not told. A socket still connecting ends once it is there. */
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
    else this.lose({ kind: "tls", reason: codeOf(err) });
  }

  /** Called by the socket. */
  ended(err: Error | undefined): void {
    if (this.phase === "connecting" && this.place.tls !== null) {
      this.lose({ kind: "tls", reason: "closed during the handshake" });
    } else this.lose(err === undefined ? FIN : { kind: "reset", reason: codeOf(err) });
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
  // `authorized` is asked too: without the default of refusing, success would only mean that the handshake ended.
  handshake: (socket, success, err) => socket.data.shook(success && socket.authorized, err),
  data: (socket, bytes) => socket.data.received(bytes),
  drain: (socket) => socket.data.drained(),
  close: (socket, err) => socket.data.ended(err),
  error: (socket, err) => socket.data.ended(err),
};

function codeOf(err: unknown): string {
  if (typeof err !== "object" || err === null) return "unknown";
  if ("code" in err && typeof err.code === "string") return err.code;
  return "unknown";
}
