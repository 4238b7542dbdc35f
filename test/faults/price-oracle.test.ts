/** The oracle of the fault suite against sums made by hand. */

import { expect, test } from "bun:test";
import { usageRow } from "../../src/store/usage/usage-row.test-support.ts";
import { computeCost, PriceOracle } from "./price-oracle.ts";

const PRICE = { input: "2.50", cached_input: "1.25", output: "10.00" };

test("counts times prices, in nano-dollars", () => {
  const counts = { inputTokens: 1_000, cachedTokens: 400, outputTokens: 20 };
  // 600 × 2,500 + 400 × 1,250 + 20 × 10,000
  expect(computeCost(PRICE, "1", counts)).toBe(2_200_000n);
});

test("a multiplier is exact, and the sum is rounded up once", () => {
  const price = { input: "0.000001", cached_input: "0", output: "0.15" };
  expect(computeCost(price, "1.3", { inputTokens: 1, cachedTokens: 0, outputTokens: 0 })).toBe(1n);
  expect(computeCost(price, "1.3", { inputTokens: 0, cachedTokens: 0, outputTokens: 7 })).toBe(1_365n);
});

test("around a change both prices are right, and later only the new one", () => {
  const oracle = new PriceOracle(new Map([["default", "1"]]), PRICE);
  oracle.beginChange({ ...PRICE, output: "20.00" }, 100_000);
  oracle.confirmChange(100_500);
  const names = new Map([["group_1", "default"]]);
  const costAt = (atMs: number) => {
    const row = usageRow({ requestId: "r1", groupId: "group_1", atMs, durationMs: 10 });
    return oracle.costs({ ...row, inputTokens: 0, cachedTokens: 0, outputTokens: 1 }, names);
  };
  expect(costAt(99_000)).toEqual([10_000n]);
  expect(costAt(101_000)).toEqual([10_000n, 20_000n]);
  expect(costAt(110_000)).toEqual([20_000n]);
});
