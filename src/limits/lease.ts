/** The reservation of an admitted request: a concurrency slot and its shares of the windows. */

import type { EstimatedUnit } from "../records/limits.ts";
import { clampAmount } from "./amounts.ts";
import type { LimitLease, Subject, TrueUse } from "./limiter-types.ts";
import { advance, isHeld, type Share, type SlidingWindow, settleShare, subtract } from "./sliding-window.ts";
import { type SubjectMeter, type SubjectState, touch } from "./subject-state.ts";

/** A share of a window that is settled to the true use: tokens or money. */
export interface MeterShare extends Share {
  readonly window: SubjectMeter;
  readonly unit: EstimatedUnit;
  /** What the request reserved of it, until it ends. */
  reserved: number;
}

/** For a request without limits. */
export const FREE_LEASE: LimitLease = {
  isHeld: () => true,
  settle() {},
  release() {},
  cancel() {},
  cancelSubjects() {},
  finish() {},
};

interface WindowLeaseOptions {
  readonly states: readonly SubjectState[];
  readonly requestWindows: readonly SlidingWindow[];
  readonly shares: readonly MeterShare[];
  readonly admittedAtMs: number;
  nowMs(): number;
}

export class WindowLease implements LimitLease {
  #reserved: WindowLeaseOptions;
  #state: "held" | "released" | "cancelled" = "held";

  constructor(reserved: WindowLeaseOptions) {
    this.#reserved = reserved;
  }

  isHeld(): boolean {
    return true;
  }

  settle(use: TrueUse): void {
    const { states, shares } = this.#reserved;
    if (this.#state === "cancelled" || shares.length === 0) return;
    const now = this.#reserved.nowMs();
    this.#endReservation();
    for (const share of shares) {
      const trueUse = use[share.unit] ?? null;
      if (trueUse === null) continue;
      advance(share.window, now);
      // An unused subject may be dropped from memory, so after the release only a share that is still in its window is
      // changed.
      if (this.#state === "released" && !isHeld(share)) continue;
      settleShare(share, clampAmount(share.unit, trueUse), now);
    }
    for (const subject of states) touch(subject, now);
  }

  release(): void {
    if (this.#end("released")) announceRelease(this.#reserved.states);
  }

  cancel(): void {
    if (!this.#end("cancelled")) return;
    subtractAll(this.#reserved);
    announceRelease(this.#reserved.states);
  }

  cancelSubjects(subjects: readonly Subject[]): void {
    if (this.#state !== "held") return;
    const all = this.#reserved;
    const cancelled = all.states.filter((state) => includesSubject(subjects, state));
    const windows = new Set<SlidingWindow>(cancelled.flatMap(({ meters }) => meters));
    for (const state of cancelled) state.inUse -= 1;
    for (const share of all.shares) if (windows.has(share.window)) endShare(share);
    subtractAll({
      requestWindows: all.requestWindows.filter((window) => windows.has(window)),
      shares: all.shares.filter(({ window }) => windows.has(window)),
      admittedAtMs: all.admittedAtMs,
    });
    this.#reserved = {
      ...all,
      states: all.states.filter((state) => !cancelled.includes(state)),
      requestWindows: all.requestWindows.filter((window) => !windows.has(window)),
      shares: all.shares.filter(({ window }) => !windows.has(window)),
    };
    announceRelease(cancelled);
  }

  /** Everything is counted already. */
  finish(): void {}

  #end(endState: "released" | "cancelled"): boolean {
    if (this.#state !== "held") return false;
    this.#state = endState;
    for (const subject of this.#reserved.states) subject.inUse -= 1;
    this.#endReservation();
    return true;
  }

  /** Ends the reservation, when the true use is settled or the request ends. */
  #endReservation(): void {
    for (const share of this.#reserved.shares) endShare(share);
  }
}

function endShare(share: MeterShare): void {
  share.window.reserved -= share.reserved;
  share.reserved = 0;
}

function subtractAll({
  requestWindows,
  shares,
  admittedAtMs,
}: Pick<WindowLeaseOptions, "requestWindows" | "shares" | "admittedAtMs">): void {
  for (const window of requestWindows) subtract(window, 1, admittedAtMs);
  for (const { window, amount, atMs } of shares) subtract(window, amount, atMs);
}

export function includesSubject(
  subjects: readonly Pick<Subject, "scope" | "id">[],
  { scope, id }: Pick<Subject, "scope" | "id">,
): boolean {
  return subjects.some((subject) => subject.scope === scope && subject.id === id);
}

/** Must run last: the requests that are woken take the released amounts in the same step. */
function announceRelease(states: readonly SubjectState[]): void {
  for (const { onRelease } of states) if (onRelease !== null) onRelease();
}
