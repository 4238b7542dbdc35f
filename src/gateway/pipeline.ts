/**
 * The life of a model call, stop by stop: authenticate → read → admit → take limits → dispatch → deliver,
 * settling on the way out. Every stop either hands on or throws the one `ApiError` that the client gets, and whatever
 * happens the record is closed exactly once.
 */

import { ApiError, asApiError, errorResponse, storeUnavailable } from "../errors.ts";
import type { Endpoint, ModelRequest } from "../interfaces/request.ts";
import type { Lease } from "../limits/limiter.ts";
import { logFault } from "../observe/log.ts";
import type { Route } from "../policy/snapshot.ts";
import { admit, allowInterface } from "./admit.ts";
import { authenticate, type Caller } from "./authenticate.ts";
import { deliverAnswer, deliverStream, type Passage } from "./deliver.ts";
import type { Call, Gateway } from "./gateway.ts";
import { subjectsOf, takeOwnLimits } from "./own-limits.ts";
import { type CallRecord, openRecord } from "./record.ts";

export async function callModel(gateway: Gateway, call: Call, endpoint: Endpoint): Promise<Response> {
  const record = openRecord(gateway.clock, call, endpoint, gateway.usage);
  let request: ModelRequest | null = null;
  let lease: Lease | null = null;
  try {
    const snapshot = gateway.policy.snapshot();
    const caller = authenticate(call.request.headers, snapshot, gateway.auth, call.clientAddress);
    record.caller = caller;
    allowInterface(caller, endpoint);
    if (!gateway.usage.hasRoom()) throw storeUnavailable();

    request = await gateway.readRequest(call.request, endpoint);
    record.request = request;
    let routes = admit(caller, endpoint, request.publicModel);
    if (request.previousResponseId !== null) {
      routes = await sameAccount(gateway, caller, request.previousResponseId, routes);
    }

    const subjects = subjectsOf(caller);
    lease = takeOwnLimits(gateway.limiter, subjects, request.tokensEstimate);

    const passage: Passage = { gateway, call, endpoint, caller, request, routes, record, subjects, lease };
    return request.stream ? await deliverStream(passage) : await deliverAnswer(passage);
  } catch (thrown) {
    const error = asApiError(thrown);
    // Nothing was delivered, so nothing was used: retries of one failure must not eat up a caller's minute. But an
    // upstream that has begun to work is used, even if its client then leaves.
    if (isGone(error) && record.trace.attempts.length > 0) lease?.release();
    else lease?.cancel();
    await request?.body.dispose();
    return refuse(gateway, call, record, error, thrown);
  }
}

/** A response continues on the account that made it, and only for the key that made it. */
async function sameAccount(
  gateway: Gateway,
  caller: Caller,
  responseId: string,
  routes: readonly Route[],
): Promise<readonly Route[]> {
  const origin = await gateway.responses.find(responseId, caller.key.id);
  const same = origin === null ? [] : routes.filter(({ account }) => account.id === origin.accountId);
  if (same.length > 0) return same;
  throw new ApiError(
    "previous_response_not_found",
    `Previous response with id '${responseId.slice(0, 128)}' not found. Send the whole conversation as input instead.`,
    { param: "previous_response_id" },
  );
}

function isGone({ code }: ApiError): boolean {
  return code === "client_closed_request";
}

function refuse(
  gateway: Gateway,
  call: Call,
  record: CallRecord,
  error: ApiError,
  thrown: unknown,
): Response {
  if (error.status === 500) logFault(gateway.log, call.requestId, thrown);
  const reachedUpstream = record.trace.attempts.length > 0;
  record.close({
    outcome: isGone(error) ? "client_gone" : reachedUpstream ? "failed" : "refused",
    status: error.status,
    error,
    usage: null,
    images: 0,
    responseId: null,
  });
  return errorResponse(error, call.requestId);
}
