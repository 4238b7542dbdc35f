/**
 * Counts what a stream says: where somebody pays for it, and then ends one that says more than was paid for; where it
 * fills windows; and where its upstream will probably not tell.
 */

import type { BillingEngine } from "../../billing/engine/direct-billing.ts";
import { ApiError } from "../../errors.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import type { TokenUsage } from "../../protocols/shared/usage.ts";
import type { Charge } from "../charging/charge.ts";
import { isWholeCount } from "../metering/meter.ts";
import { type OutputCounter, openOutputCounter } from "../metering/output-counter.ts";
import type { Trace } from "../request/trace.ts";

export interface StreamCounters {
  /** A fresh counter for the next attempt, as failed ones count for nothing; null where it is not counted. */
  next(): OutputCounter | null;
  current(): OutputCounter | null;
}

export interface PaidCounters extends StreamCounters {
  next(): OutputCounter;
  /** Tells the till how far the stream is; an error when it has said more than was paid for. */
  checkpoint(): ApiError | null;
}

/** Routes whose last complete stream did not report its usage. */
const silentRoutes = new WeakSet<AccountRoute>();

export function noteReportedUsage(route: AccountRoute, usage: TokenUsage | null): void {
  if (usage !== null && isWholeCount(usage)) silentRoutes.delete(route);
  else silentRoutes.add(route);
}

/** Where nobody pays: nearly all upstreams tell, so nearly no stream is counted. */
export function openUnpaidCounters(trace: Pick<Trace, "route">, fillsWindows: boolean): StreamCounters {
  let counter: OutputCounter | null = null;
  return {
    next() {
      const isNeeded = fillsWindows || (trace.route !== null && silentRoutes.has(trace.route));
      counter = isNeeded ? openOutputCounter() : null;
      return counter;
    },
    current: () => counter,
  };
}

/**
 * Counts are judged until the end, and upstreams count otherwise: one that keeps the bound it was given ends by itself,
 * and must not be ended a word before. Only one that goes on and on is.
 */
const OVER_BOUND = 1.5;
const OVER_BOUND_TOKENS = 64;

export function openCounters(
  till: Pick<BillingEngine, "checkpoint">,
  requestId: string,
  charge: Charge,
): PaidCounters {
  const { paidOutputTokens, isCapped } = charge;
  const most = paidOutputTokens * OVER_BOUND + OVER_BOUND_TOKENS;
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
      till.checkpoint(requestId, Math.round(tokens));
      if (tokens <= most) return null;
      return new ApiError(
        "insufficient_quota",
        isCapped
          ? "What you can pay for is used up, so the answer ends here. Top up, or wait until your subscription is filled up."
          : "The answer is longer than it may be, and more than was held for it. So it ends here. Ask for more with a larger bound.",
      );
    },
  };
}
