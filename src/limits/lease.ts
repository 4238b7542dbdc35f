/** What an admitted request holds, until its owner ends it: a place in flight and its shares of the windows. */

import { advance, giveBack, isHeld, type Share, type SlidingWindow, settleShare } from "./sliding-window.ts";
import { type SubjectMeter, type SubjectState, touch } from "./subject-state.ts";
import type { LimitLease, Unit } from "./terms.ts";

/** A part of a window that is settled to the truth: tokens or money. */
export interface MeterShare extends Share {
  readonly window: SubjectMeter;
  /** What the request took of it, until it ends. */
  reserved: number;
}

/** For a request that nothing limits. */
export const FREE_LEASE: LimitLease = { settle() {}, release() {}, cancel() {} };

export function openLease(
  states: readonly SubjectState[],
  requestWindows: readonly SlidingWindow[],
  shares: readonly MeterShare[],
  admittedAtMs: number,
  nowMs: () => number,
): LimitLease {
  let state: "held" | "released" | "cancelled" = "held";

  /** What was reserved is settled, or given back. */
  function endReservation(): void {
    for (const share of shares) {
      share.window.reserved -= share.reserved;
      share.reserved = 0;
    }
  }

  function end(as: "released" | "cancelled"): boolean {
    if (state !== "held") return false;
    state = as;
    for (const subject of states) subject.inUse -= 1;
    endReservation();
    return true;
  }

  return {
    settle(tokens, nano) {
      if (state === "cancelled" || shares.length === 0) return;
      const now = nowMs();
      endReservation();
      for (const share of shares) {
        const truth = share.window.unit === "tokens" ? tokens : nano;
        if (truth === null) continue;
        advance(share.window, now);
        // A subject that is not in use may be forgotten: what has left its windows is nobody's then.
        if (state === "released" && !isHeld(share)) continue;
        settleShare(share, countUses(share.window.unit, truth), now);
      }
      for (const subject of states) touch(subject, now);
    },
    release() {
      if (end("released")) announceRelease(states);
    },
    cancel() {
      if (!end("cancelled")) return;
      for (const window of requestWindows) giveBack(window, 1, admittedAtMs);
      for (const { window, amount, atMs } of shares) giveBack(window, amount, atMs);
      announceRelease(states);
    },
  };
}

/** Last of all: whoever is woken takes what was given back, in the same step. */
function announceRelease(states: readonly SubjectState[]): void {
  for (const { onRelease } of states) if (onRelease !== null) onRelease();
}

/** Whole and finite, so that sums stay exact however often they are changed. */
export function countUses(unit: Unit, amount: number): number {
  return amount > 0 ? Math.min(Math.ceil(amount), unit === "nano" ? NANO_MAX : TOKENS_MAX) : 0;
}

const TOKENS_MAX = 2 ** 40;
/** A million dollars: more than any request costs, and far enough from where numbers skip some. */
const NANO_MAX = 2 ** 50;
