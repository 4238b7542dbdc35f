/** How long billing waits for the database: between two tries, and before waiting requests are refused. */

import type { BillingLimits } from "./pending-work.ts";

const FIRST_RETRY_MS = 5;
/** How often the waiting operations are checked. */
export const LOOK_MS = 50;

/** What is currently known about the database. */
export interface StoreProgress {
  nowMs: number;
  /** When the last transaction finished. */
  endedMs: number;
  /** Whether the database is known to be available although it finishes no transaction. */
  isThere: boolean;
}

/**
 * Whether a hold has waited too long. A slow database that still finishes transactions gets more time than one that
 * is unavailable.
 */
export function isTooLong(
  { holdPatienceMs, silenceMs }: Pick<BillingLimits, "holdPatienceMs" | "silenceMs">,
  sinceMs: number,
  { nowMs, endedMs, isThere }: StoreProgress,
): boolean {
  if (nowMs - sinceMs >= holdPatienceMs) return true;
  return !isThere && nowMs - Math.max(sinceMs, endedMs) >= silenceMs;
}

/** The delay before the next try, after `failures` failed ones. */
export function pauseMs({ retryMs }: Pick<BillingLimits, "retryMs">, failures: number): number {
  return Math.min(retryMs, FIRST_RETRY_MS * 2 ** Math.min(failures, 10));
}
