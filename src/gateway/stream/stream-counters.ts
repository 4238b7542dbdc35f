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
import { type OutputCounter, openOutputCounter, openRoughCounter } from "../metering/output-counter.ts";
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

/**
 * What is known of the streams of a route: its first one is not over, or whether the last complete one reported its
 * usage.
 */
const routes = new WeakMap<AccountRoute, "first" | "reports" | "silent">();

export function noteReportedUsage(route: AccountRoute, usage: TokenUsage | null): void {
  routes.set(route, usage !== null && isWholeCount(usage) ? "reports" : "silent");
}

/**
 * For unpaid requests. Nearly all upstreams report usage, so only the first stream of a route is counted, and all of
 * them if it reports none. Streams that begin before the first one has ended are estimated, because a thousand of
 * them would keep text that is hardly ever counted.
 */
export function openUnpaidCounters(trace: Pick<Trace, "route">, fillsWindows: boolean): StreamCounters {
  let counter: OutputCounter | null = null;
  return {
    next() {
      counter = fillsWindows || trace.route === null ? openOutputCounter() : openCounterOfRoute(trace.route);
      return counter;
    },
    current: () => counter,
  };
}

function openCounterOfRoute(route: AccountRoute): OutputCounter | null {
  switch (routes.get(route)) {
    case "reports":
      return null;
    case "first":
      return openRoughCounter();
    case "silent":
      return openOutputCounter();
    case undefined:
      routes.set(route, "first");
      return openOutputCounter();
  }
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
