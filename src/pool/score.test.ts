import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  computeScore,
  computeScoreCost,
  isLighter,
  newGauge,
  noteFailure,
  noteHeadroom,
  noteSuccess,
} from "./score.ts";

describe("the cost of an account", () => {
  test("is 1 while nothing is known", () => {
    expect(computeScoreCost(newGauge(), 0, 5_000)).toBe(1);
    expect(computeScoreCost(newGauge(), 200, 5_000)).toBe(1);
  });

  test("is its latency relative to the typical latency", () => {
    const slow = newGauge();
    noteSuccess(slow, 1_000, 5_000);
    expect(computeScoreCost(slow, 100, 5_000)).toBe(10);
    expect(computeScoreCost(slow, 1_000, 5_000)).toBe(1);
  });

  test("follows the latency within some tens of responses", () => {
    const gauge = newGauge();
    noteSuccess(gauge, 1_000, 0);
    for (let i = 1; i <= 80; i++) noteSuccess(gauge, 100, i * 10);
    expect(gauge.latencyMs).toBeGreaterThan(100);
    expect(gauge.latencyMs).toBeLessThan(120);
  });

  test("follows the latency at once after a long idle time", () => {
    const gauge = newGauge();
    noteSuccess(gauge, 1_000, 0);
    noteSuccess(gauge, 100, 3_600_000);
    expect(gauge.latencyMs).toBeLessThan(120);
  });

  test("decays without traffic, so that a slow or failing account is tried again", () => {
    const gauge = newGauge();
    noteSuccess(gauge, 1_000, 0);
    noteFailure(gauge, 0);
    const costs = [0, 300_000, 3_000_000, 30_000_000].map((nowMs) => computeScoreCost(gauge, 100, nowMs));
    expect(costs).toEqual(costs.toSorted((a, b) => b - a));
    expect(costs.at(-1)).toBeLessThan(1.2);
  });

  test("rises with failures, at most to double, and falls with successes", () => {
    const gauge = newGauge();
    noteSuccess(gauge, 100, 0);
    for (let i = 0; i < 100; i++) noteFailure(gauge, i);
    expect(computeScoreCost(gauge, 100, 100)).toBeGreaterThan(1.9);
    expect(computeScoreCost(gauge, 100, 100)).toBeLessThanOrEqual(2);
    for (let i = 0; i < 100; i++) noteSuccess(gauge, 100, 100 + i);
    expect(computeScoreCost(gauge, 100, 200)).toBeLessThan(1.02);
  });
});

describe("the headroom of an upstream", () => {
  const costWith = (remaining: number, nowMs = 0) => {
    const gauge = newGauge();
    noteHeadroom(gauge, { remaining, resetMs: 10_000 }, 0);
    return computeScoreCost(gauge, 0, nowMs);
  };

  test("costs nothing above a tenth, and more and more below", () => {
    expect([1, 0.5, 0.1].map((left) => costWith(left))).toEqual([1, 1, 1]);
    expect(costWith(0.05)).toBeCloseTo(2);
    expect(costWith(0.01)).toBeCloseTo(10);
  });

  test("is full again after its reset", () => {
    expect(costWith(0.01, 10_000)).toBe(1);
  });

  test("is exhausted until its reset, a minute at most, even if older responses differ", () => {
    const gauge = newGauge();
    noteHeadroom(gauge, { remaining: 0, resetMs: 5_000 }, 0);
    noteHeadroom(gauge, { remaining: 0.3, resetMs: 5_000 }, 1);
    expect(gauge.exhaustedUntilMs).toBe(5_000);
    noteHeadroom(gauge, { remaining: 0, resetMs: 3_600_000 }, 2);
    expect(gauge.exhaustedUntilMs).toBe(60_002);
  });
});

test("a score is load divided by weight, times the cost", () => {
  expect(computeScore(0, 1, 1)).toBe(1);
  expect(computeScore(3, 2, 10)).toBe(20);
});

describe("the less loaded of two accounts", () => {
  test("of equal weight is the one with fewer requests, or the first on a tie", () => {
    const load = fc.nat({ max: 50 });
    fc.assert(
      fc.property(load, load, (a, b) => {
        const lighter = isLighter({ inFlight: b, weight: 3 }, { inFlight: a, weight: 3 });
        expect(lighter).toBe(b < a);
      }),
    );
  });

  test("is never each of the two", () => {
    const load = fc.record({ inFlight: fc.nat({ max: 50 }), weight: fc.integer({ min: 1, max: 1_000 }) });
    fc.assert(
      fc.property(load, load, (a, b) => {
        expect(isLighter(a, b) && isLighter(b, a)).toBe(false);
      }),
    );
  });
});
