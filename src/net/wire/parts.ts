/** Ranges of byte arrays, handled without making views or copies of them. */

import { copyBytes, writeBytes } from "./bytes.ts";

/** A range of an array: what a view of it would show, without the view. */
export interface Part {
  readonly bytes: Uint8Array;
  readonly start: number;
  readonly end: number;
}

/** A whole array. */
export function wholeBytesPart(bytes: Uint8Array): Part {
  return { bytes, start: 0, end: bytes.length };
}

/** As an array of its own: the same one if the part is all of it, else a copy or a view. */
export function partBytes({ bytes, start, end }: Part): Uint8Array {
  return copyBytes(bytes, start, end);
}

/** A whole array as the one part it is. */
export function wholePart(bytes: Uint8Array): Part[] {
  return [wholeBytesPart(bytes)];
}

export function joinParts(parts: readonly Part[]): Uint8Array {
  // Every byte is written below; zeroing a long body first would cost more than copying it.
  const joined = Buffer.allocUnsafe(partsLength(parts));
  let to = 0;
  for (const part of parts) to = writeBytes(joined, to, part.bytes, part.start, part.end);
  return joined;
}

export function hasByte({ bytes, start, end }: Part, byte: number): boolean {
  // The search goes on behind the part: where much follows, for each of many parts, a view is cheaper.
  if (bytes.length - end > end - start) return bytes.subarray(start, end).includes(byte);
  const at = bytes.indexOf(byte, start);
  return at >= 0 && at < end;
}

export function partsLength(parts: readonly Part[]): number {
  let length = 0;
  for (const { start, end } of parts) length += end - start;
  return length;
}
