/** Closes a request that failed before its response began: its limits, its settlement, its idempotency claim, its body. */

import { type ApiError, asApiError } from "../../errors.ts";
import { type Log, logFault } from "../../observe/log.ts";
import type { PolicyActions } from "../../observe/policy-actions.ts";
import { captureError } from "../capture-request.ts";
import { type ClaimEndServices, endClaim, withSpentKey } from "../idempotency/idempotent-requests.ts";
import { requestLogIds } from "../request/log-ids.ts";
import { type BatchedWork, hasOpenAttempt, hasReachedUpstream } from "../request/trace.ts";
import { disposeRequest, isRead, type RequestContext } from "../request-context.ts";
import { measureBatches } from "../translation/embedding-batches.ts";
import type { RequestEnding } from "./request-ending.ts";
import { type SettlementServices, settleRequest } from "./settle.ts";
import { countWastedAttempts } from "./wasted-attempts.ts";

type RejectionServices = SettlementServices & ClaimEndServices & { readonly policyActions: PolicyActions };

/** The end of a request that failed before its response began. */
interface Rejection {
  readonly error: ApiError;
  /** The batches that were finished nevertheless; null if there are none. */
  readonly batchedWork: BatchedWork | null;
}

/** Settles the request. Returns the error for the client. */
export async function closeRejected(
  services: RejectionServices,
  context: RequestContext,
  cause: unknown,
): Promise<ApiError> {
  const { log, policyActions } = services;
  const { lease, trace } = context;
  const error = asApiError(cause);
  if (error.status === 500) logFault(log, requestLogIds(context), cause);
  if (error.rule !== null) policyActions.add(error.rule, "reject");
  if (context.capture !== null) captureError(context.capture, context, error);
  // What an upstream has received counts as a request, even if it was rejected there: otherwise invalid requests would
  // reach upstreams without a limit. What the gateway itself rejected does not count.
  if (hasReachedUpstream(trace)) lease?.release();
  else lease?.cancel();
  const rejection = { error, batchedWork: await measureFinishedBatches(log, context) };
  try {
    await settleRejected(services, context, rejection);
  } catch (fault) {
    // A failed settlement must not change the error that the client receives.
    logFault(log, requestLogIds(context), fault);
    context.capture?.discard();
  } finally {
    if (isRead(context)) disposeRequest(context);
  }
  return isKeySpent(context, rejection) ? withSpentKey(error) : error;
}

/** A failed count must neither leave the hold open nor change the error that the client receives. */
async function measureFinishedBatches(log: Log, context: RequestContext): Promise<BatchedWork | null> {
  if (context.trace.batches === null) return null;
  try {
    return await measureBatches(context.trace);
  } catch (fault) {
    logFault(log, requestLogIds(context), fault);
    return null;
  }
}

async function settleRejected(
  services: RejectionServices,
  context: RequestContext,
  rejection: Rejection,
): Promise<void> {
  await settleRequest(services, context, buildRejectedEnding(context, rejection));
  const { claim } = context;
  if (claim !== null) await endClaim(services, claim, isKeySpent(context, rejection) ? null : "forget");
}

function buildRejectedEnding(context: RequestContext, { error, batchedWork }: Rejection): RequestEnding {
  const { call, endpoint, trace } = context;
  const isServed = batchedWork !== null || wasServed(context, error);
  return {
    outcome: isClientGone(error) ? "client_gone" : trace.attempts.length > 0 ? "failed" : "refused",
    status: endpoint.api.errorStatus(error),
    error,
    usage: null,
    images: 0,
    imageKind: null,
    responseId: null,
    responseState: "ended",
    isServed,
    isWhole: false,
    countOutput: null,
    estimateShown: null,
    // At shutdown this process aborts the request: the client did not disconnect.
    isAbandoned: isServed && call.request.signal.aborted,
    batchedWork,
  };
}

function isClientGone({ code }: ApiError): boolean {
  return code === "client_closed_request";
}

/** The client disconnected while an account was processing the request. */
function wasServed({ trace }: RequestContext, error: ApiError): boolean {
  return isClientGone(error) && hasOpenAttempt(trace);
}

/** The client may reuse its Idempotency-Key as long as no account can have processed the request. */
function isKeySpent(context: RequestContext, { error, batchedWork }: Rejection): boolean {
  if (context.claim === null) return false;
  const hasWorked = batchedWork !== null || context.fallback?.hasLeftWork === true;
  return hasWorked || wasServed(context, error) || countWastedAttempts(context.trace) > 0;
}
