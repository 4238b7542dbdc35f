/** Removes encrypted reasoning from a passed Responses body: only its own account can decrypt it. */

import { findBytes } from "../../base/bytes.ts";
import { type ByteRange, firstElements, removeElements } from "../../json/array.ts";
import { type JsonField, scanObject, stringValue, wantedFields } from "../../json/scan.ts";
import type { OpaqueStateForm } from "../shared/endpoint.ts";
import { ENVELOPE_PREFIX, isForeignState } from "../shared/envelope-prefix.ts";

const ITEM = wantedFields(["type", "encrypted_content"]);
const ENVELOPE = Buffer.from(`"${ENVELOPE_PREFIX}`);
const ENCRYPTED = Buffer.from('"encrypted_content"');

/** Almost every body contains no mark, and costs only the search. */
export const RESPONSES_STATE: OpaqueStateForm = {
  dropSealed({ bytes, start, end }, { input }, depthMax) {
    if (input?.kind !== "array" || findBytes(bytes, ENVELOPE, start, end) === -1) return [];
    return removeElements(input, listItems(bytes, input), (item) =>
      isForeignState(readEncrypted(bytes, item, depthMax)),
    );
  },
  dropAll({ bytes, start, end }, { input }, depthMax) {
    if (input?.kind !== "array" || findBytes(bytes, ENCRYPTED, start, end) === -1) return [];
    return removeElements(
      input,
      listItems(bytes, input),
      (item) => readEncrypted(bytes, item, depthMax) !== null,
    );
  },
};

function listItems(bytes: Uint8Array, input: JsonField): readonly ByteRange[] {
  return firstElements(bytes, input, Number.POSITIVE_INFINITY);
}

/** Null for other items, and for reasoning that is not encrypted. */
function readEncrypted(bytes: Uint8Array, item: ByteRange, depthMax: number): string | null {
  const scan = scanObject(bytes, item.start, item.end, ITEM, { depthMax });
  if (!scan.ok) return null;
  const { type, encrypted_content: content } = scan.fields;
  if (type === undefined || content?.kind !== "string") return null;
  return stringValue(bytes, type) === "reasoning" ? stringValue(bytes, content) : null;
}
