/**
 * The socket side of a connection: writes, pauses and accounts for the memory that the connection occupies. The
 * subclass interprets the bytes.
 */

import type { Socket } from "bun";
import type { AddressBlock } from "./admission.ts";
import type { BytesHolder } from "./connection-bytes.ts";
import type { ConnectionState, Trust } from "./connection-state.ts";
import type { ServerContext } from "./server-context.ts";
import { SocketSender } from "./socket-sender.ts";

/** Authenticated clients are closed after all others. */
const AUTHENTICATED_YIELD_MS = 1e12;

export abstract class SocketSide implements BytesHolder {
  readonly block: AddressBlock;
  protected readonly context: ServerContext;
  protected readonly socket: Socket<unknown>;
  protected readonly sender: SocketSender;
  protected state: ConnectionState = "between";
  protected trust: Trust = "silent";
  /** When the connection entered its state, or when the client last accepted bytes. */
  protected sinceMs: number;
  protected isPaused = false;
  protected disconnectController: AbortController | null = null;
  /** As last reported to the budget. */
  #occupiedBytes = 0;
  /** Bytes of responses to an authenticated client that it does not read, as last reported to their budget. */
  #unsentBytes = 0;
  /** Created when the client first reads slowly. */
  #unsentHolder: BytesHolder | null = null;

  constructor(context: ServerContext, socket: Socket<unknown>, block: AddressBlock) {
    this.context = context;
    this.socket = socket;
    this.block = block;
    this.sender = new SocketSender(socket);
    this.sinceMs = context.nowMs;
  }

  abstract yieldBytes(): void;
  abstract terminate(): void;

  /** Bytes that were read and not served. */
  protected abstract get unreadBytes(): number;

  /** The runtime keeps the address after the close, because it was read when the connection was accepted. */
  get address(): string {
    return this.socket.remoteAddress ?? "";
  }

  // The client.

  /** One signal for all requests of the connection, because few need one, and each would create it. */
  get signal(): AbortSignal {
    this.disconnectController ??= new AbortController();
    if (this.state === "over" && !this.disconnectController.signal.aborted) this.disconnectController.abort();
    return this.disconnectController.signal;
  }

  /** The client presented a valid key, session or token. */
  authenticated(): void {
    if (this.trust === "authenticated") return;
    this.context.unauthenticatedBytes.change(this, this.#occupiedBytes, 0);
    this.#occupiedBytes = 0;
    this.trust = "authenticated";
  }

  get yieldOrder(): number | null {
    if (this.state === "over" || this.state === "upgraded") return null;
    if (this.trust !== "authenticated") return this.sinceMs;
    const isIdle = this.state === "between" || this.state === "lingering";
    return isIdle ? this.sinceMs + AUTHENTICATED_YIELD_MS : null;
  }

  // Memory accounting.

  protected get isOccupying(): boolean {
    return this.#occupiedBytes > 0;
  }

  /** Reports to the budget. A response counts until it is sent, unless others share its memory. */
  protected reportMemory(): void {
    const { sender } = this;
    const isUnauthenticated = this.trust !== "authenticated";
    if (sender.bytes > 0 || this.#unsentBytes > 0) this.#reportUnsent();
    const bytes = this.unreadBytes + (isUnauthenticated ? sender.bytes - sender.sharedBytes : 0);
    const before = this.#occupiedBytes;
    if (bytes === before) return;
    this.#occupiedBytes = bytes;
    (isUnauthenticated ? this.context.unauthenticatedBytes : this.context.authenticatedBytes).change(
      this,
      before,
      bytes,
    );
  }

  /** Unsent bytes of clients that are not authenticated are in the other budget. */
  #reportUnsent(): void {
    const { sender } = this;
    const isCounted = this.trust === "authenticated" && this.state !== "over";
    const bytes = isCounted ? sender.bytes - sender.sharedBytes : 0;
    const before = this.#unsentBytes;
    if (bytes === before) return;
    this.#unsentBytes = bytes;
    this.#unsentHolder ??= { yieldBytes: () => this.#yieldUnsent() };
    this.context.unsentBytes.change(this.#unsentHolder, before, bytes);
  }

  /** The source of the response may be writing it now, so the connection closes after that. */
  #yieldUnsent(): void {
    const before = this.#unsentBytes;
    this.#unsentBytes = 0;
    if (this.#unsentHolder !== null) this.context.unsentBytes.change(this.#unsentHolder, before, 0);
    queueMicrotask(() => this.terminate());
  }

  // Reading.

  protected pause(): void {
    if (this.isPaused || this.state === "over") return;
    this.isPaused = true;
    this.socket.pause();
  }

  resume(): void {
    if (!this.isPaused || this.state === "over") return;
    this.isPaused = false;
    this.socket.resume();
  }

  // Writing.

  get isOver(): boolean {
    return this.state === "over";
  }

  get bufferedBytes(): number {
    return this.sender.bytes;
  }

  write(bytes: Uint8Array, from = 0, to = bytes.length): void {
    if (this.state === "over") return;
    if (this.sender.write(bytes, from, to)) this.sinceMs = this.context.nowMs;
    if (this.sender.bytes > 0) this.#reportUnsent();
  }

  writeShared(bytes: Uint8Array): void {
    if (this.state === "over") return;
    if (this.sender.write(bytes, 0, bytes.length, true)) this.sinceMs = this.context.nowMs;
  }

  batch(from: number, to: number): void {
    if (this.state !== "over") this.sender.batch(from, to);
  }
}
