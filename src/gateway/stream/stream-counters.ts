/** Counts the output of a stream. A paid stream whose output exceeds its hold is ended. */

import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import { ApiError } from "../../errors.ts";
import type { RequestCharge } from "../charging/charge.ts";
import {
  type OutputCounter,
  openOutputCounter,
  openUnpaidOutputCounter,
} from "../metering/output-counter.ts";

export interface StreamCounters {
  /** Returns a new counter for the next attempt, because output of failed attempts does not count. */
  next(): OutputCounter;
  current(): OutputCounter | null;
}

export interface PaidCounters extends StreamCounters {
  /** Reports the progress of the stream to billing. Returns an error if the output exceeds the hold. */
  checkpoint(): ApiError | null;
}

/** For unpaid requests: their usage is what a paid request would be charged for. */
export function openUnpaidCounters(): StreamCounters {
  let counter: OutputCounter | null = null;
  return {
    next() {
      counter = openUnpaidOutputCounter();
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
