/**
 * Splits a byte stream into the frames of `application/vnd.amazon.eventstream`: a prelude with both lengths, headers,
 * a payload, and a checksum over each of the two.
 */

import { crc32 } from "node:zlib";
import { decodeText, writeBytes } from "../../base/bytes.ts";
import type { Part } from "../../base/parts.ts";

export interface EventFrame {
  /** Headers whose value is a string. The others have no meaning here. */
  readonly headers: ReadonlyMap<string, string>;
  readonly payload: Uint8Array;
}

export type EventFrameFault =
  | "too_large"
  /** A checksum does not match, or the lengths contradict each other. */
  | "corrupt";

const PRELUDE_BYTES = 12;
const CHECKSUM_BYTES = 4;
const FRAME_BYTES_MIN = PRELUDE_BYTES + CHECKSUM_BYTES;
const HEADERS_BYTES_MAX = 128 * 1024;
const BUFFER_BYTES_MIN = 4 * 1024;

/** After a fault no more frames are emitted, because the position of the next frame is unknown. */
export class FrameSplitter {
  readonly #frameBytesMax: number;
  /** The unfinished frame, in an array that grows by doubling. */
  #buffer: Uint8Array = new Uint8Array(0);
  #bufferedBytes = 0;
  #fault: EventFrameFault | null = null;

  constructor(options: { frameBytesMax: number }) {
    this.#frameBytesMax = options.frameBytesMax;
  }

  /** Returns the fault of the stream, or null. Payloads are copies. */
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
      const frame = readFrame(this.#buffer, frameBytes);
      this.#bufferedBytes = 0;
      if (frame === null) this.#fault = "corrupt";
      else onFrame(frame);
    }
    return this.#fault;
  }

  #checkPrelude(): EventFrameFault | null {
    const prelude = this.#buffer.subarray(0, PRELUDE_BYTES - CHECKSUM_BYTES);
    if (crc32(prelude) !== readUint32(this.#buffer, PRELUDE_BYTES - CHECKSUM_BYTES)) return "corrupt";
    const frameBytes = readUint32(this.#buffer, 0);
    const headersBytes = readUint32(this.#buffer, 4);
    if (frameBytes < FRAME_BYTES_MIN + headersBytes) return "corrupt";
    return frameBytes > this.#frameBytesMax || headersBytes > HEADERS_BYTES_MAX ? "too_large" : null;
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

function readFrame(bytes: Uint8Array, frameBytes: number): EventFrame | null {
  const end = frameBytes - CHECKSUM_BYTES;
  if (crc32(bytes.subarray(0, end)) !== readUint32(bytes, end)) return null;
  const payloadAt = PRELUDE_BYTES + readUint32(bytes, 4);
  const headers = readHeaders(bytes.subarray(PRELUDE_BYTES, payloadAt));
  return headers === null ? null : { headers, payload: new Uint8Array(bytes.subarray(payloadAt, end)) };
}

/** The bytes of a header value by its type; the types 6 and 7 have a length of their own. */
const VALUE_BYTES: readonly number[] = [0, 0, 1, 2, 4, 8, -1, -1, 8, 16];
const STRING_TYPE = 7;

/** Returns null if a header extends beyond the end, or has an unknown type. */
function readHeaders(bytes: Uint8Array): Map<string, string> | null {
  const headers = new Map<string, string>();
  for (let at = 0; at < bytes.length; ) {
    const nameEnd = at + 1 + (bytes[at] ?? 0);
    const type = bytes[nameEnd] ?? -1;
    const fixedBytes = VALUE_BYTES[type];
    if (fixedBytes === undefined) return null;
    const valueAt = nameEnd + (fixedBytes < 0 ? 3 : 1);
    const valueBytes =
      fixedBytes < 0 ? (bytes[nameEnd + 1] ?? 0) * 256 + (bytes[nameEnd + 2] ?? 0) : fixedBytes;
    const valueEnd = valueAt + valueBytes;
    if (valueEnd > bytes.length) return null;
    if (type === STRING_TYPE)
      headers.set(decodeText(bytes, at + 1, nameEnd), decodeText(bytes, valueAt, valueEnd));
    at = valueEnd;
  }
  return headers;
}

function readUint32(bytes: Uint8Array, at: number): number {
  return (
    (bytes[at] ?? 0) * 0x1000000 +
    (((bytes[at + 1] ?? 0) << 16) | ((bytes[at + 2] ?? 0) << 8) | (bytes[at + 3] ?? 0))
  );
}
