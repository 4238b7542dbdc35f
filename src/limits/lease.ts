/** What an admitted request holds, until its owner ends it: a place in flight and its shares of the windows. */

import { advance, giveBack, type Share, type SlidingWindow, settleShare } from "./sliding-window.ts";
import { type Meter, type SubjectState, touch } from "./subject-state.ts";
import type { Lease, Unit } from "./terms.ts";

/** A part of a window that is settled to the truth: tokens or money. */
export interface MeterShare extends Share {
  readonly window: Meter;
}

/** For a request that nothing limits. */
export const FREE_LEASE: Lease = { settle() {}, release() {}, cancel() {} };

export function openLease(
  states: readonly SubjectState[],
  requestWindows: readonly SlidingWindow[],
  shares: readonly MeterShare[],
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
    settle(tokens, nano) {
      if (!held || shares.length === 0) return;
      const now = nowMs();
      for (const share of shares) {
        const truth = share.window.unit === "tokens" ? tokens : nano;
        if (truth === null) continue;
        advance(share.window, now);
        settleShare(share, countOf(share.window.unit, truth), now);
      }
      for (const state of states) touch(state, now);
    },
    release() {
      end();
    },
    cancel() {
      if (!end()) return;
      for (const window of requestWindows) giveBack(window, 1, admittedAtMs);
      for (const { window, amount, atMs } of shares) giveBack(window, amount, atMs);
    },
  };
}

/** Whole and finite, so that sums stay exact however often they are changed. */
export function countOf(unit: Unit, amount: number): number {
  return amount > 0 ? Math.min(Math.ceil(amount), unit === "nano" ? NANO_MAX : TOKENS_MAX) : 0;
}

const TOKENS_MAX = 2 ** 40;
/** A million dollars: more than any request costs, and far enough from where numbers skip some. */
const NANO_MAX = 2 ** 50;
