/**
 * Removes encrypted reasoning from the input. Only the account that created it can decrypt it, so it is removed when a
 * conversation moves to another account; everything else stays as received.
 */

import { type ByteRange, firstElements } from "../../json/array.ts";
import { type JsonField, scanObject, stringValue, wantedFields } from "../../json/scan.ts";
import type { Splice } from "../../json/splice.ts";

const ITEM = wantedFields(["type", "encrypted_content"]);
const NO_BYTES = new Uint8Array(0);
const COMMA = Uint8Array.of(0x2c);

/** Returns the splices that remove the items; empty if there are none. */
export function dropEncryptedReasoning(
  bytes: Uint8Array,
  input: JsonField | undefined,
  depthMax: number,
): Splice[] {
  if (input?.kind !== "array") return [];
  const items = firstElements(bytes, input, Number.POSITIVE_INFINITY);
  const keep = items.filter((item) => !isEncryptedReasoning(bytes, item, depthMax));
  if (keep.length === items.length) return [];
  // Everything between two kept items is replaced by one comma.
  const splices: Splice[] = [];
  let from = input.start + 1;
  for (const [i, item] of keep.entries()) {
    splices.push({ start: from, end: item.start, insert: i === 0 ? NO_BYTES : COMMA });
    from = item.end;
  }
  splices.push({ start: from, end: input.end - 1, insert: NO_BYTES });
  return splices;
}

function isEncryptedReasoning(bytes: Uint8Array, item: ByteRange, depthMax: number): boolean {
  const scan = scanObject(bytes, item.start, item.end, ITEM, { depthMax });
  if (!scan.ok) return false;
  const { type, encrypted_content: content } = scan.fields;
  return type !== undefined && stringValue(bytes, type) === "reasoning" && content?.kind === "string";
}
