/** An output item of the model, prepared to be sent back when the conversation continues. */

import { joinParts } from "../base/parts.ts";
import type { ByteRange } from "../json/array.ts";
import { scanObject, stringValue, wantedFields } from "../json/scan.ts";
import { applySplices, editMembers } from "../json/splice.ts";

const REASONING = wantedFields(["type", "id", "encrypted_content"]);

interface OutputItemOptions {
  readonly depthMax: number;
  /** The upstream stores the response and recognizes its items by their ids. */
  readonly isStored: boolean;
}

/** Copies the item into its own memory: `bytes` belongs to the upstream's stream and is much larger. */
export function outputItem(
  bytes: Uint8Array,
  { start, end }: ByteRange,
  options: OutputItemOptions,
): Uint8Array {
  const item = joinParts([{ bytes, start, end }]);
  return options.isStored ? item : dropUnknownId(item, options.depthMax);
}

/** An upstream that did not store the reasoning would look it up by its id and reject the whole request. */
function dropUnknownId(item: Uint8Array, depthMax: number): Uint8Array {
  const scan = scanObject(item, 0, item.length, REASONING, { depthMax });
  if (!scan.ok || scan.fields.type === undefined) return item;
  const { type, id, encrypted_content: encrypted } = scan.fields;
  if (id === undefined || encrypted?.kind === "string" || stringValue(item, type) !== "reasoning")
    return item;
  return applySplices(item, editMembers(item, scan, { id: null }));
}
