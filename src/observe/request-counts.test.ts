import { expect, test } from "bun:test";
import { DURATION_BOUNDS, type EndedRequest, openRequestCounts } from "./request-counts.ts";

const ENDED: EndedRequest = {
  endpoint: "chat.completions",
  publicModel: "fast",
  accountId: "acc_1",
  outcome: "completed",
  status: 200,
  errorCode: null,
  attempts: 1,
  inputTokens: 10,
  cachedTokens: 4,
  cacheWriteTokens: 0,
  outputTokens: 5,
  reasoningTokens: 2,
  images: 0,
  firstByteMs: 80,
  durationMs: 900,
  costNano: 7n,
  chargedNano: 6n,
  upstreamNano: 5n,
};

test("equal requests are counted together, and different ones separately", () => {
  const counts = openRequestCounts();
  counts.add(ENDED, true);
  counts.add({ ...ENDED, attempts: 3 }, true);
  counts.add({ ...ENDED, status: 502, outcome: "failed", errorCode: "upstream_error" }, true);
  const [good, bad] = counts.series.get("fast") ?? [];
  expect(good).toMatchObject({
    requests: 2,
    retries: 2,
    inputTokens: 20,
    cachedTokens: 8,
    cacheWriteTokens: 0,
    costNano: 14,
  });
  expect(bad).toMatchObject({ requests: 1, status: 502, outcome: "failed" });
  expect(counts.errors.get("chat.completions")).toEqual(new Map([["upstream_error", 1]]));
  expect(counts.accounts.get("acc_1")).toEqual(
    new Map([
      ["completed", 2],
      ["failed", 1],
    ]),
  );
});

test("unpublished model names create no series", () => {
  const counts = openRequestCounts();
  for (let i = 0; i < 100; i++) counts.add({ ...ENDED, publicModel: `invented-${i}` }, false);
  expect([...counts.series.keys()]).toEqual([""]);
  expect(counts.series.get("")?.[0]?.requests).toBe(100);
});

test.each([
  [0, 0],
  [10, 0],
  [11, 1],
  [600_000, DURATION_BOUNDS.length - 1],
  [600_001, DURATION_BOUNDS.length],
])("%p ms are counted in bucket %p", (durationMs, bucket) => {
  const counts = openRequestCounts();
  counts.add({ ...ENDED, durationMs, firstByteMs: null }, true);
  const { whole, firstByte } = counts.times.get("chat.completions") ?? {};
  expect(whole?.counts.indexOf(1)).toBe(bucket);
  expect(whole?.sum).toBeCloseTo(durationMs / 1_000);
  expect(firstByte?.counts.every((count) => count === 0)).toBe(true);
});
