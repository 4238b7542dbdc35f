/** Collects a body in bounded memory: its beginning and, if the body is longer, its end. */

import { NO_BYTES } from "../base/bytes.ts";
import type { Part } from "../base/parts.ts";

export interface CaptureMemory {
  /** Returns false if the memory is full. */
  reserve(bytes: number): boolean;
  release(bytes: number): void;
}

/** The bytes that a capture has of a body. Both arrays own their buffers, so that they can be transferred to a thread. */
export interface CapturedBytes {
  readonly head: Uint8Array<ArrayBuffer>;
  /** The end of a body that is longer than the limit; empty otherwise. */
  readonly tail: Uint8Array<ArrayBuffer>;
  /** The length of the whole body. */
  readonly totalBytes: number;
}

/** The share of the limit that the beginning takes: it has the settings and the instructions. */
const HEAD_SHARE = 0.75;
const FIRST_BYTES = 2_048;

export class CappedBytes {
  readonly #memory: CaptureMemory;
  readonly #headMax: number;
  readonly #tailMax: number;
  #head: Uint8Array<ArrayBuffer> = NO_BYTES;
  #headBytes = 0;
  /** A ring, once the head is full. */
  #tail: Uint8Array<ArrayBuffer> = NO_BYTES;
  #tailAt = 0;
  #totalBytes = 0;

  constructor(memory: CaptureMemory, bytesMax: number) {
    this.#memory = memory;
    this.#headMax = Math.ceil(bytesMax * HEAD_SHARE);
    this.#tailMax = bytesMax - this.#headMax;
  }

  /** Copies the bytes. Returns false if there is no memory. */
  append({ bytes, start, end }: Part): boolean {
    this.#totalBytes += end - start;
    const toHead = Math.min(end - start, this.#headMax - this.#headBytes);
    if (toHead > 0) {
      if (!this.#growHead(this.#headBytes + toHead)) return false;
      this.#head.set(bytes.subarray(start, start + toHead), this.#headBytes);
      this.#headBytes += toHead;
    }
    return start + toHead === end || this.#appendToTail(bytes.subarray(start + toHead, end));
  }

  appendAll(parts: readonly Part[]): boolean {
    for (const part of parts) if (!this.append(part)) return false;
    return true;
  }

  /** Leaves this object empty. The memory stays reserved until the caller releases it. */
  take(): CapturedBytes {
    const head = this.#head.slice(0, this.#headBytes);
    const tailBytes = Math.min(this.#totalBytes - this.#headBytes, this.#tailMax);
    const tail = new Uint8Array(tailBytes);
    if (tailBytes === this.#tailMax) {
      tail.set(this.#tail.subarray(this.#tailAt), 0);
      tail.set(this.#tail.subarray(0, this.#tailAt), tailBytes - this.#tailAt);
    } else tail.set(this.#tail.subarray(0, tailBytes));
    const kept = { head, tail, totalBytes: this.#totalBytes };
    this.#head = NO_BYTES;
    this.#tail = NO_BYTES;
    this.#headBytes = this.#totalBytes = this.#tailAt = 0;
    return kept;
  }

  #growHead(neededBytes: number): boolean {
    const { length } = this.#head;
    if (neededBytes <= length) return true;
    const capacity = Math.min(this.#headMax, Math.max(neededBytes, length * 2, FIRST_BYTES));
    if (!this.#memory.reserve(capacity - length)) return false;
    const grown = new Uint8Array(capacity);
    grown.set(this.#head.subarray(0, this.#headBytes));
    this.#head = grown;
    return true;
  }

  #appendToTail(bytes: Uint8Array): boolean {
    if (this.#tail.length === 0) {
      if (!this.#memory.reserve(this.#tailMax)) return false;
      this.#tail = new Uint8Array(this.#tailMax);
    }
    const last = bytes.length > this.#tailMax ? bytes.subarray(bytes.length - this.#tailMax) : bytes;
    const toEnd = Math.min(last.length, this.#tailMax - this.#tailAt);
    this.#tail.set(last.subarray(0, toEnd), this.#tailAt);
    this.#tail.set(last.subarray(toEnd), 0);
    this.#tailAt = (this.#tailAt + last.length) % this.#tailMax;
    return true;
  }
}
