/** What an admitted request holds, until its owner ends it: a place in flight and its shares of the windows. */

import { advance, giveBack, type Share, type SlidingWindow, settleShare } from "./sliding-window.ts";
import { type SubjectState, touch } from "./subject-state.ts";
import type { Lease } from "./terms.ts";

/** For a request that nothing limits. */
export const FREE_LEASE: Lease = { settle() {}, release() {}, cancel() {} };

export function openLease(
  states: readonly SubjectState[],
  requestWindows: readonly SlidingWindow[],
  tokenShares: readonly Share[],
  admittedAtMs: number,
  nowMs: () => number,
): Lease {
  let held = true;

  function end(): boolean {
    if (!held) return false;
    held = false;
    for (const state of states) state.inUse -= 1;
    return true;
  }

  return {
    settle(tokens) {
      if (!held || tokenShares.length === 0) return;
      const now = nowMs();
      const counted = tokenCount(tokens);
      for (const share of tokenShares) {
        advance(share.window, now);
        settleShare(share, counted, now);
      }
      for (const state of states) touch(state, now);
    },
    release() {
      end();
    },
    cancel() {
      if (!end()) return;
      for (const window of requestWindows) giveBack(window, 1, admittedAtMs);
      for (const { window, amount, atMs } of tokenShares) giveBack(window, amount, atMs);
    },
  };
}

/** Whole and finite, so that sums stay exact however often they are changed. */
export function tokenCount(tokens: number): number {
  return tokens > 0 ? Math.min(Math.ceil(tokens), TOKENS_MAX) : 0;
}

const TOKENS_MAX = 2 ** 40;
