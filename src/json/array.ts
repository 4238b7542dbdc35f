/** Finds elements of a JSON array in a scanned body. */

import { NO_BYTES } from "../base/bytes.ts";
import type { JsonField } from "./scan.ts";
import type { Splice } from "./splice.ts";
import { COMMA, DEPTH_LIMIT, skipSpace, valueEnd } from "./walk.ts";

export interface ByteRange {
  start: number;
  end: number;
}

/** The byte ranges of the elements of an array. The array was scanned before, so its structure is valid. */
export function* eachElement(
  bytes: Uint8Array,
  array: Pick<JsonField, "start" | "end">,
): Generator<ByteRange, void> {
  const close = array.end - 1;
  let at = skipSpace(bytes, array.start + 1, close);
  while (at < close) {
    const end = valueEnd(bytes, at, close, DEPTH_LIMIT);
    if (end < 0) return;
    yield { start: at, end };
    at = skipSpace(bytes, end, close);
    if (bytes[at] !== COMMA) return;
    at = skipSpace(bytes, at + 1, close);
  }
}

/** The same for the first elements. */
export function firstElements(
  bytes: Uint8Array,
  array: Pick<JsonField, "start" | "end">,
  countMax: number,
): ByteRange[] {
  const elements: ByteRange[] = [];
  if (countMax <= 0) return elements;
  for (const element of eachElement(bytes, array)) {
    elements.push(element);
    if (elements.length >= countMax) break;
  }
  return elements;
}

const ONE_COMMA = Uint8Array.of(COMMA);

/**
 * Returns the splices that remove some of the elements of an array, one for each run of adjacent ones: a body has as
 * many splices as it has gaps, however many elements stay. `elements` are all elements, in their order.
 */
export function removeElements(
  array: Pick<JsonField, "start" | "end">,
  elements: readonly ByteRange[],
  isRemoved: (element: ByteRange) => boolean,
): Splice[] {
  const splices: Splice[] = [];
  /** The end of the last element that stays; the start of the array while there is none. */
  let keptEnd = array.start + 1;
  let hasKept = false;
  let isGap = false;
  for (const element of elements) {
    if (isRemoved(element)) {
      isGap = true;
      continue;
    }
    // Everything between two elements that stay is replaced by one comma.
    if (isGap) splices.push({ start: keptEnd, end: element.start, insert: hasKept ? ONE_COMMA : NO_BYTES });
    keptEnd = element.end;
    hasKept = true;
    isGap = false;
  }
  if (isGap) splices.push({ start: keptEnd, end: array.end - 1, insert: NO_BYTES });
  return splices;
}
