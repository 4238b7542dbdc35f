/**
 * In-memory limits of keys, users, groups and accounts, with one rule for all.
 *
 * Each limit over time is a sliding window (`sliding-window.ts`): a ring of uses with their times. A request is
 * admitted if it fits every window and every concurrency limit of every subject, and only then is anything counted.
 * Check and take are one step, so no limit is overdrawn and nothing is taken in part. A minute is exact; 5 hours to
 * 30 days are counted in 480 steps, each kept until all of it is too old. Tokens and money are reserved by estimate
 * and settled to the true use at the time of admission; once that time has left the window, the part above the
 * estimate counts from the settlement. A lease owns what was taken and returns it once. There are no timers: windows
 * advance when they are read, and each admission checks a few other subjects and drops the idle ones.
 *
 * Intervals are half open: what was taken at 0 ms is free again at exactly 60,000 ms.
 */

import type { Clock } from "../base/clock.ts";
import type { MinuteKind } from "../records/limits.ts";
import { clampAmount, toAmounts } from "./amounts.ts";
import { FREE_LEASE, type MeterShare, WindowLease } from "./lease.ts";
import { type AllowanceReader, describeAllowance, readLimitStatus, readMinute } from "./limit-status.ts";
import type {
  Admission,
  Allowance,
  Amounts,
  ConcurrencyBlocker,
  EstimatedUse,
  LimitLease,
  LimitStatus,
  PastUse,
  SeededLimiter,
  Shortage,
  Subject,
} from "./limiter-types.ts";
import { advance, resetMs, restore, take } from "./sliding-window.ts";
import { SubjectRegistry } from "./subject-registry.ts";
import {
  applyLimits,
  findShortage,
  hasNoSlot,
  isClosed,
  isIdle,
  laterShortage,
  meterFor,
  openState,
  type SubjectMeter,
  type SubjectState,
  touch,
  windowShortageIn,
} from "./subject-state.ts";

/** The admission of a request without limits. */
const UNLIMITED: Admission = { ok: true, lease: FREE_LEASE };

/** The limiter of a single node. `borrower/borrowing-limiter.ts` is that of several. */
export function openLimiter(clock: Pick<Clock, "monotonicMs">): SeededLimiter {
  return new InMemoryLimiter(clock);
}

class InMemoryLimiter implements SeededLimiter {
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #subjects = new SubjectRegistry<SubjectState>({ open: openState, applyLimits, isIdle });
  #latestMs: number;

  /**
   * If the clock jumps back, time stands still here until the clock has caught up. Nothing is granted twice. A field,
   * so that leases share it.
   */
  readonly #nowMs = (): number => {
    const readMs = this.#clock.monotonicMs();
    if (readMs > this.#latestMs) this.#latestMs = readMs;
    return this.#latestMs;
  };

  constructor(clock: Pick<Clock, "monotonicMs">) {
    this.#clock = clock;
    this.#latestMs = clock.monotonicMs();
  }

  admit(subjects: readonly Subject[], estimate: EstimatedUse): Admission {
    const now = this.#nowMs();
    this.#subjects.dropIdle(now);
    const limited = this.#subjects.findLimited(subjects);
    if (limited.length === 0) return UNLIMITED;
    const amounts = toAmounts(1, estimate);
    let shortage: Shortage | null = null;
    for (const state of limited) shortage = laterShortage(shortage, findShortage(state, amounts, now));
    if (shortage) return { ok: false, shortage, mayGrow: false };
    return { ok: true, lease: this.#take(limited, amounts, now) };
  }

  #take(states: readonly SubjectState[], amounts: Amounts, admittedAtMs: number): LimitLease {
    const requestWindows: SubjectMeter[] = [];
    const shares: MeterShare[] = [];
    for (const state of states) {
      state.inUse += 1;
      touch(state, admittedAtMs);
      for (const meter of state.meters) {
        const { unit } = meter;
        const amount = amounts[unit];
        take(meter, amount, admittedAtMs);
        if (unit === "requests") requestWindows.push(meter);
        else {
          meter.reserved += amount;
          shares.push({
            window: meter,
            unit,
            atMs: admittedAtMs,
            amount,
            expiredAmount: 0,
            reserved: amount,
          });
        }
      }
    }
    return new WindowLease({ states, requestWindows, shares, admittedAtMs, nowMs: this.#nowMs });
  }

  raise(lease: LimitLease, subjects: readonly Subject[], estimate: EstimatedUse): Shortage | null {
    const now = this.#nowMs();
    const amounts = toAmounts(0, estimate);
    let shortage: Shortage | null = null;
    for (const subject of subjects) {
      const state = this.#subjects.find(subject);
      if (state) shortage = laterShortage(shortage, windowShortageIn(state, amounts, now));
    }
    if (shortage === null) lease.settle(amounts);
    return shortage;
  }

  findBlocker(subjects: readonly Subject[]): ConcurrencyBlocker | null {
    for (const subject of subjects) {
      const state = this.#subjects.find(subject);
      if (state !== null && hasNoSlot(state)) return state;
    }
    return null;
  }

  checkShortage(subject: Subject, estimate: EstimatedUse): Shortage | null {
    const existing = this.#subjects.find(subject);
    if (!existing && !isClosed(subject.limits)) return null;
    return findShortage(existing ?? openState(subject), toAmounts(1, estimate), this.#nowMs());
  }

  computeRemainingNano(subjects: readonly Subject[]): number {
    const now = this.#nowMs();
    let remaining = Number.POSITIVE_INFINITY;
    for (const subject of subjects) {
      for (const meter of this.#subjects.findOrOpen(subject)?.meters ?? []) {
        if (meter.unit !== "nano") continue;
        advance(meter, now);
        remaining = Math.min(remaining, Math.max(0, meter.max - meter.used));
      }
    }
    return remaining;
  }

  allowance(subject: Subject, kind: MinuteKind): Allowance | null {
    return readMinute(subject, kind, this.#readAllowance(this.#subjects.find(subject)));
  }

  readStatus(subject: Subject): LimitStatus {
    const state = this.#subjects.find(subject);
    return readLimitStatus(subject, this.#readAllowance(state), () => state?.inUse ?? 0);
  }

  #readAllowance(state: SubjectState | null): AllowanceReader {
    const now = this.#nowMs();
    return ({ kind, unit, perMs, limit }) => {
      const meter = meterFor(state?.meters ?? [], kind, unit, perMs);
      if (meter === undefined) return describeAllowance(limit, 0, 0);
      advance(meter, now);
      return describeAllowance(limit, meter.used, resetMs(meter, now));
    };
  }

  seed(subject: Subject, used: readonly PastUse[]): void {
    const state = this.#subjects.findOrOpen(subject);
    if (!state) return;
    const now = this.#nowMs();
    for (const meter of state.meters) {
      if (meter.kind !== "window") continue;
      const past = used
        .map((use) => ({
          atMs: now - Math.max(0, use.atAgoMs),
          amount: clampAmount(meter.unit, use[meter.unit] ?? 0),
        }))
        .filter(({ atMs, amount }) => amount > 0 && atMs + meter.perMs > now);
      advance(meter, now);
      restore(meter, past);
    }
    touch(state, now);
  }

  subjectCount(): number {
    return this.#subjects.size;
  }
}
