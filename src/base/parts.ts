/** Ranges of byte arrays, used without creating views or copies. */

import { copyBytes, writeBytes } from "./bytes.ts";

/** A range of an array: the content of a view, without the cost of one. */
export interface Part {
  readonly bytes: Uint8Array;
  readonly start: number;
  readonly end: number;
}

export function wholeBytesPart(bytes: Uint8Array): Part {
  return { bytes, start: 0, end: bytes.length };
}

/** Returns the part as a separate array: the same array if the part covers it, else a copy or a view. */
export function partBytes({ bytes, start, end }: Part): Uint8Array {
  return copyBytes(bytes, start, end);
}

export function wholePart(bytes: Uint8Array): Part[] {
  return [wholeBytesPart(bytes)];
}

export function joinParts(parts: readonly Part[]): Uint8Array {
  // Every byte is overwritten below. Zeroing a long body first would cost more than copying it.
  const joined = Buffer.allocUnsafe(partsLength(parts));
  let to = 0;
  for (const part of parts) to = writeBytes(joined, to, part.bytes, part.start, part.end);
  return joined;
}

export function hasByte({ bytes, start, end }: Part, byte: number): boolean {
  // `indexOf` searches beyond the end of the part. When many bytes follow, a view is cheaper.
  if (bytes.length - end > end - start) return bytes.subarray(start, end).includes(byte);
  const at = bytes.indexOf(byte, start);
  return at >= 0 && at < end;
}

export function partsLength(parts: readonly Part[]): number {
  let length = 0;
  for (const { start, end } of parts) length += end - start;
  return length;
}
