/** Compares the limiter with a reference that keeps a list of everything and counts again each time. */

import { expect, test } from "bun:test";
import fc from "fast-check";
import { mapKinds } from "../base/map-kinds.ts";
import {
  type CallerLimits,
  NO_LIMITS,
  RATE_KINDS,
  type WindowLimit,
  type WindowUnit,
} from "../records/limits.ts";
import { openLimiter } from "./limiter.ts";
import type { LimitLease, Scope, Shortage, Subject } from "./limiter-types.ts";

const MINUTE_MS = 60_000;
/** So short that its steps are finer than any time that passes here, which makes it exact too. */
const WINDOW_MS = 110;
const SCOPES: readonly Scope[] = ["key", "user", "group", "account"];
const UNITS: readonly WindowUnit[] = ["requests", "tokens", "nano"];
const SPANS_MS: Readonly<Record<WindowUnit, number>> = {
  requests: MINUTE_MS,
  tokens: MINUTE_MS,
  nano: WINDOW_MS,
};

function maxIn(limits: CallerLimits, unit: WindowUnit): number | null {
  if (unit === "nano") return limits.windows[0]?.nano ?? null;
  return unit === "requests" ? limits.rpm : limits.tpm;
}

/** The use of one unit of one subject by one lease; `era` identifies which instance of the limit it belongs to. */
interface Use {
  scope: Scope;
  unit: WindowUnit;
  era: number;
  parts: { atMs: number; amount: number }[];
}

interface ModelLease {
  real: LimitLease;
  held: boolean;
  limited: Scope[];
  uses: Use[];
}

function openModel() {
  const limits: Record<Scope, CallerLimits> = {
    key: NO_LIMITS,
    user: NO_LIMITS,
    group: NO_LIMITS,
    account: NO_LIMITS,
  };
  const eras = new Map<string, number>();
  const leases: ModelLease[] = [];
  let nowMs = 0;

  const findMax = (scope: Scope, unit: WindowUnit) => maxIn(limits[scope], unit);
  const readEra = (scope: Scope, unit: WindowUnit) => eras.get(scope + unit) ?? 0;

  function used(scope: Scope, unit: WindowUnit, atMs: number): number {
    return leases
      .flatMap(({ uses }) => uses)
      .filter((use) => use.scope === scope && use.unit === unit && use.era === readEra(scope, unit))
      .flatMap(({ parts }) => parts)
      .reduce((sum, part) => (part.atMs + SPANS_MS[unit] > atMs ? sum + part.amount : sum), 0);
  }

  function inUse(scope: Scope): number {
    return leases.filter((lease) => lease.held && lease.limited.includes(scope)).length;
  }

  /** Tries every time at which anything leaves. */
  function waitFor(scope: Scope, unit: WindowUnit, amount: number): number {
    const max = findMax(scope, unit);
    if (max === null) return 0;
    if (max === 0) return Number.POSITIVE_INFINITY;
    const moments = leases
      .flatMap(({ uses }) => uses.flatMap(({ parts }) => parts))
      .map(({ atMs }) => atMs + SPANS_MS[unit])
      .filter((atMs) => atMs > nowMs)
      .sort((a, b) => a - b);
    const fits = [nowMs, ...moments].find((atMs) => {
      const sum = used(scope, unit, atMs);
      return sum === 0 || sum + amount <= max;
    });
    return (fits ?? Number.NaN) - nowMs;
  }

  return {
    limits,
    leases,
    used,
    inUse,
    findMax,
    now: () => nowMs,
    see: (atMs: number) => {
      nowMs = Math.max(nowMs, atMs);
    },
    setLimits(scope: Scope, next: CallerLimits): void {
      for (const unit of UNITS) {
        const before = findMax(scope, unit);
        if (before !== null && maxIn(next, unit) === null) eras.set(scope + unit, readEra(scope, unit) + 1);
      }
      limits[scope] = next;
    },
    isLimited: (scope: Scope) =>
      limits[scope].concurrency !== null || UNITS.some((unit) => findMax(scope, unit) !== null),
    /** The longest wait of all; 0 with `full` if only a release can help. */
    verdict(scopes: readonly Scope[], tokens: number, nano: number): { waitMs: number; full: boolean } {
      const waits = scopes.flatMap((scope) => [
        waitFor(scope, "requests", 1),
        waitFor(scope, "tokens", tokens),
        waitFor(scope, "nano", nano),
      ]);
      const full = scopes.some(
        (scope) => inUse(scope) >= (limits[scope].concurrency ?? Number.POSITIVE_INFINITY),
      );
      return { waitMs: Math.max(0, ...waits), full };
    },
    admitted(real: LimitLease, scopes: readonly Scope[], tokens: number, nano: number): void {
      const amounts: Record<WindowUnit, number> = { requests: 1, tokens, nano };
      const uses = scopes.flatMap((scope) =>
        UNITS.filter((unit) => findMax(scope, unit) !== null).map((unit) => ({
          scope,
          unit,
          era: readEra(scope, unit),
          parts: [{ atMs: nowMs, amount: amounts[unit] }],
        })),
      );
      leases.push({ real, held: true, limited: [...scopes], uses });
    },
    settled(lease: ModelLease, truth: { tokens: number | null; nano: number | null }): void {
      for (const { parts, unit } of lease.uses) {
        const amount = unit === "requests" ? null : truth[unit];
        if (amount === null) continue;
        const live = parts.find((part) => part.amount > 0 && part.atMs + SPANS_MS[unit] > nowMs);
        const gone = parts.reduce((sum, part) => (part === live ? sum : sum + part.amount), 0);
        const counted = Math.max(0, amount - gone);
        if (live) live.amount = counted;
        else if (lease.held) parts.push({ atMs: nowMs, amount: counted });
      }
    },
  };
}

const small = (max: number) =>
  fc.oneof(
    { weight: 20, arbitrary: fc.integer({ min: 1, max }) },
    { weight: 8, arbitrary: fc.constant(null) },
    { weight: 1, arbitrary: fc.constant(0) },
  );
const anyLimits = fc.record({
  ...mapKinds(RATE_KINDS, () => fc.constant(null)),
  concurrency: small(8),
  rpm: small(8),
  tpm: small(90),
  windows: small(900).map((nano): WindowLimit[] => [
    { perMs: WINDOW_MS, requests: null, tokens: null, nano },
  ]),
});
const anyTokens = fc.oneof(fc.integer({ min: 0, max: 30 }), fc.integer({ min: 0, max: 120 }));
const anyNano = fc.oneof(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 0, max: 1_200 }));
const orUnknown = (amount: fc.Arbitrary<number>) => fc.option(amount, { freq: 6 });
const anyStep = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("admit" as const),
      scopes: fc.subarray([...SCOPES]),
      tokens: anyTokens,
      nano: anyNano,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("settle" as const),
      which: fc.nat(),
      tokens: orUnknown(anyTokens),
      nano: orUnknown(anyNano),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("release" as const), which: fc.nat() }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("cancel" as const), which: fc.nat() }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("limits" as const),
      scope: fc.constantFrom(...SCOPES),
      limits: anyLimits,
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("time" as const),
      byMs: fc.oneof(
        fc.constantFrom(0.25, 1, 20_000, 30_000, 59_999, 59_999.75, 60_000, 60_000.25, -1, -45_000, -200_000),
        fc.constantFrom(30, 55, 109.75, 110, 110.25),
        fc.integer({ min: 0, max: 40_000 }),
      ),
    }),
  },
);

const addUp = (numbers: readonly number[]) => numbers.reduce((sum, number) => sum + number, 0);

test("any sequence of admissions, settlements, clock jumps and new limits matches a reference", () => {
  const seen = { admitted: 0, refused: 0, rejectedForMoney: 0 };
  fc.assert(
    fc.property(
      fc.array(anyLimits, { minLength: 4, maxLength: 4 }),
      fc.array(anyStep, { maxLength: 100, size: "max" }),
      (start, steps) => {
        const clock = { atMs: 0, monotonicMs: () => clock.atMs };
        const limiter = openLimiter(clock);
        const model = openModel();
        const buildSubject = (scope: Scope): Subject => ({
          scope,
          id: "same id",
          limits: model.limits[scope],
        });
        SCOPES.forEach((scope, i) => {
          model.setLimits(scope, start[i] ?? NO_LIMITS);
        });

        const checkShortage = (
          shortage: Shortage,
          scopes: readonly Scope[],
          tokens: number,
          nano: number,
        ) => {
          const { waitMs, full } = model.verdict(scopes, tokens, nano);
          expect(shortage.kind === "concurrency").toBe(waitMs === 0 && full);
          expect(shortage.freesInMs).toBe(
            waitMs === 0 || waitMs === Number.POSITIVE_INFINITY ? null : waitMs,
          );
        };

        for (const step of steps) {
          model.see(clock.atMs);
          if (step.kind === "time") {
            clock.atMs += step.byMs;
            model.see(clock.atMs);
          } else if (step.kind === "limits") {
            model.setLimits(step.scope, step.limits);
          } else if (step.kind === "admit") {
            const scopes = step.scopes.filter(model.isLimited);
            const { waitMs, full } = model.verdict(scopes, step.tokens, step.nano);
            const admission = limiter.admit(step.scopes.map(buildSubject), {
              tokens: step.tokens,
              nano: step.nano,
            });
            expect(admission.ok).toBe(waitMs === 0 && !full);
            if (admission.ok) model.admitted(admission.lease, scopes, step.tokens, step.nano);
            else checkShortage(admission.shortage, scopes, step.tokens, step.nano);
            seen[admission.ok ? "admitted" : "refused"] += 1;
            if (!admission.ok && admission.shortage.unit === "nano") seen.rejectedForMoney += 1;
          } else {
            const lease = model.leases[step.which % Math.max(1, model.leases.length)];
            if (!lease) continue;
            if (step.kind === "settle") {
              lease.real.settle({ tokens: step.tokens, nano: step.nano });
              model.settled(lease, step);
            } else {
              lease.real[step.kind]();
              if (lease.held && step.kind === "cancel") lease.uses = [];
              lease.held = false;
            }
          }
          for (const scope of SCOPES) {
            const { rpm, tpm, concurrency, windows } = limiter.readStatus(buildSubject(scope));
            const nano = windows[0]?.nano;
            if (rpm) expect(rpm.used).toBe(model.used(scope, "requests", model.now()));
            if (tpm) expect(tpm.used).toBe(model.used(scope, "tokens", model.now()));
            if (nano) expect(nano.used).toBe(model.used(scope, "nano", model.now()));
            if (concurrency) expect(concurrency.inUse).toBe(model.inUse(scope));
            const shortage = limiter.checkShortage(buildSubject(scope), { tokens: 7, nano: 70 });
            const { waitMs, full } = model.verdict([scope], 7, 70);
            expect(shortage === null).toBe(waitMs === 0 && !full);
            if (shortage) checkShortage(shortage, [scope], 7, 70);
          }
        }

        for (const { real } of model.leases) real.release();
        for (const scope of SCOPES)
          expect(limiter.readStatus(buildSubject(scope)).concurrency?.inUse ?? 0).toBe(0);
      },
    ),
    { numRuns: 300 },
  );
  expect(Math.min(seen.admitted, seen.refused)).toBeGreaterThan(1_000);
  expect(seen.rejectedForMoney).toBeGreaterThan(100);
}, 60_000);

test("no 60 seconds ever contain more than the limit", () => {
  const gaps = fc.array(
    fc.record({
      afterMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 9_000 }), fc.constantFrom(59_999, 60_000)),
      tokens: fc.integer({ min: 0, max: 40 }),
      cancelled: fc.boolean(),
    }),
    { maxLength: 150, size: "max" },
  );
  const rpms = fc.integer({ min: 1, max: 8 });
  fc.assert(
    fc.property(gaps, rpms, fc.integer({ min: 40, max: 150 }), (script, rpm, tpm) => {
      const clock = { atMs: 0, monotonicMs: () => clock.atMs };
      const limiter = openLimiter(clock);
      const subject: Subject = { scope: "key", id: "key_1", limits: { ...NO_LIMITS, rpm, tpm } };
      const kept: { atMs: number; tokens: number }[] = [];
      for (const { afterMs, tokens, cancelled } of script) {
        clock.atMs += afterMs;
        const admission = limiter.admit([subject], { tokens });
        if (!admission.ok) continue;
        if (cancelled) admission.lease.cancel();
        else kept.push({ atMs: clock.atMs, tokens });
      }
      for (const { atMs: fromMs } of kept) {
        const minute = kept.filter(({ atMs }) => atMs >= fromMs && atMs < fromMs + MINUTE_MS);
        expect(minute.length).toBeLessThanOrEqual(rpm);
        expect(addUp(minute.map(({ tokens }) => tokens))).toBeLessThanOrEqual(tpm);
      }
    }),
  );
});

test("no 5 hours ever contain more than the limit, and no wait is more than one step too long", () => {
  const perMs = 5 * 3_600_000;
  const stepMs = perMs / 480;
  const gaps = fc.array(fc.integer({ min: 0, max: perMs / 3 }), { maxLength: 120, size: "max" });
  const units = fc.constantFrom(...UNITS);
  fc.assert(
    fc.property(gaps, fc.integer({ min: 1, max: 12 }), units, (script, max, unit) => {
      const clock = { atMs: 0, monotonicMs: () => clock.atMs };
      const limiter = openLimiter(clock);
      const windows = [{ perMs, requests: null, tokens: null, nano: null, [unit]: max }];
      const subject: Subject = { scope: "user", id: "user_1", limits: { ...NO_LIMITS, windows } };
      const kept: number[] = [];
      const within = (spanMs: number) => kept.filter((atMs) => atMs + spanMs > clock.atMs).length;
      for (const afterMs of script) {
        clock.atMs += afterMs;
        const admission = limiter.admit([subject], { tokens: 1, nano: 1 });
        if (admission.ok) kept.push(clock.atMs);
        else expect(within(perMs + stepMs)).toBeGreaterThanOrEqual(max);
        expect(within(perMs)).toBeLessThanOrEqual(max);
      }
    }),
  );
});
