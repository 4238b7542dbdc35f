/**
 * The life of a model call, stop by stop: authenticate → read → admit → dispatch → deliver, settling on the
 * way out. Every stop either hands on or throws the one `ApiError` that the client gets, and whatever
 * happens the record is closed exactly once.
 */

import { ApiError, asApiError, errorResponse, storeUnavailable } from "../errors.ts";
import type { Endpoint, ModelRequest } from "../interfaces/request.ts";
import type { Route } from "../policy/snapshot.ts";
import { admit, allowInterface } from "./admit.ts";
import { authenticate, type Caller } from "./authenticate.ts";
import { deliverAnswer, deliverStream, type Passage } from "./deliver.ts";
import type { Call, Gateway } from "./gateway.ts";
import { type CallRecord, openRecord } from "./record.ts";

export async function callModel(gateway: Gateway, call: Call, endpoint: Endpoint): Promise<Response> {
  const record = openRecord(gateway.clock, call, endpoint, gateway.usage);
  let request: ModelRequest | null = null;
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

    const passage: Passage = { gateway, call, endpoint, caller, request, routes, record };
    return request.stream ? await deliverStream(passage) : await deliverAnswer(passage);
  } catch (thrown) {
    await request?.body.dispose();
    return refuse(gateway, call, record, thrown);
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

function refuse(gateway: Gateway, call: Call, record: CallRecord, thrown: unknown): Response {
  const error = asApiError(thrown);
  if (error.status === 500) {
    gateway.log.error("request_failed", {
      request_id: call.requestId,
      reason: thrown instanceof Error ? (thrown.stack ?? thrown.message) : "unknown",
    });
  }
  const reachedUpstream = record.trace.attempts > 0;
  record.close({
    outcome: error.code === "client_closed_request" ? "client_gone" : reachedUpstream ? "failed" : "refused",
    status: error.status,
    error,
    usage: null,
    images: 0,
    responseId: null,
  });
  return errorResponse(error, call.requestId);
}
