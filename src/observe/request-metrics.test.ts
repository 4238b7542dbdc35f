import { expect, test } from "bun:test";
import fc from "fast-check";
import { HistogramCounts } from "./histogram.ts";
import { type MeasuredRequest, RequestMetrics } from "./request-metrics.ts";

const REQUEST: MeasuredRequest = {
  model: "fast",
  group: "staff",
  durationMs: 2_200,
  waitMs: 0,
  firstContentMs: 200,
  outputTokens: 100,
  limit: null,
  attempts: [{ accountId: "acc_1", startedMs: 0, endedMs: null, failure: null }],
  isSocketTurn: false,
  fallback: null,
};

const sums = (histogram: RequestMetrics["firstToken"]) =>
  Object.fromEntries([...histogram.entries()].map(([label, { sum }]) => [label, sum]));

test("a streamed request adds its first token, its speed and its attempt", () => {
  const metrics = new RequestMetrics();
  metrics.add(REQUEST);
  expect(sums(metrics.firstToken)).toEqual({ fast: 0.2 });
  expect(sums(metrics.outputSpeed)).toEqual({ fast: 50 });
  expect(sums(metrics.upstream)).toEqual({ acc_1: 2.2 });
  expect(metrics.attempts.list()).toEqual([["acc_1", "ok", 1]]);
  expect(sums(metrics.queueWait)).toEqual({});
});

test("a whole response, or a few tokens, have no speed", () => {
  const metrics = new RequestMetrics();
  metrics.add({ ...REQUEST, firstContentMs: null });
  metrics.add({ ...REQUEST, outputTokens: 3 });
  expect(sums(metrics.outputSpeed)).toEqual({});
  expect(sums(metrics.firstToken)).toEqual({ fast: 0.2 });
});

test("failed attempts count by class, and as failovers if another attempt followed", () => {
  const metrics = new RequestMetrics();
  const failed = { accountId: "acc_1", startedMs: 0, endedMs: 100, failure: "server" };
  metrics.add({ ...REQUEST, attempts: [failed, { ...failed, accountId: "acc_2", failure: "timeout" }] });
  expect(metrics.attempts.list()).toEqual([
    ["acc_1", "server", 1],
    ["acc_2", "timeout", 1],
  ]);
  expect(metrics.failovers.list()).toEqual([["fast", "server", 1]]);
});

test("a limit counts by scope and kind, and the queue of the group", () => {
  const metrics = new RequestMetrics();
  metrics.add({ ...REQUEST, attempts: [], limit: { scope: "key", kind: "rpm" } });
  metrics.add({ ...REQUEST, waitMs: 500, limit: { scope: "account", kind: "concurrency", isQueue: true } });
  expect(metrics.limitRejections.list()).toEqual([
    ["key", "rpm", 1],
    ["account", "concurrency", 1],
  ]);
  expect([...metrics.queueRejections]).toEqual([["staff", 1]]);
  expect(sums(metrics.queueWait)).toEqual({ staff: 0.5 });
});

test("every value of a histogram is in exactly one bucket, the first whose bound it does not exceed", () => {
  fc.assert(
    fc.property(fc.array(fc.double({ min: 0, max: 20, noNaN: true })), (values) => {
      const bounds = [1, 5, 10];
      const histogram = new HistogramCounts(bounds);
      for (const value of values) histogram.add(value);
      const cumulative = bounds.map((bound) => values.filter((value) => value <= bound).length);
      expect(histogram.counts.slice(0, 3).map((_, i) => sumTo(histogram.counts, i))).toEqual(cumulative);
      expect(sumTo(histogram.counts, 3)).toBe(values.length);
    }),
  );
});

function sumTo(counts: readonly number[], last: number): number {
  return counts.slice(0, last + 1).reduce((sum, count) => sum + count, 0);
}
