/** Calls on a response that the gateway stores itself: retrieve, delete, list its input items. */

import { ApiError } from "../../errors.ts";
import { isObject } from "../../json/parse.ts";
import { type HttpResponse, WholeResponse } from "../../net/wire/http-message.ts";
import { type Part, wholeBytesPart } from "../../net/wire/parts.ts";
import { isOwnResponseId } from "../translation/own-response-id.ts";
import { parseBody } from "../translation/parse-body.ts";
import type { ResponseRecord } from "../translation/response-record.ts";
import type { StoredResponses } from "../translation/stored-responses.ts";
import { turnInput, turnResponse } from "../translation/stored-turn.ts";
import { JSON_LINES } from "./error-response.ts";

/** The services that calls on the gateway's own responses use. */
export interface OwnResponseServices {
  readonly translation: { readonly storedResponses: Pick<StoredResponses, "findRecord" | "remove"> };
}

export interface OwnResponseCall {
  readonly method: "GET" | "POST" | "DELETE";
  readonly responseId: string;
  readonly action: "" | "/cancel" | "/input_items";
  readonly query: URLSearchParams;
  readonly keyId: string;
  readonly requestId: string;
}

/** Returns null if the gateway does not store the response: then an account may have it. */
export async function callOwnResponse(
  { translation }: OwnResponseServices,
  call: OwnResponseCall,
): Promise<HttpResponse | null> {
  const { method, responseId, action, keyId } = call;
  if (!isOwnResponseId(responseId)) return null;
  const { storedResponses } = translation;
  if (method === "DELETE") {
    const deleted = { id: responseId, object: "response", deleted: true };
    return (await storedResponses.remove(responseId, keyId)) ? sendJson(call, JSON.stringify(deleted)) : null;
  }
  const record = await storedResponses.findRecord(responseId, keyId);
  if (record === null) return null;
  if (action === "/cancel")
    throw notInBackground("Only a response in progress can be cancelled.", "response_id");
  if (action === "/input_items") return sendParts(call, listInputItems(record, call.query));
  if (call.query.get("stream") === "true") throw notInBackground("Retrieve it without `stream`.", "stream");
  return sendParts(call, [turnResponse(record.turn)]);
}

function notInBackground(advice: string, param: string): ApiError {
  return new ApiError(
    "invalid_value",
    `This response was not created in the background and has ended. ${advice}`,
    { param },
  );
}

function sendJson(call: OwnResponseCall, json: string): HttpResponse {
  return sendParts(call, [wholeBytesPart(Buffer.from(json))]);
}

function sendParts({ requestId }: OwnResponseCall, body: readonly Part[]): HttpResponse {
  return new WholeResponse(200, `${JSON_LINES}x-request-id: ${requestId}\r\n`, body);
}

const PAGE_ITEMS = 20;
const PAGE_ITEMS_MAX = 100;

interface ListedItem extends Record<string, unknown> {
  readonly id: string;
}

function listInputItems(record: ResponseRecord, query: URLSearchParams): Part[] {
  const items = readInputItems(record);
  if (query.get("order") !== "asc") items.reverse();
  const first = items.findIndex(({ id }) => id === query.get("after")) + 1;
  const limit = readLimit(query.get("limit"));
  const page = items.slice(first, first + limit);
  const list = {
    object: "list",
    data: page,
    first_id: page[0]?.id ?? null,
    last_id: page.at(-1)?.id ?? null,
    has_more: first + limit < items.length,
  };
  return [wholeBytesPart(Buffer.from(JSON.stringify(list)))];
}

function readLimit(text: string | null): number {
  if (text === null) return PAGE_ITEMS;
  const limit = Number(text);
  if (Number.isInteger(limit) && limit >= 1 && limit <= PAGE_ITEMS_MAX) return limit;
  throw new ApiError("invalid_value", `\`limit\` must be an integer from 1 to ${PAGE_ITEMS_MAX}.`, {
    param: "limit",
  });
}

/** The input in the form in which the API returns it: items with ids, text in parts. The ids are the same in each call. */
function readInputItems({ responseId, turn }: ResponseRecord): ListedItem[] {
  const input = parseBody(turnInput(turn));
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
