/** Bytes of one connection that are read and not yet served: part of a head, or requests that wait for their turn. */

import { freeBytes, writeBytes } from "../wire/bytes.ts";
import { containsHeadEnd } from "./request-head.ts";

const ROOM_BYTES_MIN = 1024;

/** Grows by doubling, so that a head that comes a byte at a time is copied as often as one that comes at once. */
export class ReadAhead {
  length: number;
  private room: Buffer;

  constructor(first: Buffer) {
    // A short rest of a long read would keep all of it in memory.
    this.room = 2 * first.length < first.buffer.byteLength ? Buffer.from(first) : first;
    this.length = first.length;
  }

  /** What it takes of memory. */
  get occupiedBytes(): number {
    return this.room.length;
  }

  append(more: Buffer): void {
    const length = this.length + more.length;
    if (length > this.room.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(ROOM_BYTES_MIN, 2 * length));
      writeBytes(grown, 0, this.room, 0, this.length);
      this.room = grown;
    }
    writeBytes(this.room, this.length, more);
    this.length = length;
  }

  /** Whether a head that was not complete after `known` bytes may be complete now. */
  mayEndHead(known: number): boolean {
    return containsHeadEnd(this.room, known, this.length);
  }

  /** Gives its memory back at once, where the collector would let the bytes of hundreds of connections pile up. */
  release(): void {
    freeBytes(this.room);
  }

  /** All of it. Nothing may be appended afterwards. */
  take(): Buffer {
    return this.length === this.room.length ? this.room : this.room.subarray(0, this.length);
  }
}
