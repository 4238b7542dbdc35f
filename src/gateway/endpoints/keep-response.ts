/**
 * Stored responses: makes them retrievable by id. If the group charges, a stored response is settled only when it has
 * ended upstream; otherwise a client could fetch more than was charged.
 */

import { logFault } from "../../observe/log.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import type { Gateway } from "../gateway.ts";
import { meteringTerms } from "../metering/meter.ts";
import type { RequestContext } from "../request-context.ts";
import { isAuthenticated, isPaid, isRead, type PaidRecord, type RequestEnding } from "../request-record.ts";
import { settleRequest } from "../settlement/settle.ts";
import { waitWithin } from "../upstream/wait-within.ts";
import { followBackgroundResponse } from "./background.ts";
import { followAbandonedResponse } from "./left-response.ts";
import type { ResponseRoute } from "./response-routes.ts";

/** The state of a response upstream when its request has ended here. */
export type ResponseState =
  | "ended"
  /** A background response: it continues. */
  | "background"
  /** Its stream ended early here. The response may continue or have stopped. */
  | "left";

/** Makes a response that the upstream stores retrievable by its id. Returns null if it is not stored. */
export function rememberResponse(
  context: RequestContext,
  responseId: string | null,
  state: "streaming" | ResponseState,
): string | null {
  const { gateway, call, caller, request, record } = context;
  const { route } = record.trace;
  if (responseId === null || route === null || !request.keepsResponse) return null;
  const responseRoute: ResponseRoute = {
    requestId: call.requestId,
    keyId: caller.key.id,
    accountId: route.account.id,
    publicModel: request.publicModel,
    upstreamModel: route.upstreamModel,
    pending: state === "background",
  };
  if (state === "background") responseRoute.terms = meteringTerms(context.model);
  // A paid response must not be deleted before its settlement: its usage could no longer be read.
  else if (state === "streaming" && record.charge !== null) responseRoute.look = async () => record.isClosed;
  gateway.responses.remember(responseId, responseRoute);
  return responseId;
}

/**
 * A paid response has no usage row before its settlement. Until then other processes on this database find it by its
 * hold.
 */
export async function announce(context: RequestContext, responseId: string | null): Promise<void> {
  const { gateway, call, record } = context;
  const { route } = record.trace;
  if (responseId === null || route === null || record.charge === null) return;
  const announced = announceHold(context, responseId, route).catch((cause: unknown) =>
    logFault(gateway.log, call.requestId, cause),
  );
  await waitWithin(announced, ANNOUNCE_MS, gateway.dispatcher.alarms);
}

/**
 * The hold may still be only in memory: an upstream may continue in the background although the request did not set
 * `background`.
 */
async function announceHold(
  { gateway, call, caller }: RequestContext,
  responseId: string,
  { account, upstreamModel }: AccountRoute,
): Promise<void> {
  if (caller.key.userId !== null) await gateway.till.settleUp(caller.key.userId);
  await gateway.responses.announce(responseId, call.requestId, account.id, upstreamModel);
}

/** Do not wait for a slow database: this process knows the response anyway. */
const ANNOUNCE_MS = 1_000;

/** A paid response that may continue upstream is settled when it has ended there; all others at once. */
export function settleOrFollow(
  { gateway, record }: RequestContext,
  state: ResponseState,
  ending: RequestEnding,
): Promise<void> | null {
  const { responseId } = ending;
  const isFollowed = state !== "ended" && responseId !== null;
  if (!isFollowed || !isAuthenticated(record) || !isRead(record) || !isPaid(record)) {
    return settleRequest(gateway, record, ending);
  }
  const follow = state === "background" ? followBackgroundResponse : followAbandonedResponse;
  record.following = disposeAfter(gateway, record, follow(gateway, record, responseId, ending));
  return null;
}

async function disposeAfter(gateway: Gateway, record: PaidRecord, following: Promise<void>): Promise<void> {
  try {
    await following;
  } catch (cause) {
    logFault(gateway.log, record.call.requestId, cause);
  } finally {
    void record.request.body.dispose();
  }
}
