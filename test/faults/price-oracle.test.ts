/** The oracle of the fault suite against sums made by hand. */

import { expect, test } from "bun:test";
import { NO_TOKENS } from "../../src/money/token-counts.ts";
import { usageRow } from "../../src/store/usage/usage-row.test-support.ts";
import { computeCost, PriceOracle } from "./price-oracle.ts";

const PRICE = { input: "2.50", cached_input: "1.25", output: "10.00" };

test("counts times prices, in nano-dollars", () => {
  const counts = { ...NO_TOKENS, inputTokens: 1_000, cachedTokens: 400, outputTokens: 20 };
  // 600 × 2,500 + 400 × 1,250 + 20 × 10,000
  expect(computeCost(PRICE, "1", counts)).toBe(2_200_000n);
});

test("a multiplier is exact, and the sum is rounded up once", () => {
  const price = { input: "0.000001", cached_input: "0", output: "0.15" };
  expect(computeCost(price, "1.3", { ...NO_TOKENS, inputTokens: 1 })).toBe(1n);
  expect(computeCost(price, "1.3", { ...NO_TOKENS, outputTokens: 7 })).toBe(1_365n);
});

test("around a change both prices are right, and later only the new one", () => {
  const oracle = new PriceOracle({ multipliers: new Map([["default", "1"]]), price: PRICE });
  oracle.beginChange({ ...PRICE, output: "20.00" }, 100_000);
  oracle.confirmChange(100_500);
  const names = new Map([["group_1", "default"]]);
  const costAt = (atMs: number) => {
    const requestId = `req_${Bun.randomUUIDv7("hex", atMs - 10)}`;
    const row = usageRow({ requestId, groupId: "group_1", atMs });
    return oracle.costs({ ...row, ...NO_TOKENS, outputTokens: 1 }, names);
  };
  expect(costAt(99_000)).toEqual([10_000n]);
  expect(costAt(101_000)).toEqual([10_000n, 20_000n]);
  expect(costAt(110_000)).toEqual([20_000n]);
});

test("a row has the price of the model and the multiplier of the group that served it, and the fees of its searches", () => {
  const own = { input: "0", cached_input: "0", output: "4.00", per_call: { web_search: "0.002" } };
  const multipliers = new Map([
    ["default", "1.3"],
    ["reserve", "1.7"],
  ]);
  const oracle = new PriceOracle({ multipliers, price: PRICE, ownPrices: { "stand-in": own } });
  const names = new Map([["group_2", "reserve"]]);
  const counts = { ...NO_TOKENS, outputTokens: 10, webSearches: 3 };
  const cost = (publicModel: string) =>
    oracle.costs({ ...usageRow({ groupId: "group_2", publicModel }), ...counts }, names);
  expect(cost("moved")).toEqual([170_000n]);
  // (10 × 4,000 + 3 × 2,000,000) × 1.7
  expect(cost("stand-in")).toEqual([10_268_000n]);
});
