/**
 * The side of a connection that faces its socket: sends, pauses, and counts what the connection occupies. What the bytes
 * mean is left to whoever extends it.
 */

import type { Socket } from "bun";
import type { AddressBlock } from "./admission.ts";
import type { BytesHolder } from "./connection-bytes.ts";
import type { ConnectionState, Trust } from "./connection-state.ts";
import { SocketSender } from "./sender.ts";
import type { ServerContext } from "./server-context.ts";

/** Clients with a key or a session give way after all others. */
const AUTHENTICATED_YIELD_MS = 1e12;

export abstract class SocketSide implements BytesHolder {
  readonly block: AddressBlock;
  protected readonly hall: ServerContext;
  protected readonly socket: Socket<unknown>;
  protected readonly sender: SocketSender;
  protected state: ConnectionState = "between";
  protected trust: Trust = "silent";
  /** Since when it is in its state, or has taken nothing. */
  protected sinceMs: number;
  protected isPaused = false;
  protected leaving: AbortController | null = null;
  /** As the budget knows it. */
  private occupiedBytes = 0;

  constructor(hall: ServerContext, socket: Socket<unknown>, block: AddressBlock) {
    this.hall = hall;
    this.socket = socket;
    this.block = block;
    this.sender = new SocketSender(socket);
    this.sinceMs = hall.nowMs;
  }

  abstract yieldBytes(): void;

  /** Read and not yet served. */
  protected abstract get unreadBytes(): number;

  /** The runtime remembers it beyond the end, since it was asked for when the connection was accepted. */
  get address(): string {
    return this.socket.remoteAddress ?? "";
  }

  // What is known of its client.

  /** One for all requests of the connection: nearly none of them needs it, and each would have to make one. */
  get signal(): AbortSignal {
    this.leaving ??= new AbortController();
    if (this.state === "over" && !this.leaving.signal.aborted) this.leaving.abort();
    return this.leaving.signal;
  }

  /** It has shown a key, a session or a token. */
  authenticated(): void {
    if (this.trust === "authenticated") return;
    this.hall.strangerBytes.change(this, this.occupiedBytes, 0);
    this.occupiedBytes = 0;
    this.trust = "authenticated";
  }

  get yieldOrder(): number | null {
    if (this.state === "over" || this.state === "upgraded") return null;
    if (this.trust !== "authenticated") return this.sinceMs;
    const isIdle = this.state === "between" || this.state === "lingering";
    return isIdle ? this.sinceMs + AUTHENTICATED_YIELD_MS : null;
  }

  // What it occupies.

  protected get isOccupying(): boolean {
    return this.occupiedBytes > 0;
  }

  /** Tells the budget. An answer counts until it is taken, unless other connections send from the same memory. */
  protected account(): void {
    const { sender } = this;
    const isStranger = this.trust !== "authenticated";
    const bytes = this.unreadBytes + (isStranger ? sender.bytes - sender.sharedBytes : 0);
    const before = this.occupiedBytes;
    if (bytes === before) return;
    this.occupiedBytes = bytes;
    (isStranger ? this.hall.strangerBytes : this.hall.clientBytes).change(this, before, bytes);
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
    if (this.state !== "over" && this.sender.write(bytes, from, to)) this.sinceMs = this.hall.nowMs;
  }

  writeShared(bytes: Uint8Array): void {
    if (this.state === "over") return;
    if (this.sender.write(bytes, 0, bytes.length, true)) this.sinceMs = this.hall.nowMs;
  }

  post(from: number, to: number): void {
    if (this.state !== "over") this.sender.post(from, to);
  }

  room(): Promise<void> {
    return this.sender.room();
  }
}
