/**
 * Stored responses: makes them retrievable by id. If the group charges, a stored response is settled only when it has
 * ended upstream; otherwise a client could fetch more than was charged.
 */

import { KINDS } from "../../accounts/kinds/table.ts";
import type { Deadlines } from "../../base/deadlines.ts";
import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import { type Log, logFault } from "../../observe/log.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import { storableId } from "../../store/usage/storable-values.ts";
import { meteringTerms } from "../metering/meter.ts";
import { requestLogIds } from "../request/log-ids.ts";
import { isPaid, type PaidRequest, type ReservedRequest } from "../request-context.ts";
import type { RequestEnding, ResponseState } from "../settlement/request-ending.ts";
import { isSettlementStored, settleRequest } from "../settlement/settle.ts";
import type { ResponseRoute, ResponseRoutes } from "../stored-responses/response-routes.ts";
import { waitWithin } from "../wait-within.ts";
import { type AbandonedServices, followAbandonedResponse } from "./abandoned-response.ts";
import { type BackgroundServices, followBackgroundResponse } from "./background-response.ts";
import type { HeldResponses } from "./held-responses.ts";

interface SeenResponse {
  readonly responseId: string | null;
  readonly state: "streaming" | ResponseState;
}

/** Makes a response that the upstream stores retrievable by its id. Returns null if it is not stored. */
export function rememberResponse(
  responses: Pick<ResponseRoutes, "add">,
  context: ReservedRequest,
  { responseId, state }: SeenResponse,
): string | null {
  const { call, caller, endpoint, request, trace } = context;
  const { route } = trace;
  if (responseId === null || route === null || !request.storesResponse) return null;
  // The upstream chooses the id, and memory keeps thousands of them. No client could use one of megabytes.
  if (storableId(responseId) === null) return null;
  const isThread = endpoint.stores === "in_threads";
  if (isThread && !(state === "ended" && holdsThreads(route))) return null;
  const responseRoute: ResponseRoute = {
    kind: isThread ? "message" : "response",
    requestId: call.requestId,
    keyId: caller.key.id,
    accountId: route.account.id,
    publicModel: request.publicModel,
    upstreamModel: route.upstreamModel,
    pending: state === "background",
  };
  if (state === "background") responseRoute.terms = meteringTerms(context.model);
  // A paid response must not be deleted before its settlement: its usage could no longer be read.
  else if (state === "streaming" && context.charge !== null)
    responseRoute.checkSettled = () => isSettlementStored(context);
  responses.add(responseId, responseRoute);
  return responseId;
}

/** Only Anthropic itself holds conversations: not the clouds that host its models, and no account of another dialect. */
function holdsThreads({ account, translation }: AccountRoute): boolean {
  return KINDS[account.kind].holdsThreads && translation === null;
}

export interface AnnouncementServices {
  readonly log: Log;
  readonly billingEngine: Pick<BillingEngine, "flushUser">;
  readonly responses: Pick<ResponseRoutes, "announce">;
  readonly dispatcher: { readonly deadlines: Deadlines };
}

/** A paid response has no usage row before its settlement: other processes find it by its hold. */
export async function announceResponse(
  services: AnnouncementServices,
  context: ReservedRequest,
  responseId: string | null,
): Promise<void> {
  const { trace, charge } = context;
  const { route } = trace;
  if (responseId === null || route === null || charge === null) return;
  const announced = announceHold(services, context, { responseId, route });
  await waitWithin(announced, ANNOUNCE_MS, services.dispatcher.deadlines);
}

/** Tries again while the database fails: without the id, a process that ends leaves a response that is charged by estimate. */
async function announceHold(
  services: AnnouncementServices,
  context: ReservedRequest,
  response: AnnouncedResponse,
): Promise<void> {
  for (let isFirst = true; ; isFirst = false) {
    try {
      return await recordInHold(services, context, response);
    } catch (cause) {
      if (isFirst) logFault(services.log, requestLogIds(context), cause);
      if (context.isSettled) return;
    }
    await Bun.sleep(RETRY_MS);
  }
}

/**
 * The hold of a request with `background` is in the database. Another one may still be only in memory: an upstream may
 * continue in the background although the request did not set it.
 */
async function recordInHold(
  { billingEngine, responses }: AnnouncementServices,
  { call, caller }: ReservedRequest,
  { responseId, route }: AnnouncedResponse,
): Promise<void> {
  const record = () => responses.announce(responseId, call.requestId, route.account.id, route.upstreamModel);
  if ((await record()) || caller.key.userId === null) return;
  await billingEngine.flushUser(caller.key.userId);
  await record();
}

interface AnnouncedResponse {
  readonly responseId: string;
  readonly route: AccountRoute;
}

const RETRY_MS = 500;
/** Until then no other node finds the response, or could charge it. This process knows it if the database is slower. */
const ANNOUNCE_MS = 10_000;

/** The services that settling a request now or later uses. */
export type FollowServices = AbandonedServices &
  BackgroundServices & { readonly heldResponses: Pick<HeldResponses, "adopt"> };

/** A paid response that may continue upstream is settled when it has ended there; all others at once. */
export function settleOrFollow(
  services: FollowServices,
  context: ReservedRequest,
  ending: RequestEnding,
): Promise<void> | null {
  const { responseId, responseState } = ending;
  if (responseState === "ended" || responseId === null || !isPaid(context)) {
    return settleRequest(services, context, ending);
  }
  const follow = responseState === "background" ? followBackgroundResponse : followAbandonedResponse;
  context.followUp = disposeAfter(services, context, follow(services, context, { ...ending, responseId }));
  return null;
}

async function disposeAfter(
  { log, heldResponses }: FollowServices,
  context: PaidRequest,
  followUp: Promise<void>,
): Promise<void> {
  try {
    await followUp;
  } catch (cause) {
    logFault(log, requestLogIds(context), cause);
    if (!context.isSettled) heldResponses.adopt(context.call.requestId);
  } finally {
    void context.request.body.dispose();
    context.conversationMemory?.release();
  }
}
