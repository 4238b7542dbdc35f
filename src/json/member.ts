/** A member near the front of a large object, found without walking all of it. */

import { startsWithAt } from "../net/wire/bytes.ts";
import { COMMA, colonEnd, OBJECT_OPEN, QUOTE, skipSpace, stringEnd, valueEnd } from "./walk.ts";

const DEPTH_MAX = 128;

/**
 * Where the value of the first member of this name begins. -1 when there is none that is written without escapes, or
 * what stands before it is no JSON; what stands behind it is not looked at.
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
