import { afterEach, beforeEach, expect, test } from "bun:test";
import type { LogFields } from "./log.ts";
import { LoopWatch, readThreadCpuMs } from "./loop-watch.ts";

const LIMITS = { turnMs: 20, tickMs: 2, alertSpanMs: 60_000, alertTurns: 3 };

let turns: LogFields[];
let nowMs: () => number;
let watch: LoopWatch;

beforeEach(() => {
  turns = [];
  nowMs = () => performance.now();
  watch = new LoopWatch({
    limits: LIMITS,
    log: {
      info() {},
      error() {},
      warn: (event, fields = {}) => turns.push({ event, ...fields }),
    },
    monotonicMs: () => nowMs(),
    threadCpuMs: readThreadCpuMs,
  });
  watch.start();
});

afterEach(() => watch.stop());

/** Uses CPU time of this thread. */
function work(ms: number): void {
  const untilMs = readThreadCpuMs() + ms;
  while (readThreadCpuMs() < untilMs);
}

const tick = () => Bun.sleep(10);

test("a turn that uses too much CPU time is logged with the endpoint and the request that it worked for", async () => {
  watch.enter("responses", "req_1");
  work(30);
  await tick();
  expect(turns).toEqual([
    { event: "slow_turn", cpu_ms: expect.any(Number), endpoint: "responses", request_id: "req_1" },
  ]);
  // The watch reads the clock of the thread a little after the work began.
  expect(turns[0]?.cpu_ms).toBeGreaterThanOrEqual(28);
  expect(watch.slowTurns).toBe(1);
});

test("a slow turn names the request that took longest, not the last one", async () => {
  watch.enter("responses", "req_1");
  work(30);
  watch.enter("chat.completions", "req_2");
  work(1);
  await tick();
  expect(turns.map(({ request_id }) => request_id)).toEqual(["req_1"]);
});

test("a slow turn that belongs to no known request is logged without one", async () => {
  watch.enter("responses", "req_1");
  await tick();
  work(30);
  await tick();
  expect(turns).toEqual([
    { event: "slow_turn", cpu_ms: expect.any(Number), endpoint: null, request_id: null },
  ]);
});

test("short turns and waiting are not logged", async () => {
  Bun.sleepSync(40);
  await tick();
  for (let count = 0; count < 10; count++) {
    work(4);
    await Bun.sleep(4);
  }
  expect(turns).toEqual([]);
});

test("slow turns are repeated when the span contains as many as open the alert", async () => {
  for (let count = 0; count < 3; count++) {
    expect(watch.countRepeated()).toBe(0);
    work(30);
    await tick();
  }
  expect(watch.countRepeated()).toBe(3);
  nowMs = () => performance.now() + LIMITS.alertSpanMs;
  expect(watch.countRepeated()).toBe(0);
});
