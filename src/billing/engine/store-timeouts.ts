/** How long billing waits for the database: between two tries, and before waiting requests are rejected. */

import type { BillingLimits } from "./pending-work.ts";

const FIRST_RETRY_MS = 5;
/** How often the waiting operations are checked. */
export const EXPIRY_CHECK_MS = 50;

/** What is currently known about the database. */
export interface StoreProgress {
  nowMs: number;
  lastCommitMs: number;
  /** Whether the database is known to be available although it finishes no transaction. */
  isAvailable: boolean;
  /** Whether the last transaction failed. */
  isFailing: boolean;
}

/** Whether a hold has waited too long. A slow database gets more time than one that is unavailable. */
export function isHoldExpired(
  limits: Pick<BillingLimits, "holdTimeoutMs" | "storeSilenceMaxMs" | "storeFailureMaxMs">,
  sinceMs: number,
  { nowMs, lastCommitMs, isAvailable, isFailing }: StoreProgress,
): boolean {
  if (nowMs - sinceMs >= limits.holdTimeoutMs) return true;
  const silenceMaxMs = isFailing ? limits.storeFailureMaxMs : limits.storeSilenceMaxMs;
  return !isAvailable && nowMs - Math.max(sinceMs, lastCommitMs) >= silenceMaxMs;
}

/** The delay before the next try, after `failures` failed ones. */
export function computeRetryDelayMs({ retryMs }: Pick<BillingLimits, "retryMs">, failures: number): number {
  return Math.min(retryMs, FIRST_RETRY_MS * 2 ** Math.min(failures, 10));
}
