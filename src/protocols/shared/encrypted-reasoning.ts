/**
 * Removes encrypted reasoning from the input. Only the account that created it can decrypt it, so it is removed when a
 * conversation moves to another account; everything else stays as received.
 */

import { type ByteRange, firstElements, removeElements } from "../../json/array.ts";
import { type JsonField, scanObject, stringValue, wantedFields } from "../../json/scan.ts";
import type { Splice } from "../../json/splice.ts";

const ITEM = wantedFields(["type", "encrypted_content"]);

/** Returns the splices that remove the items; empty if there are none. */
export function dropEncryptedReasoning(
  bytes: Uint8Array,
  input: JsonField | undefined,
  depthMax: number,
): Splice[] {
  if (input?.kind !== "array") return [];
  const items = firstElements(bytes, input, Number.POSITIVE_INFINITY);
  return removeElements(input, items, (item) => isEncryptedReasoning(bytes, item, depthMax));
}

function isEncryptedReasoning(bytes: Uint8Array, item: ByteRange, depthMax: number): boolean {
  const scan = scanObject(bytes, item.start, item.end, ITEM, { depthMax });
  if (!scan.ok) return false;
  const { type, encrypted_content: content } = scan.fields;
  return type !== undefined && stringValue(bytes, type) === "reasoning" && content?.kind === "string";
}
