/**
 * Counts the output of a stream if it is paid, if it uses windows, or unless its upstream is known to report usage. A
 * paid stream whose output exceeds its hold is ended.
 */

import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import { ApiError } from "../../errors.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import type { TokenUsage } from "../../protocols/shared/usage.ts";
import type { RequestCharge } from "../charging/charge.ts";
import { isWholeCount } from "../metering/meter.ts";
import { type OutputCounter, openOutputCounter } from "../metering/output-counter.ts";
import type { Trace } from "../request/trace.ts";

export interface StreamCounters {
  /**
   * Returns a new counter for the next attempt, because output of failed attempts does not count; null if the stream is
   * not counted.
   */
  next(): OutputCounter | null;
  current(): OutputCounter | null;
}

export interface PaidCounters extends StreamCounters {
  next(): OutputCounter;
  /** Reports the progress of the stream to billing. Returns an error if the output exceeds the hold. */
  checkpoint(): ApiError | null;
}

/** Routes whose last complete stream reported its usage. */
const reportingRoutes = new WeakSet<AccountRoute>();

export function noteReportedUsage(route: AccountRoute, usage: TokenUsage | null): void {
  if (usage !== null && isWholeCount(usage)) reportingRoutes.add(route);
  else reportingRoutes.delete(route);
}

/** For unpaid requests: nearly all upstreams report usage, so only the first stream of a route is counted. */
export function openUnpaidCounters(trace: Pick<Trace, "route">, fillsWindows: boolean): StreamCounters {
  let counter: OutputCounter | null = null;
  return {
    next() {
      const isNeeded = fillsWindows || trace.route === null || !reportingRoutes.has(trace.route);
      counter = isNeeded ? openOutputCounter() : null;
      return counter;
    },
    current: () => counter,
  };
}

/**
 * The count is an estimate and upstreams count differently. A stream within its cap ends by itself and must not be
 * cut just before. Only a stream that far exceeds its cap is ended.
 */
const OVER_BOUND = 1.5;
const OVER_BOUND_TOKENS = 64;

export function openCounters(
  billingEngine: Pick<BillingEngine, "checkpoint">,
  requestId: string,
  charge: RequestCharge,
): PaidCounters {
  const { paidOutputTokens, isCapped } = charge;
  const outputTokensMax = paidOutputTokens * OVER_BOUND + OVER_BOUND_TOKENS;
  let counter: OutputCounter | null = null;
  return {
    next() {
      counter = openOutputCounter();
      return counter;
    },
    current: () => counter,
    checkpoint() {
      if (counter === null) return null;
      const tokens = counter.estimate();
      billingEngine.checkpoint(requestId, Math.round(tokens));
      if (tokens <= outputTokensMax) return null;
      return new ApiError(
        "insufficient_quota",
        isCapped
          ? "Your balance or quota is exhausted, so the response was stopped. Top up the balance, or wait until your subscription resets."
          : "The response exceeded its maximum of output tokens, so it was stopped. Set a higher maximum and send the request again.",
      );
    },
  };
}
