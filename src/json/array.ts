/** Finds elements of a JSON array in a scanned body. */

import type { JsonField } from "./scan.ts";
import type { Splice } from "./splice.ts";
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

const NO_BYTES = new Uint8Array(0);
const ONE_COMMA = Uint8Array.of(COMMA);

/** Returns the splices that leave only these elements. Everything between two of them is replaced by one comma. */
export function keepElements(array: Pick<JsonField, "start" | "end">, kept: readonly ByteRange[]): Splice[] {
  const splices: Splice[] = [];
  let from = array.start + 1;
  for (const [i, element] of kept.entries()) {
    splices.push({ start: from, end: element.start, insert: i === 0 ? NO_BYTES : ONE_COMMA });
    from = element.end;
  }
  splices.push({ start: from, end: array.end - 1, insert: NO_BYTES });
  return splices;
}
