/** One socket to one upstream, from connecting to closing. It reports its events to its current user. */

import type { Socket, SocketHandler } from "bun";
import type { Deadline, Deadlines } from "../../base/deadlines.ts";
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

/** The user of a connection. All sockets share the callbacks of this object: no closures. */
export interface ConnectionUser {
  /** Connected and, with TLS, verified. */
  onOpen(): void;
  onData(connection: ClientConnectionSocket, bytes: Buffer): void;
  /** More can be written, after `write` accepted only a part. */
  onDrain(): void;
  /** The last call. */
  onClose(connection: ClientConnectionSocket, end: ConnectionEnd): void;
}

const FIN: ConnectionEnd = { kind: "fin" };

export class ClientConnectionSocket {
  readonly slot: ConnectionSlot;
  user: ConnectionUser;
  idleSinceMs = 0;
  #socket: Socket<ClientConnectionSocket> | null = null;
  #phase: "connecting" | "open" | "over" = "connecting";
  #isPaused = false;
  readonly #deadlines: Deadlines;
  #deadline: Deadline | null;

  constructor(slot: ConnectionSlot, user: ConnectionUser, deadlines: Deadlines, connectTimeoutMs: number) {
    this.slot = slot;
    this.user = user;
    this.#deadlines = deadlines;
    this.#deadline = deadlines.set(connectTimeoutMs, () =>
      this.#closeWithFailure({
        kind: "connect_timeout",
        reason: `no connection within ${connectTimeoutMs} ms`,
      }),
    );
  }

  get isOpen(): boolean {
    return this.#phase === "open";
  }

  connect(): void {
    const { hostname, port, tls } = this.slot;
    // `Promise.try`, because the runtime throws some errors synchronously.
    Promise.try(() =>
      Bun.connect({ hostname, port, ...(tls === null ? {} : { tls }), socket: HANDLERS, data: this }),
    ).catch((err: unknown) => this.#closeWithFailure({ kind: "refused", reason: errorCode(err) }));
  }

  /** Returns the number of accepted bytes. The rest must be written again after `drained`. */
  write(bytes: Uint8Array, from: number, to: number): number {
    if (this.#phase !== "open" || this.#socket === null) return 0;
    const written = this.#socket.write(bytes, from, to - from);
    if (written >= 0) return written;
    this.#closeWithFailureSoon({ kind: "reset", reason: "the connection was closed while writing" });
    return 0;
  }

  pause(): void {
    if (this.#isPaused || this.#phase !== "open") return;
    this.#isPaused = true;
    this.#socket?.pause();
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    if (this.#phase === "open") this.#socket?.resume();
  }

  /** Closes in order, when nothing is left to send. The user is not notified. */
  close(): void {
    if (this.#phase === "over") return;
    this.#phase = "over";
    this.#socket?.close();
  }

  /**
   * Closes at once: the other side sees a reset. The user is not notified. A socket that is still connecting is
   * closed once it is connected.
   */
  destroy(): void {
    if (this.#phase === "over") return;
    this.#phase = "over";
    this.#cancelDeadline();
    this.#socket?.terminate();
  }

  /** Called by the socket. */
  onConnect(socket: Socket<ClientConnectionSocket>): void {
    this.#socket = socket;
    if (this.#phase === "over") socket.terminate();
    else if (this.slot.tls === null) this.#markOpen();
  }

  /** Called by the socket. */
  onHandshake(isTrusted: boolean, err: Error | null): void {
    if (this.#phase !== "connecting") return;
    if (isTrusted && err === null) this.#markOpen();
    else this.#closeWithFailure({ kind: "tls", reason: errorCode(err) });
  }

  /** Called by the socket. */
  onEnd(err: Error | undefined): void {
    if (this.#phase === "connecting" && this.slot.tls !== null) {
      this.#closeWithFailure({ kind: "tls", reason: "closed during the handshake" });
    } else this.#closeWithFailure(err === undefined ? FIN : { kind: "reset", reason: errorCode(err) });
  }

  /** Called by the socket. */
  onData(bytes: Buffer): void {
    if (this.#phase === "open") this.user.onData(this, bytes);
  }

  /** Called by the socket. */
  onDrain(): void {
    if (this.#phase === "open") this.user.onDrain();
  }

  #markOpen(): void {
    this.#phase = "open";
    this.#cancelDeadline();
    this.user.onOpen();
  }

  #closeWithFailure(end: ConnectionEnd): void {
    if (this.#phase === "over") return;
    this.destroy();
    this.user.onClose(this, end);
  }

  #closeWithFailureSoon(end: ConnectionEnd): void {
    queueMicrotask(() => this.#closeWithFailure(end));
  }

  #cancelDeadline(): void {
    if (this.#deadline !== null) this.#deadlines.cancel(this.#deadline);
    this.#deadline = null;
  }
}

const HANDLERS: SocketHandler<ClientConnectionSocket> = {
  open: (socket) => socket.data.onConnect(socket),
  // `authorized` is checked as well: if `rejectUnauthorized` were off, success would only mean that the handshake
  // completed.
  handshake: (socket, success, err) => socket.data.onHandshake(success && socket.authorized, err),
  data: (socket, bytes) => socket.data.onData(bytes),
  drain: (socket) => socket.data.onDrain(),
  close: (socket, err) => socket.data.onEnd(err),
  error: (socket, err) => socket.data.onEnd(err),
};

function errorCode(err: unknown): string {
  if (typeof err !== "object" || err === null) return "unknown";
  if ("code" in err && typeof err.code === "string") return err.code;
  return "unknown";
}
