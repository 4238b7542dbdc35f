/**
 * The reservation of an admitted request, until its owner ends it: a concurrency slot and its shares of the windows.
 */

import { advance, giveBack, isHeld, type Share, type SlidingWindow, settleShare } from "./sliding-window.ts";
import { type SubjectMeter, type SubjectState, touch } from "./subject-state.ts";
import type { LimitLease, Unit } from "./terms.ts";

/** A share of a window that is settled to the true use: tokens or money. */
export interface MeterShare extends Share {
  readonly window: SubjectMeter;
  /** What the request reserved of it, until it ends. */
  reserved: number;
}

/** For a request without limits. */
export const FREE_LEASE: LimitLease = { settle() {}, release() {}, cancel() {} };

export function openLease(
  states: readonly SubjectState[],
  requestWindows: readonly SlidingWindow[],
  shares: readonly MeterShare[],
  admittedAtMs: number,
  nowMs: () => number,
): LimitLease {
  let state: "held" | "released" | "cancelled" = "held";

  /** Ends the reservation, when the true use is settled or the request ends. */
  function endReservation(): void {
    for (const share of shares) {
      share.window.reserved -= share.reserved;
      share.reserved = 0;
    }
  }

  function end(endState: "released" | "cancelled"): boolean {
    if (state !== "held") return false;
    state = endState;
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
        const trueUse = share.window.unit === "tokens" ? tokens : nano;
        if (trueUse === null) continue;
        advance(share.window, now);
        // An unused subject may be dropped from memory, so after the release only a share that is still in its window
        // is changed.
        if (state === "released" && !isHeld(share)) continue;
        settleShare(share, countUses(share.window.unit, trueUse), now);
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

/** Must run last: the requests that are woken take the released amounts in the same step. */
function announceRelease(states: readonly SubjectState[]): void {
  for (const { onRelease } of states) if (onRelease !== null) onRelease();
}

/** Whole and finite, so that sums stay exact after any number of changes. */
export function countUses(unit: Unit, amount: number): number {
  return amount > 0 ? Math.min(Math.ceil(amount), unit === "nano" ? NANO_MAX : TOKENS_MAX) : 0;
}

const TOKENS_MAX = 2 ** 40;
/** About a million dollars: more than any request costs, and within the range where numbers are exact. */
const NANO_MAX = 2 ** 50;
