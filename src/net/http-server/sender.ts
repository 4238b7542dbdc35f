/** Writes to a socket what it takes, and keeps the rest until it takes more. */

import { type BatchedWriter, writeBatcher } from "../wire/write-batcher.ts";

/** What a socket has not taken yet. */
interface Unsent {
  bytes: Uint8Array;
  readonly isShared: boolean;
}

interface Sink {
  /** How many bytes were taken; less than 0 when it is closed. */
  write(bytes: Uint8Array, from?: number, length?: number): number;
}

export class SocketSender implements BatchedWriter {
  /** Kept because the client takes it slowly. */
  bytes = 0;
  /** In the outbox: whatever else is said comes behind it. */
  postedBytes = 0;
  private isOver = false;
  private readonly socket: Sink;
  /** Of `bytes`, those in memory that other connections use as well. */
  sharedBytes = 0;
  private unsent: Unsent[] | null = null;
  private roomAgain: PromiseWithResolvers<void> | null = null;

  constructor(socket: Sink) {
    this.socket = socket;
  }

  /** What stands there in the outbox: it leaves at the end of the turn. */
  post(from: number, to: number): void {
    this.postedBytes += to - from;
    writeBatcher.post(this, to);
  }

  /** Called by the outbox. */
  send(bytes: Uint8Array, from: number, to: number): void {
    this.postedBytes -= to - from;
    if (!this.isOver) this.hand(bytes, from, to, false);
  }

  /** What was posted does not wait for the end of the turn. */
  hurry(): void {
    if (this.postedBytes > 0) writeBatcher.flush();
  }

  /** True when it begins to keep something: also for a socket that is closed, which says so soon. */
  write(bytes: Uint8Array, from: number, to: number, isShared = false): boolean {
    this.hurry();
    const wasKeeping = this.bytes > 0;
    this.hand(bytes, from, to, isShared);
    return this.bytes > 0 && !wasKeeping;
  }

  /** Nobody runs ahead of what is kept. Shared bytes never change, so the rest of them is not copied. */
  private hand(bytes: Uint8Array, from: number, to: number, isShared: boolean): void {
    let taken = 0;
    if (this.bytes === 0) {
      taken = Math.max(0, this.socket.write(bytes, from, to - from));
      if (taken === to - from) return;
    }
    const rest = isShared
      ? bytes.subarray(from + taken, to)
      : Buffer.copyBytesFrom(bytes, from + taken, to - from - taken);
    this.unsent ??= [];
    this.unsent.push({ bytes: rest, isShared });
    this.bytes += rest.length;
    if (isShared) this.sharedBytes += rest.length;
  }

  /** The socket takes more. True when nothing is left. */
  flush(): boolean {
    const unsent = this.unsent ?? [];
    for (let first = unsent[0]; first !== undefined; first = unsent[0]) {
      const taken = this.socket.write(first.bytes);
      if (taken < 0) return false;
      this.bytes -= taken;
      if (first.isShared) this.sharedBytes -= taken;
      if (taken < first.bytes.length) {
        first.bytes = first.bytes.subarray(taken);
        return false;
      }
      unsent.shift();
    }
    this.unsent = null;
    this.wake();
    return true;
  }

  /** Resolves when nothing is left, or nobody takes it any more. */
  room(): Promise<void> {
    this.roomAgain ??= Promise.withResolvers<void>();
    return this.roomAgain.promise;
  }

  /** Nobody takes anything any more. */
  drop(): void {
    this.isOver = true;
    this.unsent = null;
    this.bytes = 0;
    this.sharedBytes = 0;
    this.wake();
  }

  private wake(): void {
    const { roomAgain } = this;
    this.roomAgain = null;
    roomAgain?.resolve();
  }
}
