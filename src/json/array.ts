/** Finds elements of a JSON array in a scanned body. */

import type { JsonField } from "./scan.ts";
import { COMMA, DEPTH_LIMIT, skipSpace, valueEnd } from "./walk.ts";

export interface ByteRange {
  start: number;
  end: number;
}

/**
 * Returns the byte ranges of the first elements of an array. The array was scanned before, so its structure is valid.
 */
export function firstElements(
  bytes: Uint8Array,
  array: Pick<JsonField, "start" | "end">,
  countMax: number,
): ByteRange[] {
  const elements: ByteRange[] = [];
  const close = array.end - 1;
  let at = skipSpace(bytes, array.start + 1, close);
  while (at < close && elements.length < countMax) {
    const end = valueEnd(bytes, at, close, DEPTH_LIMIT);
    if (end < 0) break;
    elements.push({ start: at, end });
    at = skipSpace(bytes, end, close);
    if (bytes[at] !== COMMA) break;
    at = skipSpace(bytes, at + 1, close);
  }
  return elements;
}
