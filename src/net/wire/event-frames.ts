/**
 * Splits a byte stream into the frames of `application/vnd.amazon.eventstream`: a prelude with both lengths, headers,
 * a payload, and a checksum over each of the two.
 */

import { crc32 } from "node:zlib";
import { decodeText, writeBytes } from "../../base/bytes.ts";
import type { Part } from "../../base/parts.ts";

export interface EventFrame {
  readonly headers: FrameHeaders;
  readonly payload: Part;
}

export type EventFrameFault =
  | "too_large"
  /** A checksum does not match, the lengths contradict each other, or there are too many headers. */
  | "corrupt";

interface FrameLimits {
  readonly frameBytesMax: number;
  readonly headersMax: number;
}

const PRELUDE_BYTES = 12;
const CHECKSUM_BYTES = 4;
const FRAME_BYTES_MIN = PRELUDE_BYTES + CHECKSUM_BYTES;
const HEADERS_BYTES_MAX = 128 * 1024;
const BUFFER_BYTES_MIN = 4 * 1024;

/** After a fault no more frames are emitted, because the position of the next frame is unknown. */
export class FrameSplitter {
  readonly #limits: FrameLimits;
  /** The unfinished frame, in an array that grows by doubling. */
  #buffer: Uint8Array = new Uint8Array(0);
  #bufferedBytes = 0;
  #fault: EventFrameFault | null = null;

  constructor(limits: FrameLimits) {
    this.#limits = limits;
  }

  /** Returns the fault of the stream, or null. Headers and payloads are copies. */
  push({ bytes, start, end }: Part, onFrame: (frame: EventFrame) => void): EventFrameFault | null {
    let at = start;
    while (this.#fault === null && at < end) {
      if (this.#bufferedBytes < PRELUDE_BYTES) {
        at = this.#append(bytes, at, Math.min(end, at + PRELUDE_BYTES - this.#bufferedBytes));
        if (this.#bufferedBytes < PRELUDE_BYTES) break;
        this.#fault = this.#checkPrelude();
        continue;
      }
      const frameBytes = readUint32(this.#buffer, 0);
      at = this.#append(bytes, at, Math.min(end, at + frameBytes - this.#bufferedBytes));
      if (this.#bufferedBytes < frameBytes) break;
      const frame = readFrame(this.#buffer, frameBytes, this.#limits.headersMax);
      this.#bufferedBytes = 0;
      if (frame === null) this.#fault = "corrupt";
      else onFrame(frame);
    }
    return this.#fault;
  }

  #checkPrelude(): EventFrameFault | null {
    const prelude = Buffer.copyBytesFrom(this.#buffer, 0, PRELUDE_BYTES - CHECKSUM_BYTES);
    if (crc32(prelude) !== readUint32(this.#buffer, PRELUDE_BYTES - CHECKSUM_BYTES)) return "corrupt";
    const frameBytes = readUint32(this.#buffer, 0);
    const headersBytes = readUint32(this.#buffer, 4);
    if (frameBytes < FRAME_BYTES_MIN + headersBytes) return "corrupt";
    return frameBytes > this.#limits.frameBytesMax || headersBytes > HEADERS_BYTES_MAX ? "too_large" : null;
  }

  /** Returns the position after the copied bytes. */
  #append(bytes: Uint8Array, start: number, end: number): number {
    const needed = this.#bufferedBytes + end - start;
    if (needed > this.#buffer.length) {
      const grown = Buffer.allocUnsafe(Math.max(BUFFER_BYTES_MIN, needed, this.#buffer.length * 2));
      writeBytes(grown, 0, this.#buffer, 0, this.#bufferedBytes);
      this.#buffer = grown;
    }
    this.#bufferedBytes = writeBytes(this.#buffer, this.#bufferedBytes, bytes, start, end);
    return end;
  }
}

function readFrame(bytes: Uint8Array, frameBytes: number, headersMax: number): EventFrame | null {
  const end = frameBytes - CHECKSUM_BYTES;
  // A copy, because the buffer is used for the next frame. It costs less than a view for each of the parts.
  const frame = Buffer.copyBytesFrom(bytes, 0, end);
  if (crc32(frame) !== readUint32(bytes, end)) return null;
  const headers = { bytes: frame, start: PRELUDE_BYTES, end: PRELUDE_BYTES + readUint32(frame, 4) };
  if (!areHeaders(headers, headersMax)) return null;
  return { headers: new FrameHeaders(headers), payload: { bytes: frame, start: headers.end, end } };
}

/** The bytes of a header value by its type; the types 6 and 7 have a length of their own. */
const VALUE_BYTES: readonly number[] = [0, 0, 1, 2, 4, 8, -1, -1, 8, 16];
const STRING_TYPE = 7;
const LENGTH_BYTES = 2;

/** Whether the bytes are headers that all end where they should, of known types, and at most this many. */
function areHeaders({ bytes, start, end }: Part, max: number): boolean {
  let at = start;
  for (let count = 0; at < end; count++) {
    const next = count < max ? headerEnd(bytes, at) : -1;
    if (next < 0) return false;
    at = next;
  }
  return at === end;
}

/** Negative if the type is unknown. */
function headerEnd(bytes: Uint8Array, start: number): number {
  const typeAt = start + 1 + (bytes[start] ?? 0);
  const fixedBytes = VALUE_BYTES[bytes[typeAt] ?? -1];
  if (fixedBytes === undefined) return -1;
  if (fixedBytes >= 0) return typeAt + 1 + fixedBytes;
  return typeAt + 1 + LENGTH_BYTES + (bytes[typeAt + 1] ?? 0) * 256 + (bytes[typeAt + 2] ?? 0);
}

/** The headers of a frame. Only the ones that are asked for are decoded. */
class FrameHeaders {
  readonly #part: Part;

  constructor(part: Part) {
    this.#part = part;
  }

  /** Undefined if the value is not a string. Of headers with the same name the last counts. The name is ASCII. */
  get(name: string): string | undefined {
    const { bytes } = this.#part;
    let last: Part | null = null;
    for (let at = this.#part.start; at < this.#part.end; ) {
      const end = headerEnd(bytes, at);
      const typeAt = at + 1 + name.length;
      if (bytes[at] === name.length && bytes[typeAt] === STRING_TYPE && hasText(bytes, at + 1, name))
        last = { bytes, start: typeAt + 1 + LENGTH_BYTES, end };
      at = end;
    }
    return last === null ? undefined : decodeText(bytes, last.start, last.end);
  }
}

function hasText(bytes: Uint8Array, at: number, text: string): boolean {
  for (let i = 0; i < text.length; i++) if (bytes[at + i] !== text.charCodeAt(i)) return false;
  return true;
}

function readUint32(bytes: Uint8Array, at: number): number {
  return (
    (bytes[at] ?? 0) * 0x1000000 +
    (((bytes[at + 1] ?? 0) << 16) | ((bytes[at + 2] ?? 0) << 8) | (bytes[at + 3] ?? 0))
  );
}
