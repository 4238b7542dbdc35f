/** A conversation that an upstream holds continues on its account, and only for the key that began it. */

import { ApiError } from "../../errors.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import type { Caller } from "../admission/authenticate.ts";
import type { ResponseRoute, ResponseRoutes } from "../stored-responses/response-routes.ts";

/** What the search needs of a request. */
export interface ContinuedRequest {
  readonly endpoint: Endpoint;
  readonly caller: Pick<Caller, "key">;
  readonly routes: readonly AccountRoute[];
}

/** The response that the request continues; null if it is unknown or belongs to another key. */
export function findOrigin(
  responses: Pick<ResponseRoutes, "find" | "findMessage">,
  { endpoint, caller }: Pick<ContinuedRequest, "endpoint" | "caller">,
  previousId: string,
): Promise<ResponseRoute | null> {
  const { id } = caller.key;
  return isThread(endpoint) ? responses.findMessage(previousId, id) : responses.find(previousId, id);
}

/** Returns the routes to the account that holds the conversation. Throws if it is not among those of the request. */
export async function findSameAccount(
  responses: Pick<ResponseRoutes, "find" | "findMessage">,
  request: ContinuedRequest,
  previousId: string,
): Promise<readonly AccountRoute[]> {
  const origin = await findOrigin(responses, request, previousId);
  const isSame = ({ account, translation }: AccountRoute) =>
    account.id === origin?.accountId && (translation === null || !isThread(request.endpoint));
  const routes = request.routes.filter(isSame);
  if (routes.length > 0) return routes;
  throw isThread(request.endpoint) ? threadNotFound(previousId) : responseNotFound(previousId);
}

/** Messages name the conversation by its last message. */
function isThread({ stores }: Endpoint): boolean {
  return stores === "in_threads";
}

const ID_CHARS_MAX = 128;

function responseNotFound(responseId: string): ApiError {
  return new ApiError(
    "previous_response_not_found",
    `Previous response with id '${responseId.slice(0, ID_CHARS_MAX)}' not found. Send the whole conversation as input instead.`,
    { param: "previous_response_id" },
  );
}

/** Anthropic's SDKs then send the whole conversation, in a new thread or without one. */
function threadNotFound(messageId: string): ApiError {
  return new ApiError(
    "thread_not_found",
    `No thread was found for the message '${messageId.slice(0, ID_CHARS_MAX)}'. Send the whole conversation with \`thread: {"type": "create"}\` or without \`thread\`.`,
    { param: "thread.previous_message_id" },
  );
}
