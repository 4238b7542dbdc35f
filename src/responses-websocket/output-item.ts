/** An item that the model made, as it is sent back when the conversation goes on. */

import type { ByteRange } from "../json/array.ts";
import { scanObject, stringValue, wantedFields } from "../json/scan.ts";
import { applySplices, editMembers } from "../json/splice.ts";
import { joinParts } from "../net/wire/parts.ts";

const REASONING = wantedFields(["type", "id", "encrypted_content"]);

export interface OutputItemOptions {
  readonly depthMax: number;
  /** The upstream knows its items again by their ids. */
  readonly isStored: boolean;
}

/** In memory of its own: `bytes` are the upstream's, and many more. */
export function outputItem(
  bytes: Uint8Array,
  { start, end }: ByteRange,
  options: OutputItemOptions,
): Uint8Array {
  const item = joinParts([{ bytes, start, end }]);
  return options.isStored ? item : withoutLostId(item, options.depthMax);
}

/** By its id alone an upstream would look for reasoning that it has not kept, and refuse the whole request. */
function withoutLostId(item: Uint8Array, depthMax: number): Uint8Array {
  const scan = scanObject(item, 0, item.length, REASONING, { depthMax });
  if (!scan.ok || scan.fields.type === undefined) return item;
  const { type, id, encrypted_content: encrypted } = scan.fields;
  if (id === undefined || encrypted?.kind === "string" || stringValue(item, type) !== "reasoning")
    return item;
  return applySplices(item, editMembers(item, scan, { id: null }));
}
