import type { JsonField } from "./scan.ts";
import { COMMA, DEPTH_LIMIT, skipSpace, valueEnd } from "./walk.ts";

export interface ByteRange {
  start: number;
  end: number;
}

/** Where the first elements of an array stand. The array was scanned before, so its structure is sound. */
export function firstElements(
  bytes: Uint8Array,
  array: Pick<JsonField, "start" | "end">,
  countMax: number,
): ByteRange[] {
  const found: ByteRange[] = [];
  const close = array.end - 1;
  let at = skipSpace(bytes, array.start + 1, close);
  while (at < close && found.length < countMax) {
    const end = valueEnd(bytes, at, close, DEPTH_LIMIT);
    if (end < 0) break;
    found.push({ start: at, end });
    at = skipSpace(bytes, end, close);
    if (bytes[at] !== COMMA) break;
    at = skipSpace(bytes, at + 1, close);
  }
  return found;
}
