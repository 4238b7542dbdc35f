/**
 * The limits of keys, users, groups and accounts, held in memory, by one rule for all.
 *
 * Each limit over time is a sliding window (`sliding-window.ts`): a ring of what was used and when. A request is
 * admitted if it fits every window and every concurrency of every subject at this moment, and only then is
 * anything counted: there is no step between looking and taking, so nothing is ever overdrawn or half taken. A
 * minute is exact; 5 hours to 30 days are counted in 480 steps, each kept until all of it is too old. Tokens and
 * money are reserved by estimate and settled to the truth at the moment of admission; once that has left the window,
 * what exceeds the estimate counts from the settling. Leases own what was taken and give it back once. There are no
 * timers: windows move when they are looked at, and each admission looks at a few other subjects and forgets the
 * idle ones.
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

/** The admission of a request that nothing limits. */
const FREE: Admission = { ok: true, lease: FREE_LEASE };

/** Bounds what one admission pays for forgetting others, however many subjects were just seeded. */
const SWEEP_STEPS_MAX = 16;

/** `subjectCount` is for watching memory: how many subjects have anything remembered. */
export function openLimiter(clock: Pick<Clock, "monotonicMs">): Limiter & { subjectCount(): number } {
  const states: Record<Scope, Map<string, SubjectState>> = {
    key: new Map(),
    user: new Map(),
    group: new Map(),
    account: new Map(),
  };
  const all: SubjectState[] = [];
  let hand = 0;
  let openedSinceSweep = 0;
  let seenMs = clock.monotonicMs();

  /** A clock that jumps back stands still here until it has caught up: nothing is granted twice. */
  function nowMs(): number {
    const readMs = clock.monotonicMs();
    if (readMs > seenMs) seenMs = readMs;
    return seenMs;
  }

  function knownState({ scope, id, limits }: Subject): SubjectState | null {
    const state = states[scope].get(id);
    if (!state) return null;
    if (state.limits !== limits) applyLimits(state, limits);
    return state;
  }

  function stateOf(subject: Subject): SubjectState | null {
    const known = knownState(subject);
    if (isUnlimited(subject.limits)) return null;
    if (known) return known;
    const state = openState(subject);
    states[subject.scope].set(subject.id, state);
    all.push(state);
    openedSinceSweep += 1;
    return state;
  }

  /** Looks at two subjects for each new one, so that idle ones never outnumber the others for long. */
  function forgetIdle(now: number): void {
    const steps = Math.min(all.length, 1 + 2 * openedSinceSweep, SWEEP_STEPS_MAX);
    openedSinceSweep = 0;
    for (let i = 0; i < steps; i++) {
      if (hand >= all.length) hand = 0;
      const state = all[hand];
      if (!state) return;
      if (!isIdle(state, now)) {
        hand += 1;
        continue;
      }
      states[state.scope].delete(state.id);
      const last = all.pop();
      if (last && last !== state) all[hand] = last;
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
      forgetIdle(now);
      const limited: SubjectState[] = [];
      let shortage: Shortage | null = null;
      for (const subject of subjects) {
        const state = stateOf(subject);
        if (!state || limited.includes(state)) continue;
        limited.push(state);
        shortage = laterShortage(shortage, findShortage(state, tokens, nano, now));
      }
      if (shortage) return { ok: false, shortage };
      return limited.length === 0 ? FREE : { ok: true, lease: takeAll(limited, tokens, nano, now) };
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
        const state = knownState(subject);
        if (state) shortage = laterShortage(shortage, windowShortageIn(state, amounts, now));
      }
      if (shortage === null) lease.settle(amounts.tokens, amounts.nano);
      return shortage;
    },

    findBlocker(subjects) {
      for (const subject of subjects) {
        const state = knownState(subject);
        if (state !== null && hasNoSlot(state)) return state;
      }
      return null;
    },

    shortageOf(subject, tokensEstimate, nanoEstimate) {
      const known = knownState(subject);
      if (!known && !isClosed(subject.limits)) return null;
      const state = known ?? openState(subject);
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
        for (const meter of stateOf(subject)?.meters ?? []) {
          if (meter.unit !== "nano") continue;
          advance(meter, now);
          rest = Math.min(rest, Math.max(0, meter.max - meter.used));
        }
      }
      return rest;
    },

    standing(subject) {
      return computeStanding(subject, knownState(subject), nowMs());
    },

    seed(subject, used) {
      const state = stateOf(subject);
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
