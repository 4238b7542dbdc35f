/** How long the till waits for the store: between two tries, and before those who wait are told. */

import type { BillingLimits } from "./pending-work.ts";

const FIRST_RETRY_MS = 5;
/** How often those who wait for the store are looked at. */
export const LOOK_MS = 50;

/** What is known of the store, now. */
export interface StoreProgress {
  nowMs: number;
  /** When it ended its last transaction. */
  endedMs: number;
  /** Whether it is known not to be away, however silent it is. */
  isThere: boolean;
}

/** For a hold: a store that is slow, and goes on ending transactions, is waited for longer than one that is away. */
export function isTooLong(
  { holdPatienceMs, silenceMs }: Pick<BillingLimits, "holdPatienceMs" | "silenceMs">,
  sinceMs: number,
  { nowMs, endedMs, isThere }: StoreProgress,
): boolean {
  if (nowMs - sinceMs >= holdPatienceMs) return true;
  return !isThere && nowMs - Math.max(sinceMs, endedMs) >= silenceMs;
}

/** Before the next try, after so many that failed. */
export function pauseMs({ retryMs }: Pick<BillingLimits, "retryMs">, failures: number): number {
  return Math.min(retryMs, FIRST_RETRY_MS * 2 ** Math.min(failures, 10));
}
