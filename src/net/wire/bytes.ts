/**
 * Work on parts of an array without making a view of it first. A view (`subarray`, `Buffer.from(x.buffer)`) of an
 * array that came from the network costs half a microsecond, which is what reading a whole event may cost.
 */

const { compare, copy, indexOf, latin1Slice, toString: text } = Buffer.prototype;

/** Each byte as one character, as heads of HTTP have it. */
export function decodeLatin1(bytes: Uint8Array, start: number, end: number): string {
  return latin1Slice.call(bytes, start, end);
}

export function decodeText(bytes: Uint8Array, start: number, end: number): string {
  return text.call(bytes, "utf8", start, end);
}

/** Where `needle` begins at or after `from`; -1 if nowhere. */
export function findBytes(bytes: Uint8Array, needle: Uint8Array, from: number): number {
  return indexOf.call(bytes, needle, from);
}

export function startsWithAt(bytes: Uint8Array, at: number, expected: Uint8Array): boolean {
  const end = at + expected.length;
  return end <= bytes.length && compare.call(bytes, expected, 0, expected.length, at, end) === 0;
}

/** Below this the memory is worth less than taking it back. */
const FREED_BYTES_MIN = 16 * 1024;

/**
 * Gives the memory of a long array back at once, where the collector would let it grow cold first. The array is empty
 * from then on: only for one that nobody else reads. Of a part of a larger one what stands before it goes as well; with
 * something behind it, it stays.
 */
export function freeBytes(bytes: Uint8Array): void {
  if (bytes.length < FREED_BYTES_MIN) return;
  const { buffer } = bytes;
  if (buffer instanceof ArrayBuffer && buffer.byteLength === bytes.byteOffset + bytes.length)
    buffer.transfer(0);
}

/**
 * Up to here the runtime keeps an array's bytes beside the object: copying an event costs half of what a view does of an
 * array that came from the network.
 */
const COPIED_BYTES_MAX = 1_000;

/** As an array of its own: the same one if the range is all of it, else a copy or a view. */
export function copyBytes(bytes: Uint8Array, start: number, end: number): Uint8Array {
  if (start === 0 && end === bytes.length) return bytes;
  if (end - start > COPIED_BYTES_MAX) return bytes.subarray(start, end);
  const piece = Buffer.allocUnsafe(end - start);
  writeBytes(piece, 0, bytes, start, end);
  return piece;
}

/** Writes `from[start, end)` at `to[at]` and returns where it ends. */
export function writeBytes(
  to: Uint8Array,
  at: number,
  from: Uint8Array,
  start = 0,
  end = from.length,
): number {
  return at + copy.call(from, to, at, start, end);
}
