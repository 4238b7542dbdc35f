/**
 * Ends of idempotent requests that the store could not be told of: told again in the background until it takes them.
 * Bounded: after an hour, or where too many wait, a key stays under way until this process is gone.
 */

import type { IdempotencyClaim, StoredAnswer } from "../../store/money/idempotency.ts";

/** What became of the first request: its answer if it is kept, sealed as it is stored. */
export type ClaimEnd = StoredAnswer | null | "forget";

export interface LateEnds {
  add(claim: IdempotencyClaim, end: ClaimEnd): void;
}

interface LateEnd {
  claim: IdempotencyClaim;
  end: ClaimEnd;
  sinceMs: number;
}

const ENDS_MAX = 10_000;
/** For the answers that wait. Beyond it, an answer is dropped and only the end is remembered. */
const BYTES_MAX = 16 * 1024 * 1024;
const TRIED_MS_MAX = 60 * 60_000;
const PAUSE_MS_MAX = 10_000;

export function openLateEnds(
  write: (claim: IdempotencyClaim, end: ClaimEnd) => Promise<void>,
  nowMs: () => number,
  pauseMs: number,
): LateEnds {
  const waiting: LateEnd[] = [];
  let bytes = 0;
  let nextPauseMs = pauseMs;
  let isPlanned = false;

  function plan(): void {
    if (isPlanned || waiting.length === 0) return;
    isPlanned = true;
    setTimeout(() => void tell(), nextPauseMs).unref();
    nextPauseMs = Math.min(2 * nextPauseMs, PAUSE_MS_MAX);
  }

  async function tell(): Promise<void> {
    while (waiting[0] !== undefined && (await isOver(waiting[0]))) {
      bytes -= sizeOf(waiting[0].end);
      waiting.shift();
      nextPauseMs = pauseMs;
    }
    isPlanned = false;
    plan();
  }

  async function isOver({ claim, end, sinceMs }: LateEnd): Promise<boolean> {
    try {
      await write(claim, end);
      return true;
    } catch {
      return nowMs() - sinceMs > TRIED_MS_MAX;
    }
  }

  return {
    add(claim, end) {
      if (waiting.length >= ENDS_MAX) return;
      const kept = bytes + sizeOf(end) > BYTES_MAX ? null : end;
      bytes += sizeOf(kept);
      waiting.push({ claim, end: kept, sinceMs: nowMs() });
      plan();
    },
  };
}

function sizeOf(end: ClaimEnd): number {
  return end === null || end === "forget" ? 0 : end.body.length;
}
