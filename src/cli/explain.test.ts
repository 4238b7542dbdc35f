import { expect, test } from "bun:test";
import { NO_LIMITS } from "../records/limits.ts";
import { limitTexts } from "./explain.ts";

test("limits are listed one by one, with money in dollars", () => {
  const of = (used: number, limit: number) => ({ used, limit, remaining: limit - used, resetMs: 1 });
  expect(
    limitTexts({
      ...NO_LIMITS,
      concurrency: { limit: 4, inUse: 1 },
      rpm: of(2, 60),
      windows: [
        { perMs: 5 * 3_600_000, requests: of(3, 10), tokens: null, nano: of(1_234_500_000, 5_000_000_000) },
        { perMs: 24 * 3_600_000, requests: null, tokens: of(7, 9), nano: null },
      ],
    }),
  ).toEqual([
    "1 of 4 concurrent requests",
    "2 of 60 requests in the last minute",
    "3 of 10 requests in 5 h",
    "$1.2345 of $5.00 in 5 h",
    "7 of 9 tokens in 24 h",
  ]);
});
