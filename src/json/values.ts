/** Counts the values of a JSON text before it is parsed. */

import { ARRAY_OPEN, COMMA, OBJECT_OPEN, QUOTE, stringEnd } from "./walk.ts";

/** Whether the text has more than about `max` containers, elements and members. Reads no further than that. */
export function hasMoreValues(bytes: Uint8Array, max: number): boolean {
  let values = 0;
  let at = 0;
  while (at < bytes.length) {
    const byte = bytes[at];
    if (byte === QUOTE) {
      at = stringEnd(bytes, at + 1, bytes.length, at);
      // The string has no end: the text is not JSON.
      if (at < 0) return false;
      continue;
    }
    if (byte === COMMA || byte === OBJECT_OPEN || byte === ARRAY_OPEN) {
      values++;
      if (values > max) return true;
    }
    at++;
  }
  return false;
}
