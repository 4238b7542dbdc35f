/** Finds a member near the front of a large object without walking all of it. */

import { startsWithAt } from "../base/bytes.ts";
import { COMMA, colonEnd, OBJECT_OPEN, QUOTE, skipSpace, stringEnd, valueEnd } from "./walk.ts";

const DEPTH_MAX = 128;

/**
 * Returns the start of the value of the first member with this name. Returns -1 if no member has that name without
 * escapes, or if the bytes before it are not JSON. The bytes after it are not examined.
 */
export function memberStart(bytes: Uint8Array, start: number, end: number, name: Uint8Array): number {
  let at = skipSpace(bytes, start, end);
  if (bytes[at] !== OBJECT_OPEN) return -1;
  do {
    const key = skipSpace(bytes, at + 1, end);
    if (key >= end || bytes[key] !== QUOTE) return -1;
    const keyEnd = stringEnd(bytes, key + 1, end, key);
    const value = keyEnd < 0 ? keyEnd : colonEnd(bytes, keyEnd, end);
    if (value < 0) return -1;
    if (keyEnd - key - 2 === name.length && startsWithAt(bytes, key + 1, name)) return value;
    at = valueEnd(bytes, value, end, DEPTH_MAX);
    if (at < 0) return -1;
    at = skipSpace(bytes, at, end);
  } while (at < end && bytes[at] === COMMA);
  return -1;
}
