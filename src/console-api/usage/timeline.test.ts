import { expect, test } from "bun:test";
import { usageRow } from "../../store/usage/usage-row.test-support.ts";
import { type Attempt, buildTimeline, readAttempts, readTrace } from "./timeline.ts";

const attempt = (change: Partial<Attempt>): Attempt => ({
  number: 1,
  accountId: "a1",
  accountName: "first",
  upstreamModel: "m",
  startedMs: 0,
  firstByteMs: null,
  endedMs: null,
  status: null,
  failure: null,
  reason: null,
  ...change,
});

test("a successful request has checks, one attempt and its response", () => {
  const row = usageRow({ accountId: "a1", firstByteMs: 40, durationMs: 100 });
  const attempts = readAttempts(row, readTrace(row));
  expect(buildTimeline(row, attempts)).toEqual([
    { kind: "checks", fromMs: 0, toMs: 0 },
    { kind: "attempt", number: 1, status: 200, failure: null, fromMs: 0, toMs: 40 },
    { kind: "response", fromMs: 40, toMs: 100 },
  ]);
});

test("a wait comes before the attempt it ended with, and a failed attempt before the next", () => {
  const steps = buildTimeline({ durationMs: 900, waitMs: 250 }, [
    attempt({ startedMs: 60, endedMs: 200, status: 429, failure: "rate_limited" }),
    attempt({ number: 2, startedMs: 400, firstByteMs: 700, status: 200 }),
  ]);
  expect(steps).toEqual([
    { kind: "checks", fromMs: 0, toMs: 10 },
    { kind: "wait", fromMs: 10, toMs: 60 },
    { kind: "attempt", number: 1, status: 429, failure: "rate_limited", fromMs: 60, toMs: 200 },
    { kind: "wait", fromMs: 200, toMs: 400 },
    { kind: "attempt", number: 2, status: 200, failure: null, fromMs: 400, toMs: 700 },
    { kind: "response", fromMs: 700, toMs: 900 },
  ]);
});

test("a request rejected while waiting ends with the wait", () => {
  expect(buildTimeline({ durationMs: 520, waitMs: 500 }, [])).toEqual([
    { kind: "checks", fromMs: 0, toMs: 20 },
    { kind: "wait", fromMs: 20, toMs: 520 },
  ]);
});

test("a request rejected at once has its checks only", () => {
  expect(buildTimeline({ durationMs: 3, waitMs: 0 }, [])).toEqual([{ kind: "checks", fromMs: 0, toMs: 3 }]);
});

test("the steps of any trace are consecutive and end within the request", () => {
  const row = usageRow({
    durationMs: 400,
    waitMs: 30,
    trace: JSON.stringify({
      waitedMs: 30,
      candidates: [],
      attempts: [
        attempt({ startedMs: 50, endedMs: 80, failure: "timeout" }),
        attempt({ startedMs: 80, endedMs: 200, failure: "server" }),
      ],
    }),
  });
  const steps = buildTimeline(row, readAttempts(row, readTrace(row)));
  for (const [i, step] of steps.entries()) {
    expect(step.fromMs).toBeLessThanOrEqual(step.toMs);
    expect(step.fromMs).toBeGreaterThanOrEqual(steps[i - 1]?.toMs ?? 0);
  }
  expect(steps.at(-1)?.toMs).toBeLessThanOrEqual(400);
});
