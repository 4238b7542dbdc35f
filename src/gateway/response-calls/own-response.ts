/** Calls on a response that the gateway stores itself: retrieve, delete, list its input items. */

import { type Part, wholeBytesPart } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import { type HttpResponse, WholeResponse } from "../../net/wire/http-message.ts";
import type { BodyBudget, BodyOwner } from "../bodies/body-budget.ts";
import { JSON_LINES } from "../endpoints/error-response.ts";
import { type InputItemsTerms, listInputItems } from "../stored-responses/input-items.ts";
import { isOwnResponseId } from "../stored-responses/own-response-id.ts";
import type { StoredResponses } from "../stored-responses/stored-responses.ts";
import type { TranslationThreads } from "../translation/translation-threads.ts";
import { sendStored } from "./send-stored.ts";

/** The services that calls on the gateway's own responses use. */
export interface OwnResponseServices {
  readonly translation: {
    readonly storedResponses: Pick<StoredResponses, "findResponse" | "useInput" | "isStored" | "remove">;
    readonly threads: TranslationThreads;
  };
  readonly bodyBudget: Pick<BodyBudget, "open">;
}

/** A call on a stored response, as its URL states it. */
export interface StoredCall {
  readonly method: "GET" | "POST" | "DELETE";
  readonly responseId: string;
  readonly action: "" | "/cancel" | "/input_items";
  readonly query: URLSearchParams;
}

interface OwnResponseCall extends StoredCall {
  /** The key of the caller. */
  readonly owner: BodyOwner;
  readonly client: { readonly signal: AbortSignal };
  readonly requestId: string;
}

/** Returns null if the gateway does not store the response: then an account may have it. */
export async function callOwnResponse(
  { translation, bodyBudget }: OwnResponseServices,
  call: OwnResponseCall,
): Promise<HttpResponse | null> {
  const { method, responseId, action, owner, client, requestId } = call;
  if (!isOwnResponseId(responseId)) return null;
  const { storedResponses, threads } = translation;
  const headers = `${JSON_LINES}x-request-id: ${requestId}\r\n`;
  if (method === "DELETE") {
    const deleted = { id: responseId, object: "response", deleted: true };
    if (!(await storedResponses.remove(responseId, owner.id))) return null;
    return new WholeResponse(200, headers, Buffer.from(JSON.stringify(deleted)));
  }
  const wrongUse = findWrongUse(call);
  if (wrongUse !== null) {
    if (await storedResponses.isStored(responseId, owner.id)) throw wrongUse;
    return null;
  }
  const body =
    action === "/input_items"
      ? await storedResponses.useInput(responseId, owner, (input) => listItems(threads, input, call))
      : await storedResponses.findResponse(responseId, owner);
  if (body === null) return null;
  const memory = bodyBudget.open(owner, client);
  return sendStored(headers, [body], { memory, release: () => memory.release() });
}

/** The response has ended, or the gateway would not store it. */
function findWrongUse({ action, query }: StoredCall): ApiError | null {
  if (action === "/cancel")
    return notInBackground("Only a response in progress can be cancelled.", "response_id");
  if (action === "" && query.get("stream") === "true")
    return notInBackground("Retrieve it without `stream`.", "stream");
  return null;
}

function notInBackground(advice: string, param: string): ApiError {
  return new ApiError(
    "invalid_value",
    `This response was not created in the background and has ended. ${advice}`,
    { param },
  );
}

const PAGE_ITEMS = 20;
const PAGE_ITEMS_MAX = 100;

/** Parsing a long input would hold the event loop. */
async function listItems(
  threads: TranslationThreads,
  input: Part,
  { responseId, query, owner }: OwnResponseCall,
): Promise<Part> {
  const terms: InputItemsTerms = {
    responseId,
    order: query.get("order") === "asc" ? "asc" : "desc",
    after: query.get("after"),
    limit: readLimit(query.get("limit")),
  };
  const isLong = input.end - input.start > threads.limits.requestBytesMin;
  return wholeBytesPart(
    isLong
      ? await threads.listInputItems({ owner: owner.id, body: input, terms })
      : listInputItems(input, terms),
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
