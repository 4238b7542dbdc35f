import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { ReasoningEstimates, type ReasoningSubject } from "./reasoning-estimate.ts";

const STREAM: ReasoningSubject = { upstreamModel: "up", effort: null, stream: true };
const WHOLE: ReasoningSubject = { ...STREAM, stream: false };

function taught(subject: ReasoningSubject, ...responses: number[]): ReasoningEstimates {
  const estimates = new ReasoningEstimates();
  for (const tokens of responses) estimates.learn(subject, tokens);
  return estimates;
}

describe("a model with learned reasoning", () => {
  test("is estimated 25 % high after one response, and closely after several similar ones", () => {
    expect(taught(STREAM, 1_000).estimate(STREAM, 0, false)).toBe(1_250);
    const many = taught(STREAM, ...Array<number>(20).fill(1_000));
    expect(many.estimate(STREAM, 0, false)).toBeLessThan(1_010);
  });

  test("that never reasons is estimated at zero, even if the request enables reasoning", () => {
    expect(taught(STREAM, 0, 0, 0).estimate(STREAM, 0, true)).toBe(0);
  });

  test("is estimated above its mean if its responses vary, because clients choose when to leave", () => {
    const estimate = taught(STREAM, ...Array(50).fill([100, 1_900]).flat()).estimate(STREAM, 0, false);
    expect(estimate).toBeGreaterThan(1_500);
    expect(estimate).toBeLessThan(2_300);
  });

  test("is estimated per effort, with all unknown efforts together", () => {
    const estimates = taught({ ...STREAM, effort: "high" }, 9_000);
    estimates.learn({ ...STREAM, effort: "low" }, 100);
    expect(estimates.estimate({ ...STREAM, effort: "low" }, 0, false)).toBe(125);
    estimates.learn({ ...STREAM, effort: "constructor" }, 40);
    expect(estimates.estimate({ ...STREAM, effort: "whatever" }, 0, false)).toBe(50);
  });

  test("ignores invalid counts", () => {
    const estimates = taught(STREAM, Number.NaN, -1, Number.POSITIVE_INFINITY, 1e12);
    expect(estimates.estimate(STREAM, 0, false)).toBe(0);
  });
});

describe("a model with learned reasoning of the other response kind", () => {
  test("is estimated without the reasoning that the client has received", () => {
    expect(taught(WHOLE, 1_000).estimate(STREAM, 400, false)).toBe(850);
    expect(taught(WHOLE, 1_000).estimate(STREAM, 5_000, false)).toBe(0);
  });
});

describe("a model without learned reasoning", () => {
  const none = new ReasoningEstimates();
  test.each([
    [null, false, 0],
    [null, true, 2_048],
    ["none", true, 0],
    ["low", false, 512],
    ["high", false, 8_192],
    ["something new", false, 2_048],
  ])("effort %p, known to reason %p: estimates %p tokens", (effort, reasons, tokens) => {
    expect(none.estimate({ ...STREAM, effort }, 0, reasons)).toBe(tokens);
    expect(none.estimate({ ...STREAM, effort }, 300, reasons)).toBe(Math.max(0, tokens - 300));
  });
});

test("the estimates of the least recently used model are evicted", () => {
  const estimates = taught(STREAM, 1_000);
  for (let i = 0; i < 1_999; i++) estimates.learn({ ...STREAM, upstreamModel: `m${i}` }, 10);
  expect(estimates.estimate(STREAM, 0, false)).toBe(1_250);
  estimates.learn({ ...STREAM, upstreamModel: "another" }, 10);
  expect(estimates.estimate(STREAM, 0, false)).toBe(0);
});

test("an estimate is between the minimum and twice the maximum of the learned counts", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(100_000), { minLength: 1, maxLength: 50 }), (responses) => {
      const estimate = taught(STREAM, ...responses).estimate(STREAM, 0, false);
      expect(estimate).toBeGreaterThanOrEqual(Math.min(...responses));
      expect(estimate).toBeLessThanOrEqual(2 * Math.max(...responses) + 1);
    }),
  );
});
