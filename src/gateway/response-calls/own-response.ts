/** Calls on a response that the gateway stores itself: retrieve, delete, list its input items. */

import { type Part, wholeBytesPart } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import { type HttpResponse, WholeResponse } from "../../net/wire/http-message.ts";
import { JSON_LINES } from "../endpoints/error-response.ts";
import { type InputItemsTerms, listInputItems } from "../stored-responses/input-items.ts";
import { isOwnResponseId } from "../stored-responses/own-response-id.ts";
import type { ResponseRecord } from "../stored-responses/response-record.ts";
import type { StoredResponses } from "../stored-responses/stored-responses.ts";
import { turnInput, turnResponse } from "../stored-responses/stored-turn.ts";
import type { TranslationThreads } from "../translation/translation-threads.ts";

/** The services that calls on the gateway's own responses use. */
export interface OwnResponseServices {
  readonly translation: {
    readonly storedResponses: Pick<StoredResponses, "findRecord" | "remove">;
    readonly threads: TranslationThreads;
  };
}

/** A call on a stored response, as its URL states it. */
export interface StoredCall {
  readonly method: "GET" | "POST" | "DELETE";
  readonly responseId: string;
  readonly action: "" | "/cancel" | "/input_items";
  readonly query: URLSearchParams;
}

interface OwnResponseCall extends StoredCall {
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
  if (action === "/input_items") return sendParts(call, [await listItems(translation.threads, record, call)]);
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

/** Parsing a long input would hold the event loop. */
async function listItems(
  threads: TranslationThreads,
  record: ResponseRecord,
  { responseId, query, keyId }: OwnResponseCall,
): Promise<Part> {
  const body = turnInput(record.turn);
  const terms: InputItemsTerms = {
    responseId,
    order: query.get("order") === "asc" ? "asc" : "desc",
    after: query.get("after"),
    limit: readLimit(query.get("limit")),
  };
  const isLong = body.end - body.start > threads.limits.requestBytesMin;
  return wholeBytesPart(
    isLong ? await threads.listInputItems({ owner: keyId, body, terms }) : listInputItems(body, terms),
  );
}

function readLimit(text: string | null): number {
  if (text === null) return PAGE_ITEMS;
  const limit = Number(text);
  if (Number.isInteger(limit) && limit >= 1 && limit <= PAGE_ITEMS_MAX) return limit;
  throw new ApiError("invalid_value", `\`limit\` must be an integer from 1 to ${PAGE_ITEMS_MAX}.`, {
    param: "limit",
  });
}
