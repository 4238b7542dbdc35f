/**
 * Ends of idempotency claims that could not be written. They are retried in the background until the database accepts
 * them. Bounded: after an hour, or if too many wait, a key counts as running until this process is gone.
 */

import type { IdempotencyClaim, StoredResult } from "../../store/money/idempotency.ts";

/** How the first request ended: its response if it is stored, encrypted as it is stored. */
export type ClaimEnd = StoredResult | null | "forget";

export interface PendingClaimEnds {
  add(claim: IdempotencyClaim, end: ClaimEnd): void;
}

interface PendingClaimEnd {
  claim: IdempotencyClaim;
  end: ClaimEnd;
  sinceMs: number;
}

const ENDS_MAX = 10_000;
/** Limit for the waiting responses. Beyond it, a response is dropped and only the end is kept. */
const BYTES_MAX = 16 * 1024 * 1024;
const RETRY_MS_MAX = 60 * 60_000;
const PAUSE_MS_MAX = 10_000;

export function openPendingClaimEnds(
  write: (claim: IdempotencyClaim, end: ClaimEnd) => Promise<void>,
  nowMs: () => number,
  pauseMs: number,
): PendingClaimEnds {
  const waiting: PendingClaimEnd[] = [];
  let bytes = 0;
  let nextPauseMs = pauseMs;
  let isScheduled = false;

  function scheduleRetry(): void {
    if (isScheduled || waiting.length === 0) return;
    isScheduled = true;
    setTimeout(() => void retryAll(), nextPauseMs).unref();
    nextPauseMs = Math.min(2 * nextPauseMs, PAUSE_MS_MAX);
  }

  async function retryAll(): Promise<void> {
    while (waiting[0] !== undefined && (await isFinished(waiting[0]))) {
      bytes -= countBytes(waiting[0].end);
      waiting.shift();
      nextPauseMs = pauseMs;
    }
    isScheduled = false;
    scheduleRetry();
  }

  async function isFinished({ claim, end, sinceMs }: PendingClaimEnd): Promise<boolean> {
    try {
      await write(claim, end);
      return true;
    } catch {
      return nowMs() - sinceMs > RETRY_MS_MAX;
    }
  }

  return {
    add(claim, end) {
      if (waiting.length >= ENDS_MAX) return;
      const keptEnd = bytes + countBytes(end) > BYTES_MAX ? null : end;
      bytes += countBytes(keptEnd);
      waiting.push({ claim, end: keptEnd, sinceMs: nowMs() });
      scheduleRetry();
    },
  };
}

function countBytes(end: ClaimEnd): number {
  return end === null || end === "forget" ? 0 : end.body.length;
}
