/**
 * Responses that upstreams store: findable by their ids, and where the group charges, settled only when they have ended
 * upstream. Until then a client could fetch more than was charged.
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
import { followLeft } from "./left-response.ts";
import type { ResponseRoute } from "./response-routes.ts";

/** What becomes of a response upstream once its request has ended here. */
export type ResponseState =
  | "ended"
  /** Made in the background: it goes on. */
  | "background"
  /** Its stream ended early here. It may go on, or may have stopped. */
  | "left";

/** Makes a response that the upstream stores findable by its id; null when it stores none. */
export function rememberResponse(
  passage: RequestContext,
  responseId: string | null,
  state: "streaming" | ResponseState,
): string | null {
  const { gateway, call, caller, request, record } = passage;
  const { route } = record.trace;
  if (responseId === null || route === null || !request.keepsResponse) return null;
  const known: ResponseRoute = {
    requestId: call.requestId,
    keyId: caller.key.id,
    accountId: route.account.id,
    publicModel: request.publicModel,
    upstreamModel: route.upstreamModel,
    pending: state === "background",
  };
  if (state === "background") known.terms = meteringTerms(passage.model);
  // Deleted before it is paid for, what it used could not be asked any more.
  else if (state === "streaming" && record.charge !== null) known.look = async () => record.isClosed;
  gateway.responses.remember(responseId, known);
  return responseId;
}

/** A paid response has no row before it is settled. Until then others who serve from this store find it by its hold. */
export async function announce(passage: RequestContext, responseId: string | null): Promise<void> {
  const { gateway, call, record } = passage;
  const { route } = record.trace;
  if (responseId === null || route === null || record.charge === null) return;
  const announced = announceHold(passage, responseId, route).catch((thrown: unknown) =>
    logFault(gateway.log, call.requestId, thrown),
  );
  await waitWithin(announced, ANNOUNCE_MS, gateway.dispatcher.alarms);
}

/** The hold may still be in memory: an upstream may go on in the background without having been asked to. */
async function announceHold(
  { gateway, call, caller }: RequestContext,
  responseId: string,
  { account, upstreamModel }: AccountRoute,
): Promise<void> {
  if (caller.key.userId !== null) await gateway.till.settleUp(caller.key.userId);
  await gateway.responses.announce(responseId, call.requestId, account.id, upstreamModel);
}

/** A store that hangs is not waited for: this process knows the response anyway. */
const ANNOUNCE_MS = 1_000;

/** A paid response that may go on upstream is settled when it has ended there; everything else at once. */
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
  const follow = state === "background" ? followBackgroundResponse : followLeft;
  record.following = followed(gateway, record, follow(gateway, record, responseId, ending));
  return null;
}

async function followed(gateway: Gateway, record: PaidRecord, following: Promise<void>): Promise<void> {
  try {
    await following;
  } catch (thrown) {
    logFault(gateway.log, record.call.requestId, thrown);
  } finally {
    void record.request.body.dispose();
  }
}
