/**
 * The pipeline of a model request: authenticate → read → admit → reserve limits → claim idempotency → hold → dispatch →
 * deliver → settle. Each step either continues or throws the `ApiError` that the client receives. The request record is
 * closed exactly once on every path.
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
import { holdMoney, type RequestCharge } from "./charging/charge.ts";
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
import { HTTP, type Transport, type WaitingRequest } from "./transport.ts";

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
    const limitedRequest = { gateway, record, caller, subjects };
    if (transport.hasCostlyBody(call)) {
      const reservation = takeLimitsBeforeBody(limitedRequest);
      if (reservation instanceof Promise) transport.deferBody(call);
      record.lease = reservation instanceof Promise ? await reservation : reservation;
    }
    const pendingRequest = transport.read(gateway, call, endpoint, caller);
    const request = pendingRequest instanceof Promise ? await pendingRequest : pendingRequest;
    record.request = request;
    const { model, routes: all } = admit(caller, endpoint, request.publicModel);
    record.model = model;
    let routes = all;
    if (request.previousResponseId !== null) {
      routes = await routesToSameAccount(gateway, caller, request.previousResponseId, routes);
    }

    const reservedUse = computeReservedUse(subjects);
    const tokens = reservedUse.tokens ? request.tokensEstimate() : 0;
    const budget = reservedUse.money ? forecastBudget(gateway.estimates, { endpoint, request, model }) : null;
    const costNano = budget === null ? 0n : reserveWithin(budget, gateway.limiter.windowRest(subjects));
    record.budget = budget;
    record.windowCap = budget === null ? null : outputCapWithin(budget, costNano);
    if (record.lease !== null) raiseReservation(gateway, record.lease, subjects, tokens, costNano);
    const reservation = record.lease ?? takeLimits(limitedRequest, tokens, costNano);
    if (reservation instanceof Promise) {
      const waiting = { gateway, call, endpoint, caller, request, model, routes, record, subjects };
      return await serveAfterWait(waiting, reservation, transport);
    }
    record.lease = reservation;
    const context = {
      gateway,
      call,
      endpoint,
      caller,
      request,
      model,
      routes,
      record,
      subjects,
      lease: reservation,
    };
    return await serve(context, transport);
  } catch (cause) {
    return transport.refuse(call, await closeRefused(gateway, record, cause));
  } finally {
    gateway.underWay.end();
  }
}

/** The steps after the limits are reserved: idempotency claim, hold, delivery. */
function serve<C extends Call, Out>(context: RequestContext<C>, transport: Transport<C, Out>): Promise<Out> {
  const pendingClaim = transport.claim(context);
  return pendingClaim === null
    ? chargeAndDeliver(context, transport)
    : serveClaimed(context, pendingClaim, transport);
}

async function serveClaimed<C extends Call, Out>(
  context: RequestContext<C>,
  pendingClaim: Promise<IdempotencyClaimResult<Out>>,
  transport: Transport<C, Out>,
): Promise<Out> {
  const claimed = await pendingClaim;
  if (claimed.kind === "repeat") {
    context.lease.cancel();
    disposeBody(context.request);
    return claimed.answer;
  }
  context.record.claim = claimed.claim;
  return chargeAndDeliver(context, transport);
}

function chargeAndDeliver<C extends Call, Out>(
  context: RequestContext<C>,
  transport: Transport<C, Out>,
): Promise<Out> {
  const { record } = context;
  const pendingCharge = holdForRequest(context);
  if (pendingCharge instanceof Promise) {
    return pendingCharge.then((charge) => {
      record.charge = charge;
      return transport.deliver(context);
    });
  }
  record.charge = pendingCharge;
  return transport.deliver(context);
}

/** The request waits for its concurrency limit. The transport sends keep-alives while a stream waits for long. */
async function serveAfterWait<C extends Call, Out>(
  waiting: WaitingRequest<C>,
  reservation: Promise<LimitLease>,
  transport: Transport<C, Out>,
): Promise<Out> {
  const { record, request, gateway } = waiting;
  const serving = reservation.then((lease) => {
    record.lease = lease;
    return serve({ ...waiting, lease }, transport);
  });
  if (!request.stream) return await serving;
  return await transport.keepWaiting(waiting, serving, (cause) => closeRefused(gateway, record, cause));
}

/** Closes the record of a request that failed before its response began. Returns the error for the client. */
async function closeRefused(gateway: Gateway, record: RequestRecord, cause: unknown): Promise<ApiError> {
  const { call, lease, request } = record;
  const error = asApiError(cause);
  if (error.status === 500) {
    logFault(gateway.log, call.requestId, cause, clientRequestId(call.request.headers));
  }
  // Nothing was delivered, so the request does not count against the caller's limits: retries of a failure must not use
  // them up. The exception is a client that disconnected while an account was already processing the request.
  const isServed = isClientGone(error) && hasOpenAttempt(record.trace);
  if (isServed) lease?.release();
  else lease?.cancel();
  try {
    await settleRefusal(gateway, record, error, isServed);
  } catch (fault) {
    // A failed settlement must not change the error that the client receives.
    logFault(gateway.log, call.requestId, fault);
  } finally {
    if (request !== null) disposeBody(request);
  }
  return isKeySpent(record, isServed) ? withSpentKey(error) : error;
}

/** A conversation continues on the account that created the previous response, and only for the key that created it. */
async function routesToSameAccount(
  gateway: Gateway,
  caller: Caller,
  responseId: string,
  routes: readonly AccountRoute[],
): Promise<readonly AccountRoute[]> {
  const origin = await gateway.responses.find(responseId, caller.key.id);
  const sameAccountRoutes =
    origin === null ? [] : routes.filter(({ account }) => account.id === origin.accountId);
  if (sameAccountRoutes.length > 0) return sameAccountRoutes;
  throw new ApiError(
    "previous_response_not_found",
    `Previous response with id '${responseId.slice(0, 128)}' not found. Send the whole conversation as input instead.`,
    { param: "previous_response_id" },
  );
}

/**
 * Takes the hold for the maximum cost of the request. Returns null for unpaid requests, and a promise only if the
 * stored response or the database must be read.
 */
function holdForRequest(context: RequestContext): RequestCharge | Promise<RequestCharge | null> | null {
  const { gateway, caller, request } = context;
  if (caller.group.billing.charge === "none") return null;
  if (request.previousResponseId === null) return holdMoney(context);
  return lookUpStoredTokens(gateway, request.previousResponseId, caller.key.id).then((keptTokens) =>
    holdMoney(context, keptTokens),
  );
}

/** Frees the body after its last use. */
function disposeBody(request: ModelRequest): void {
  void request.body.dispose();
  freeBody(request);
}

function isClientGone({ code }: ApiError): boolean {
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
    outcome: isClientGone(error) ? "client_gone" : reachedUpstream ? "failed" : "refused",
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
    // At shutdown this process aborts the request: the client did not disconnect.
    isAbandoned: isServed && record.call.request.signal.aborted,
  });
  if (record.claim !== null) {
    await endClaim(gateway, record.claim, isKeySpent(record, isServed) ? null : "forget");
  }
}

/** The client may reuse its Idempotency-Key as long as no account can have processed the request. */
function isKeySpent({ claim, trace }: RequestRecord, isServed: boolean): boolean {
  return claim !== null && (isServed || countWastedAttempts(trace) > 0);
}
