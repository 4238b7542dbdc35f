/**
 * Sends the request to an account that can serve it. Until content is delivered, a failure is invisible to the client:
 * dispatch fails over to the next account, never to the same one twice, and returns the most useful error if all fail.
 * While every account is busy, limited or overloaded the request waits in the queue, if its group allows it.
 */

import { isPending } from "../../base/maybe-promise.ts";
import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import type { ApiError } from "../../errors.ts";
import type { LimitBorrower } from "../../limits/borrower/limit-borrower.ts";
import type { Log } from "../../observe/log.ts";
import type { Pool } from "../../pool/pool.ts";
import type { WaitingQueue } from "../../pool/waiting-queue.ts";
import type { AttemptTrace } from "../request/attempt-trace.ts";
import { type AccountSlot, takeAccountSlot } from "./account-slot.ts";
import type { DispatchRequest, DispatchStep } from "./dispatch-request.ts";
import { Failover } from "./failover.ts";
import { describeNoAccount, NONE_LEFT, type NoSlot } from "./no-account.ts";
import type { RetryBudget } from "./retry-budget.ts";
import {
  type AttemptDispatcher,
  type StreamContent,
  tryAccount,
  type UpstreamContent,
  type WholeContent,
} from "./try-account.ts";

export interface Dispatcher extends AttemptDispatcher {
  pool: Pool;
  billingEngine: Pick<BillingEngine, "recordDispatch" | "recordRequeue">;
  waitingQueue: WaitingQueue;
  /** Null if there is one node. */
  limitBorrower: Pick<LimitBorrower, "borrow" | "queue"> | null;
  retries: RetryBudget;
  log: Log;
  attemptsMax: number;
}

/** The slot that the response occupies. The receiver releases it when the response is over. */
interface Occupied {
  accountSlot: AccountSlot;
}

export type WholeUpstreamResult = WholeContent & Occupied;
export type StreamUpstreamResult = StreamContent & Occupied;
export type UpstreamResult = WholeUpstreamResult | StreamUpstreamResult;

/** Rejects with the `ApiError` for the client if no account could serve the request. */
export async function dispatch(
  dispatcher: Dispatcher,
  dispatchRequest: DispatchRequest,
): Promise<UpstreamResult> {
  const { step } = dispatchRequest;
  if (step !== null) return await tryAccounts(dispatcher, dispatchRequest, step);
  const retries = dispatcher.retries.open();
  try {
    return await tryAccounts(dispatcher, dispatchRequest, { attemptsMax: dispatcher.attemptsMax, retries });
  } finally {
    retries.close();
  }
}

/** One account after the other: until one serves, none is left, or the request must not be sent again. */
async function tryAccounts(
  dispatcher: Dispatcher,
  dispatchRequest: DispatchRequest,
  { attemptsMax, retries }: Pick<DispatchStep, "attemptsMax" | "retries">,
): Promise<UpstreamResult> {
  const failover = Failover.open(dispatcher, dispatchRequest);
  let noSlot = NONE_LEFT;
  for (let attempts = 0; attempts < attemptsMax; attempts++) {
    const taken = takeAccountSlot(dispatcher, dispatchRequest, failover);
    const accountSlot = isPending(taken) ? await taken : taken;
    if ("verdict" in accountSlot) {
      noSlot = accountSlot;
      break;
    }
    requireKey(dispatchRequest, accountSlot);
    const tried = await tryAccount(dispatcher, dispatchRequest, { accountSlot, body: failover.body });
    if (tried.kind === "served") return acceptResponse(dispatcher, failover, { ...tried, accountSlot });
    if (tried.kind === "unusable") {
      failover.recordUnusable(accountSlot, tried.error);
      continue;
    }
    const next = await failover.recordFailure({ accountSlot, trace: tried.trace }, tried.failure);
    if (next === "give_up" || (next === "other_account" && !retries.mayRetry())) break;
  }
  throw describeFailure(dispatcher, dispatchRequest, { noSlot, failover });
}

/** Nothing is sent for a key that was revoked while its request waited. */
function requireKey(dispatchRequest: DispatchRequest, accountSlot: AccountSlot): void {
  try {
    dispatchRequest.requireKey();
  } catch (error) {
    accountSlot.release(null);
    throw error;
  }
}

interface ServedAttempt {
  readonly content: UpstreamContent;
  readonly trace: AttemptTrace;
  readonly accountSlot: AccountSlot;
}

function acceptResponse(
  { pool }: Dispatcher,
  failover: Failover,
  { content, trace, accountSlot }: ServedAttempt,
): UpstreamResult {
  const { route } = accountSlot;
  trace.serve();
  pool.recordSuccess(route, trace.latencyMs, content.upstreamHeaders);
  failover.recordSuccess(route);
  return withSlot(content, accountSlot);
}

function describeFailure(
  { pool }: Dispatcher,
  { request, routes }: DispatchRequest,
  { noSlot, failover }: { readonly noSlot: NoSlot; readonly failover: Failover },
): ApiError {
  const last = failover.error;
  const unavailability = last === null ? null : pool.findUnavailability(routes);
  const unable = failover.unableError();
  return describeNoAccount({ publicModel: request.publicModel, noSlot, last, unable, unavailability });
}

function withSlot(content: UpstreamContent, accountSlot: AccountSlot): UpstreamResult {
  const { upstreamHeaders } = content;
  return content.kind === "stream"
    ? { kind: "stream", stream: content.stream, upstreamHeaders, accountSlot }
    : { kind: "response", response: content.response, upstreamHeaders, accountSlot };
}
