/** A conversation that an upstream holds continues on its account, and only for the key that began it. */

import type { PolicyAccount } from "../../accounts/account.ts";
import { type ApiError, paramError } from "../../errors.ts";
import type {
  AccountRoute,
  PolicyGroup,
  PublishedFallbackStep,
  PublishedModel,
} from "../../policy/snapshot.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import { findRoutes } from "../admission/admit.ts";
import type { Caller } from "../admission/authenticate.ts";
import type { ResponseRoute, ResponseRoutes } from "../stored-responses/response-routes.ts";

/** What the search needs of a request. */
interface ContinuedRequest {
  readonly endpoint: Endpoint;
  readonly caller: Pick<Caller, "key">;
  readonly model: Pick<PublishedModel, "fallback">;
  readonly routes: readonly AccountRoute[];
}

export interface ConversationHolder {
  /** To the account that holds it. */
  readonly routes: readonly AccountRoute[];
  /** The fallback step that has this account; null if the requested target has it. */
  readonly step: PublishedFallbackStep | null;
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

/**
 * Finds the account that holds the conversation. A fallback step may have begun it. Throws if it is neither among the
 * routes of the request nor among those of its steps.
 */
export async function findHolder(
  responses: Pick<ResponseRoutes, "find" | "findMessage">,
  { endpoint, caller, model, routes }: ContinuedRequest,
  previousId: string,
): Promise<ConversationHolder> {
  const origin = await findOrigin(responses, { endpoint, caller }, previousId);
  const isSame = ({ account, translation }: AccountRoute) =>
    account.id === origin?.accountId && (translation === null || !isThread(endpoint));
  const own = routes.filter(isSame);
  if (own.length > 0) return { routes: own, step: null };
  const holding = model.fallback.flatMap((step) => {
    const held = findRoutes(step.model, endpoint).filter(isSame);
    return held.length === 0 ? [] : [{ routes: held, step }];
  });
  const holder = holding.find(({ step }) => step.model.id === origin?.publicModel) ?? holding[0];
  if (holder === undefined) throw conversationNotFound(endpoint, previousId);
  return holder;
}

/** The group of the account: that of the key, or of a fallback step. */
export function findGroupOfAccount(
  group: PolicyGroup,
  accountId: string,
): { readonly group: PolicyGroup; readonly account: PolicyAccount } | null {
  const steps = [...group.models.values()].flatMap(({ fallback }) => fallback);
  for (const one of [group, ...steps.map((step) => step.group)]) {
    const account = one.accounts.find(({ id }) => id === accountId);
    if (account !== undefined) return { group: one, account };
  }
  return null;
}

export function conversationNotFound(endpoint: Endpoint, previousId: string): ApiError {
  return isThread(endpoint) ? threadNotFound(previousId) : responseNotFound(previousId);
}

/** Messages name the conversation by its last message. */
function isThread({ stores }: Endpoint): boolean {
  return stores === "in_threads";
}

const ID_CHARS_MAX = 128;

function responseNotFound(responseId: string): ApiError {
  return paramError(
    "previous_response_id",
    "previous_response_not_found",
    `Previous response with id '${responseId.slice(0, ID_CHARS_MAX)}' not found. Send the whole conversation as input instead.`,
  );
}

/** Anthropic's SDKs then send the whole conversation, in a new thread or without one. */
function threadNotFound(messageId: string): ApiError {
  return paramError(
    "thread.previous_message_id",
    "thread_not_found",
    `No thread was found for the message '${messageId.slice(0, ID_CHARS_MAX)}'. Send the whole conversation with \`thread: {"type": "create"}\` or without \`thread\`.`,
  );
}
