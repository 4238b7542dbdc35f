import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  COOL_DOWN_CAUSES,
  type CoolDownCause,
  coolDown,
  coolDownRules,
  growsWithFailures,
} from "./cool-down.ts";

const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const middle = () => 0.5;

describe("the length of a cool-down", () => {
  test.each<[CoolDownCause]>([["connect"], ["timeout"], ["reset"], ["server"], ["bad_answer"]])(
    "after %s: 5 s, doubled each time, 5 min at most, then a probe",
    (kind) => {
      const lengths = [0, 1, 2, 3, 6, 50, 5_000].map((coolDownsInRow) =>
        coolDown(kind, null, coolDownsInRow, middle),
      );
      expect(lengths.map(({ ms }) => ms)).toEqual([5_000, 10_000, 20_000, 40_000, 300_000, 300_000, 300_000]);
      expect(lengths.every(({ probe }) => probe)).toBe(true);
    },
  );

  test("that grows varies by 20 % and never exceeds its maximum", () => {
    fc.assert(
      fc.property(chance, fc.integer({ min: 0, max: 100 }), (random, coolDownsInRow) => {
        const plainMs = Math.min(1e12, 5_000 * 2 ** coolDownsInRow);
        const { ms } = coolDown("connect", null, coolDownsInRow, () => random);
        expect(ms).toBeGreaterThanOrEqual(Math.min(300_000, plainMs * 0.8));
        expect(ms).toBeLessThanOrEqual(Math.min(300_000, plainMs * 1.2));
      }),
    );
  });

  test("after a short rate limit is the time that the upstream states, without a probe", () => {
    expect(coolDown("rate_limited", 1_500, 9, middle)).toEqual({ ms: 1_500, probe: false });
    expect(coolDown("rate_limited", 60_000, 9, middle)).toEqual({ ms: 60_000, probe: false });
  });

  test("after a short rate limit without a hint is 1 s to 1 min", () => {
    const lengths = [0, 1, 5, 6, 60].map((coolDownsInRow) =>
      coolDown("rate_limited", null, coolDownsInRow, middle),
    );
    expect(lengths.map(({ ms }) => ms)).toEqual([1_000, 2_000, 32_000, 60_000, 60_000]);
    expect(coolDown("rate_limited", 0, 0, middle).ms).toBe(1_000);
  });

  test("after a long rate limit ends at its reset, with a probe at least every 10 min", () => {
    expect(coolDown("rate_limited", 90_000, 0, middle)).toEqual({ ms: 90_000, probe: true });
    expect(coolDown("rate_limited", 5 * 3_600_000, 0, middle)).toEqual({ ms: 600_000, probe: true });
    expect(coolDown("rate_limited", Number.POSITIVE_INFINITY, 0, middle).ms).toBe(600_000);
  });

  test("after an exhausted quota is 10 min, then a probe", () => {
    expect(coolDown("quota", null, 3, middle)).toEqual({ ms: 600_000, probe: true });
  });

  test("after an overload is a random 2 to 10 s, longer if the upstream states so, 1 min at most", () => {
    fc.assert(
      fc.property(chance, fc.integer({ min: 0, max: 50 }), (random, coolDownsInRow) => {
        const { ms } = coolDown("overloaded", null, coolDownsInRow, () => random);
        expect(ms).toBeGreaterThanOrEqual(2_000);
        expect(ms).toBeLessThanOrEqual(10_000);
      }),
    );
    expect(coolDown("overloaded", 30_000, 0, middle).ms).toBe(30_000);
    expect(coolDown("overloaded", 3_600_000, 0, middle).ms).toBe(60_000);
  });

  test("after a missing model is 5 min, and after a rejected credential infinite", () => {
    expect(coolDown("model_missing", null, 0, middle)).toEqual({ ms: 300_000, probe: true });
    expect(coolDown("credential", null, 0, middle).ms).toBe(Number.POSITIVE_INFINITY);
  });

  test("is infinite only for a rejected credential, for any hint of the upstream", () => {
    const hint = fc.option(fc.double({ min: 0, noNaN: true }));
    fc.assert(
      fc.property(
        fc.constantFrom(...COOL_DOWN_CAUSES),
        hint,
        fc.nat(),
        chance,
        (kind, hintMs, coolDownsInRow, random) => {
          const { ms } = coolDown(kind, hintMs, coolDownsInRow, () => random);
          expect(ms).toBeGreaterThan(0);
          if (kind !== "credential") expect(ms).toBeLessThanOrEqual(600_000);
        },
      ),
    );
  });
});

test("connect, credential and quota failures affect the account; all others affect its model", () => {
  expect(COOL_DOWN_CAUSES.filter((kind) => coolDownRules(kind).scope === "account")).toEqual([
    "connect",
    "credential",
    "quota",
  ]);
});

test("attempts in flight extend every cool-down except growing ones", () => {
  expect(COOL_DOWN_CAUSES.filter((kind) => growsWithFailures(kind, 1_000))).toEqual([
    "connect",
    "timeout",
    "reset",
    "server",
    "bad_answer",
  ]);
  expect(growsWithFailures("rate_limited", null)).toBe(true);
});
