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

import type { Clock } from "../net/wire/clock.ts";
import { countUses, FREE_LEASE, type MeterShare, openLease } from "./lease.ts";
import { advance, restore, take } from "./sliding-window.ts";
import { computeStanding } from "./standing.ts";
import {
  applyLimits,
  findShortage,
  hasNoSlot,
  isClosed,
  isIdle,
  isUnlimited,
  laterShortage,
  openState,
  type SubjectMeter,
  type SubjectState,
  touch,
  windowShortageIn,
} from "./subject-state.ts";
import type { Admission, Limiter, LimitLease, Scope, Shortage, Subject } from "./terms.ts";

export type {
  Admission,
  Allowance,
  ConcurrencyBlocker,
  Limiter,
  LimitKind,
  LimitLease,
  LimitStanding,
  LimitWindowStanding,
  PastUse,
  Scope,
  Shortage,
  Subject,
  Unit,
} from "./terms.ts";

/** The admission of a request without limits. */
const UNLIMITED: Admission = { ok: true, lease: FREE_LEASE };

/** Bounds the cost of dropping idle subjects in one admission, even if many subjects were just seeded. */
const SWEEP_STEPS_MAX = 16;

/** `subjectCount` is for memory monitoring: the number of subjects with any state. */
export function openLimiter(clock: Pick<Clock, "monotonicMs">): Limiter & { subjectCount(): number } {
  const states: Record<Scope, Map<string, SubjectState>> = {
    key: new Map(),
    user: new Map(),
    group: new Map(),
    account: new Map(),
  };
  const all: SubjectState[] = [];
  let sweepIndex = 0;
  let openedSinceSweep = 0;
  let latestMs = clock.monotonicMs();

  /** If the clock jumps back, time stands still here until the clock has caught up. Nothing is granted twice. */
  function nowMs(): number {
    const readMs = clock.monotonicMs();
    if (readMs > latestMs) latestMs = readMs;
    return latestMs;
  }

  function findState({ scope, id, limits }: Subject): SubjectState | null {
    const state = states[scope].get(id);
    if (!state) return null;
    if (state.limits !== limits) applyLimits(state, limits);
    return state;
  }

  function getOrOpenState(subject: Subject): SubjectState | null {
    const existing = findState(subject);
    if (isUnlimited(subject.limits)) return null;
    if (existing) return existing;
    const state = openState(subject);
    states[subject.scope].set(subject.id, state);
    all.push(state);
    openedSinceSweep += 1;
    return state;
  }

  /** Checks two subjects for each new one, so that idle subjects do not accumulate. */
  function dropIdle(now: number): void {
    const steps = Math.min(all.length, 1 + 2 * openedSinceSweep, SWEEP_STEPS_MAX);
    openedSinceSweep = 0;
    for (let i = 0; i < steps; i++) {
      if (sweepIndex >= all.length) sweepIndex = 0;
      const state = all[sweepIndex];
      if (!state) return;
      if (!isIdle(state, now)) {
        sweepIndex += 1;
        continue;
      }
      states[state.scope].delete(state.id);
      const last = all.pop();
      if (last && last !== state) all[sweepIndex] = last;
    }
  }

  function takeAll(admitted: readonly SubjectState[], tokens: number, nano: number, now: number): LimitLease {
    const requestMeters: SubjectMeter[] = [];
    const shares: MeterShare[] = [];
    for (const state of admitted) {
      state.inUse += 1;
      touch(state, now);
      for (const meter of state.meters) {
        if (meter.unit === "requests") {
          take(meter, 1, now);
          requestMeters.push(meter);
        } else {
          const amount = meter.unit === "tokens" ? tokens : nano;
          take(meter, amount, now);
          meter.reserved += amount;
          shares.push({ window: meter, atMs: now, amount, goneAmount: 0, reserved: amount });
        }
      }
    }
    return openLease(admitted, requestMeters, shares, now, nowMs);
  }

  return {
    admit(subjects, tokensEstimate, nanoEstimate) {
      const now = nowMs();
      const tokens = countUses("tokens", tokensEstimate);
      const nano = countUses("nano", nanoEstimate);
      dropIdle(now);
      const limited: SubjectState[] = [];
      let shortage: Shortage | null = null;
      for (const subject of subjects) {
        const state = getOrOpenState(subject);
        if (!state || limited.includes(state)) continue;
        limited.push(state);
        shortage = laterShortage(shortage, findShortage(state, tokens, nano, now));
      }
      if (shortage) return { ok: false, shortage };
      return limited.length === 0 ? UNLIMITED : { ok: true, lease: takeAll(limited, tokens, nano, now) };
    },

    raise(lease, subjects, tokensEstimate, nanoEstimate) {
      const now = nowMs();
      const amounts = {
        requests: 0,
        tokens: countUses("tokens", tokensEstimate),
        nano: countUses("nano", nanoEstimate),
      };
      let shortage: Shortage | null = null;
      for (const subject of subjects) {
        const state = findState(subject);
        if (state) shortage = laterShortage(shortage, windowShortageIn(state, amounts, now));
      }
      if (shortage === null) lease.settle(amounts.tokens, amounts.nano);
      return shortage;
    },

    findBlocker(subjects) {
      for (const subject of subjects) {
        const state = findState(subject);
        if (state !== null && hasNoSlot(state)) return state;
      }
      return null;
    },

    shortageOf(subject, tokensEstimate, nanoEstimate) {
      const existing = findState(subject);
      if (!existing && !isClosed(subject.limits)) return null;
      const state = existing ?? openState(subject);
      return findShortage(
        state,
        countUses("tokens", tokensEstimate),
        countUses("nano", nanoEstimate),
        nowMs(),
      );
    },

    windowRest(subjects) {
      const now = nowMs();
      let rest = Number.POSITIVE_INFINITY;
      for (const subject of subjects) {
        for (const meter of getOrOpenState(subject)?.meters ?? []) {
          if (meter.unit !== "nano") continue;
          advance(meter, now);
          rest = Math.min(rest, Math.max(0, meter.max - meter.used));
        }
      }
      return rest;
    },

    standing(subject) {
      return computeStanding(subject, findState(subject), nowMs());
    },

    seed(subject, used) {
      const state = getOrOpenState(subject);
      if (!state) return;
      const now = nowMs();
      for (const meter of state.meters) {
        if (meter.kind !== "window") continue;
        const past = used
          .map((use) => ({
            atMs: now - Math.max(0, use.atAgoMs),
            amount: countUses(meter.unit, use[meter.unit]),
          }))
          .filter(({ atMs, amount }) => amount > 0 && atMs + meter.perMs > now);
        advance(meter, now);
        restore(meter, past);
      }
      touch(state, now);
    },

    subjectCount: () => all.length,
  };
}
