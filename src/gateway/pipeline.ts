/**
 * The life of a model call, stop by stop: authenticate → read → admit → take limits → hold money → dispatch → deliver,
 * settling on the way out. Every stop either hands on or throws the one `ApiError` that the client gets, and whatever
 * happens the record is closed exactly once.
 */

import { ApiError, asApiError, storeUnavailable } from "../errors.ts";
import type { LimitLease } from "../limits/limiter.ts";
import type { HttpResponse } from "../net/wire/http-message.ts";
import { logFault } from "../observe/log.ts";
import type { AccountRoute } from "../policy/snapshot.ts";
import type { Endpoint, ModelRequest } from "../protocols/shared/request.ts";
import { admit, allowInterface } from "./admission/admit.ts";
import type { Caller } from "./admission/authenticate.ts";
import { callerSubjects, computeReservedUse, raiseReservation } from "./admission/caller-limits.ts";
import { type Charge, holdMoney } from "./charging/charge.ts";
import { forecastBudget, outputCapWithin, reserveWithin } from "./charging/window-budget.ts";
import { lookUpStoredTokens } from "./endpoints/stored-tokens.ts";
import type { Call, Gateway, HttpCall } from "./gateway.ts";
import { endClaim, type IdempotencyClaimResult, withSpentKey } from "./idempotency/idempotent-requests.ts";
import { freeBody } from "./request/body.ts";
import { clientRequestId } from "./request/client-request-id.ts";
import { hasOpenAttempt } from "./request/trace.ts";
import type { RequestContext } from "./request-context.ts";
import { openRecord, type RequestRecord } from "./request-record.ts";
import { countWastedAttempts, settleRequest } from "./settlement/settle.ts";
import { takeLimits, takeLimitsBeforeBody } from "./take-limits.ts";
import { HTTP, type Transport, type WaitingPassage } from "./transport.ts";

export function handleHttpModelRequest(
  gateway: Gateway,
  call: HttpCall,
  endpoint: Endpoint,
): Promise<HttpResponse> {
  return handleModelRequest(gateway, call, endpoint, HTTP);
}

export async function handleModelRequest<C extends Call, Out>(
  gateway: Gateway,
  call: C,
  endpoint: Endpoint,
  transport: Transport<C, Out>,
): Promise<Out> {
  gateway.underWay.begin();
  const record = openRecord(call, endpoint);
  try {
    const caller = transport.identify(gateway, call);
    record.caller = caller;
    allowInterface(caller, endpoint);
    if (!gateway.till.hasRoom()) throw storeUnavailable();

    const subjects = callerSubjects(caller);
    const limited = { gateway, record, caller, subjects };
    if (transport.hasCostlyBody(call)) {
      const taking = takeLimitsBeforeBody(limited);
      if (taking instanceof Promise) transport.deferBody(call);
      record.lease = taking instanceof Promise ? await taking : taking;
    }
    const reading = transport.read(gateway, call, endpoint, caller);
    const request = reading instanceof Promise ? await reading : reading;
    record.request = request;
    const { model, routes: all } = admit(caller, endpoint, request.publicModel);
    record.model = model;
    let routes = all;
    if (request.previousResponseId !== null) {
      routes = await sameAccount(gateway, caller, request.previousResponseId, routes);
    }

    const counted = computeReservedUse(subjects);
    const tokens = counted.tokens ? request.tokensEstimate() : 0;
    const budget = counted.money ? forecastBudget(gateway.estimates, { endpoint, request, model }) : null;
    const costNano = budget === null ? 0n : reserveWithin(budget, gateway.limiter.windowRest(subjects));
    record.budget = budget;
    record.windowCap = budget === null ? null : outputCapWithin(budget, costNano);
    if (record.lease !== null) raiseReservation(gateway, record.lease, subjects, tokens, costNano);
    const taking = record.lease ?? takeLimits(limited, tokens, costNano);
    if (taking instanceof Promise) {
      const waiting = { gateway, call, endpoint, caller, request, model, routes, record, subjects };
      return await serveAfterWait(waiting, taking, transport);
    }
    record.lease = taking;
    const passage = {
      gateway,
      call,
      endpoint,
      caller,
      request,
      model,
      routes,
      record,
      subjects,
      lease: taking,
    };
    return await serve(passage, transport);
  } catch (thrown) {
    return transport.refuse(call, await closeRefused(gateway, record, thrown));
  } finally {
    gateway.underWay.end();
  }
}

/** What follows once the limits are taken: the claim, the hold, the answer. */
function serve<C extends Call, Out>(passage: RequestContext<C>, transport: Transport<C, Out>): Promise<Out> {
  const claiming = transport.claim(passage);
  return claiming === null
    ? chargeAndDeliver(passage, transport)
    : serveClaimed(passage, claiming, transport);
}

async function serveClaimed<C extends Call, Out>(
  passage: RequestContext<C>,
  claiming: Promise<IdempotencyClaimResult<Out>>,
  transport: Transport<C, Out>,
): Promise<Out> {
  const claimed = await claiming;
  if (claimed.kind === "repeat") {
    passage.lease.cancel();
    letGoOf(passage.request);
    return claimed.answer;
  }
  passage.record.claim = claimed.claim;
  return chargeAndDeliver(passage, transport);
}

function chargeAndDeliver<C extends Call, Out>(
  passage: RequestContext<C>,
  transport: Transport<C, Out>,
): Promise<Out> {
  const { record } = passage;
  const charging = chargeFor(passage);
  if (charging instanceof Promise) {
    return charging.then((charge) => {
      record.charge = charge;
      return transport.deliver(passage);
    });
  }
  record.charge = charging;
  return transport.deliver(passage);
}

/** The request waits for a slot of its concurrency. A stream that waits for long is kept alive by its transport. */
async function serveAfterWait<C extends Call, Out>(
  waiting: WaitingPassage<C>,
  taking: Promise<LimitLease>,
  transport: Transport<C, Out>,
): Promise<Out> {
  const { record, request, gateway } = waiting;
  const serving = taking.then((lease) => {
    record.lease = lease;
    return serve({ ...waiting, lease }, transport);
  });
  if (!request.stream) return await serving;
  return await transport.keepWaiting(waiting, serving, (thrown) => closeRefused(gateway, record, thrown));
}

/** Closes the record of a request that failed before its answer began. Returns the error for its client. */
async function closeRefused(gateway: Gateway, record: RequestRecord, thrown: unknown): Promise<ApiError> {
  const { call, lease, request } = record;
  const error = asApiError(thrown);
  if (error.status === 500) {
    logFault(gateway.log, call.requestId, thrown, clientRequestId(call.request.headers));
  }
  // Nothing was delivered, so nothing counts against the caller's limits: retries of a failure must not eat them up.
  // The exception is an account that was already at work when its client left.
  const isServed = isGone(error) && hasOpenAttempt(record.trace);
  if (isServed) lease?.release();
  else lease?.cancel();
  try {
    await settleRefusal(gateway, record, error, isServed);
  } catch (fault) {
    // The client hears why it was refused, whatever became of the record.
    logFault(gateway.log, call.requestId, fault);
  } finally {
    if (request !== null) letGoOf(request);
  }
  return isKeySpent(record, isServed) ? withSpentKey(error) : error;
}

/** A response continues on the account that made it, and only for the key that made it. */
async function sameAccount(
  gateway: Gateway,
  caller: Caller,
  responseId: string,
  routes: readonly AccountRoute[],
): Promise<readonly AccountRoute[]> {
  const origin = await gateway.responses.find(responseId, caller.key.id);
  const same = origin === null ? [] : routes.filter(({ account }) => account.id === origin.accountId);
  if (same.length > 0) return same;
  throw new ApiError(
    "previous_response_not_found",
    `Previous response with id '${responseId.slice(0, 128)}' not found. Send the whole conversation as input instead.`,
    { param: "previous_response_id" },
  );
}

/** Holds what the request may cost; null where nobody pays. A promise only where somebody has to be asked. */
function chargeFor(passage: RequestContext): Charge | Promise<Charge | null> | null {
  const { gateway, caller, request } = passage;
  if (caller.group.billing.charge === "none") return null;
  if (request.previousResponseId === null) return holdMoney(passage);
  return lookUpStoredTokens(gateway, request.previousResponseId, caller.key.id).then((keptTokens) =>
    holdMoney(passage, keptTokens),
  );
}

/** Nobody reads its body any more. */
function letGoOf(request: ModelRequest): void {
  void request.body.dispose();
  freeBody(request);
}

function isGone({ code }: ApiError): boolean {
  return code === "client_closed_request";
}

async function settleRefusal(
  gateway: Gateway,
  record: RequestRecord,
  error: ApiError,
  isServed: boolean,
): Promise<void> {
  const reachedUpstream = record.trace.attempts.length > 0;
  await settleRequest(gateway, record, {
    outcome: isGone(error) ? "client_gone" : reachedUpstream ? "failed" : "refused",
    status: error.status,
    error,
    usage: null,
    images: 0,
    imageKind: null,
    responseId: null,
    isServed,
    isWhole: false,
    countOutput: null,
    estimateShown: null,
    // At a shutdown it is this process that ends the request.
    isAbandoned: isServed && record.call.request.signal.aborted,
  });
  if (record.claim !== null) {
    await endClaim(gateway, record.claim, isKeySpent(record, isServed) ? null : "forget");
  }
}

/** Where no account can have worked on the request, its client may send it again under the same Idempotency-Key. */
function isKeySpent({ claim, trace }: RequestRecord, isServed: boolean): boolean {
  return claim !== null && (isServed || countWastedAttempts(trace) > 0);
}
