/**
 * Operations on ranges of a byte array that create no view. A view (`subarray`, `Buffer.from(x.buffer)`) of an array
 * that came from the network costs half a microsecond, as much as reading a whole event can cost.
 */

const { compare, copy, latin1Slice, toString: text } = Buffer.prototype;
type IndexOf = (this: Uint8Array, needle: Uint8Array, from: number, end: number) => number;
/** The declared types do not know its end. */
const indexOf = Buffer.prototype.indexOf as unknown as IndexOf;

export const NO_BYTES = new Uint8Array(0);

/** Decodes each byte as one character, as HTTP heads require. */
export function decodeLatin1(bytes: Uint8Array, start: number, end: number): string {
  return latin1Slice.call(bytes, start, end);
}

export function decodeText(bytes: Uint8Array, start: number, end: number): string {
  return text.call(bytes, "utf8", start, end);
}

/** Returns the position of the first `needle` in `[from, end)`, or -1. */
export function findBytes(bytes: Uint8Array, needle: Uint8Array, from: number, end: number): number {
  return indexOf.call(bytes, needle, from, end);
}

export function startsWithAt(bytes: Uint8Array, at: number, expected: Uint8Array): boolean {
  const end = at + expected.length;
  return end <= bytes.length && compare.call(bytes, expected, 0, expected.length, at, end) === 0;
}

/** For a shorter array, freeing the memory costs more than it gains. */
const FREED_BYTES_MIN = 16 * 1024;

/**
 * Frees the memory of a long array at once, while it is still in the CPU cache; the garbage collector would free it
 * later. The array is empty afterwards, so no other code may still read it. If the array is a view, the bytes before
 * it in the same buffer are freed as well; if bytes follow the view, nothing is freed.
 */
export function freeBytes(bytes: Uint8Array): void {
  if (bytes.length < FREED_BYTES_MIN) return;
  const { buffer } = bytes;
  if (buffer instanceof ArrayBuffer && buffer.byteLength === bytes.byteOffset + bytes.length)
    buffer.transfer(0);
}

/**
 * Up to this size the runtime stores the bytes of an array beside the object. Copying an event then costs half as
 * much as a view of an array that came from the network.
 */
const COPIED_BYTES_MAX = 1_000;

/** Returns the range as a separate array: the same array if the range covers it, else a copy or a view. */
export function copyBytes(bytes: Uint8Array, start: number, end: number): Uint8Array {
  if (start === 0 && end === bytes.length) return bytes;
  if (end - start > COPIED_BYTES_MAX) return bytes.subarray(start, end);
  const piece = Buffer.allocUnsafe(end - start);
  writeBytes(piece, 0, bytes, start, end);
  return piece;
}

/** Writes `from[start, end)` at `to[at]` and returns the end position. */
export function writeBytes(
  to: Uint8Array,
  at: number,
  from: Uint8Array,
  start = 0,
  end = from.length,
): number {
  return at + copy.call(from, to, at, start, end);
}
