/** Bytes of one connection that were read and not processed: part of a head, or pipelined requests. */

import { freeBytes, writeBytes } from "../../base/bytes.ts";
import { containsHeadEnd } from "./http-fields.ts";

const BUFFER_BYTES_MIN = 1024;

/** The buffer grows by doubling, so a head that arrives byte by byte costs linear time. */
export class ReadAhead {
  length: number;
  #buffer: Buffer;

  constructor(first: Buffer) {
    // A short view would keep the memory of the whole read alive.
    this.#buffer = 2 * first.length < first.buffer.byteLength ? Buffer.from(first) : first;
    this.length = first.length;
  }

  /** Memory in use. */
  get occupiedBytes(): number {
    return this.#buffer.length;
  }

  append(more: Buffer): void {
    const length = this.length + more.length;
    if (length > this.#buffer.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(BUFFER_BYTES_MIN, 2 * length));
      writeBytes(grown, 0, this.#buffer, 0, this.length);
      this.#buffer = grown;
    }
    writeBytes(this.#buffer, this.length, more);
    this.length = length;
  }

  /** A view, until more is appended. */
  get bytes(): Buffer {
    return this.length === this.#buffer.length ? this.#buffer : this.#buffer.subarray(0, this.length);
  }

  /** Whether a head that was incomplete after `knownBytes` bytes may be complete now. */
  mayEndHead(knownBytes: number): boolean {
    return containsHeadEnd(this.#buffer, knownBytes, this.length);
  }

  /** Frees its memory at once. The garbage collector would let the bytes of hundreds of connections accumulate. */
  release(): void {
    freeBytes(this.#buffer);
  }

  /** Returns all bytes. No bytes may be appended afterwards. */
  take(): Buffer {
    return this.bytes;
  }
}
