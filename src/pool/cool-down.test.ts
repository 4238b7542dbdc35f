import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { COOL_DOWN_CAUSES, type CoolDownCause, coolDown, coolDownRules, grows } from "./cool-down.ts";

const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const middle = () => 0.5;

describe("how long an account is left alone", () => {
  test.each<[CoolDownCause]>([["connect"], ["timeout"], ["reset"], ["server"], ["bad_answer"]])(
    "after %s: 5 s, twice as long each time, 5 min at most, then a probe",
    (kind) => {
      const lengths = [0, 1, 2, 3, 6, 50, 5_000].map((ejections) => coolDown(kind, null, ejections, middle));
      expect(lengths.map(({ ms }) => ms)).toEqual([5_000, 10_000, 20_000, 40_000, 300_000, 300_000, 300_000]);
      expect(lengths.every(({ probe }) => probe)).toBe(true);
    },
  );

  test("a growing time varies by a fifth either way, and never exceeds its cap", () => {
    fc.assert(
      fc.property(chance, fc.integer({ min: 0, max: 100 }), (random, ejections) => {
        const plainMs = Math.min(1e12, 5_000 * 2 ** ejections);
        const { ms } = coolDown("connect", null, ejections, () => random);
        expect(ms).toBeGreaterThanOrEqual(Math.min(300_000, plainMs * 0.8));
        expect(ms).toBeLessThanOrEqual(Math.min(300_000, plainMs * 1.2));
      }),
    );
  });

  test("a burst: as long as the upstream says, without a probe", () => {
    expect(coolDown("rate_limited", 1_500, 9, middle)).toEqual({ ms: 1_500, probe: false });
    expect(coolDown("rate_limited", 60_000, 9, middle)).toEqual({ ms: 60_000, probe: false });
  });

  test("a burst without a hint: from 1 s to 1 min", () => {
    const lengths = [0, 1, 5, 6, 60].map((ejections) => coolDown("rate_limited", null, ejections, middle));
    expect(lengths.map(({ ms }) => ms)).toEqual([1_000, 2_000, 32_000, 60_000, 60_000]);
    expect(coolDown("rate_limited", 0, 0, middle).ms).toBe(1_000);
  });

  test("a window: until then, with a look at least every 10 min", () => {
    expect(coolDown("rate_limited", 90_000, 0, middle)).toEqual({ ms: 90_000, probe: true });
    expect(coolDown("rate_limited", 5 * 3_600_000, 0, middle)).toEqual({ ms: 600_000, probe: true });
    expect(coolDown("rate_limited", Number.POSITIVE_INFINITY, 0, middle).ms).toBe(600_000);
  });

  test("a used-up quota: 10 min, then a probe", () => {
    expect(coolDown("quota", null, 3, middle)).toEqual({ ms: 600_000, probe: true });
  });

  test("an overload: 2 to 10 s by chance, longer if the upstream asks, 1 min at most", () => {
    fc.assert(
      fc.property(chance, fc.integer({ min: 0, max: 50 }), (random, ejections) => {
        const { ms } = coolDown("overloaded", null, ejections, () => random);
        expect(ms).toBeGreaterThanOrEqual(2_000);
        expect(ms).toBeLessThanOrEqual(10_000);
      }),
    );
    expect(coolDown("overloaded", 30_000, 0, middle).ms).toBe(30_000);
    expect(coolDown("overloaded", 3_600_000, 0, middle).ms).toBe(60_000);
  });

  test("a missing model: 5 min; a refused credential: for ever", () => {
    expect(coolDown("model_missing", null, 0, middle)).toEqual({ ms: 300_000, probe: true });
    expect(coolDown("credential", null, 0, middle).ms).toBe(Number.POSITIVE_INFINITY);
  });

  test("no failure but a refused credential is for ever, whatever the upstream says", () => {
    const hint = fc.option(fc.double({ min: 0, noNaN: true }));
    fc.assert(
      fc.property(
        fc.constantFrom(...COOL_DOWN_CAUSES),
        hint,
        fc.nat(),
        chance,
        (kind, hintMs, ejections, random) => {
          const { ms } = coolDown(kind, hintMs, ejections, () => random);
          expect(ms).toBeGreaterThan(0);
          if (kind !== "credential") expect(ms).toBeLessThanOrEqual(600_000);
        },
      ),
    );
  });
});

test("connections, credentials and quotas are the account's; all else is the model's on it", () => {
  expect(COOL_DOWN_CAUSES.filter((kind) => coolDownRules(kind).breadth === "account")).toEqual([
    "connect",
    "credential",
    "quota",
  ]);
});

test("attempts that were under way lengthen every cool-down but those that grow", () => {
  expect(COOL_DOWN_CAUSES.filter((kind) => grows(kind, 1_000))).toEqual([
    "connect",
    "timeout",
    "reset",
    "server",
    "bad_answer",
  ]);
  expect(grows("rate_limited", null)).toBe(true);
});
