/** Lists the input items of a stored response, in the form in which the API returns them. */

import type { Part } from "../../base/parts.ts";
import { isObject } from "../../json/parse.ts";
import { parseBody } from "../../json/parse-body.ts";

/** One page of the list. */
export interface InputItemsTerms {
  readonly responseId: string;
  readonly order: "asc" | "desc";
  /** The id of the item before the page. */
  readonly after: string | null;
  readonly limit: number;
}

interface ListedItem extends Record<string, unknown> {
  readonly id: string;
}

/** `input` is that of a stored turn. Returns the JSON of the page. */
export function listInputItems(input: Part, terms: InputItemsTerms): Uint8Array<ArrayBuffer> {
  const items = readInputItems(parseBody(input), terms.responseId);
  if (terms.order === "desc") items.reverse();
  const first = items.findIndex(({ id }) => id === terms.after) + 1;
  const page = items.slice(first, first + terms.limit);
  const list = {
    object: "list",
    data: page,
    first_id: page[0]?.id ?? null,
    last_id: page.at(-1)?.id ?? null,
    has_more: first + terms.limit < items.length,
  };
  return Buffer.from(JSON.stringify(list));
}

/** Items with ids, text in parts. The ids are the same in each call. */
function readInputItems(input: unknown, responseId: string): ListedItem[] {
  const suffix = responseId.slice("resp_".length);
  if (typeof input === "string")
    return [completeMessage({ role: "user", content: input }, `msg_${suffix}-0`)];
  if (!Array.isArray(input)) return [];
  return input.filter(isObject).map((item, at) => {
    const isMessage = item.type === undefined || item.type === "message";
    const id = typeof item.id === "string" ? item.id : `${isMessage ? "msg" : "item"}_${suffix}-${at}`;
    return isMessage ? completeMessage(item, id) : { ...item, id };
  });
}

function completeMessage(item: Record<string, unknown>, id: string): ListedItem {
  const { content, role } = item;
  const type = role === "assistant" ? "output_text" : "input_text";
  const parts = typeof content === "string" ? [{ type, text: content }] : content;
  return { status: "completed", ...item, type: "message", id, content: parts };
}
