/** Tests the measurement itself: work that is too much, grows too fast or holds the event loop is reported. */

import { expect, setDefaultTimeout, test } from "bun:test";
import { SlowTurnLog } from "../slow-turns.ts";
import { type GrowthRun, judgeAll } from "./measure.ts";

setDefaultTimeout(60_000);

const KIB = 1024;

interface Work {
  readonly cpuMs: (kib: number, run: number) => number;
  readonly slowTurnMs?: (run: number) => number;
}

function build({ cpuMs, slowTurnMs = () => 0 }: Work): GrowthRun {
  let runs = 0;
  return {
    name: "work",
    msPerMib: 1_000,
    async send(bytes) {
      const run = runs++;
      return {
        status: 200,
        requestId: null,
        cpuMs: cpuMs(bytes / KIB, run),
        bytes,
        receivedBytes: 0,
        isForwarded: true,
        text: "",
        memory: { before: 0, peak: 0, after: 0 },
        slowTurnMs: () => slowTurnMs(run),
      };
    },
  };
}

const LINEAR = (kib: number) => 1 + kib / 8;

test.each<[string, Work]>([
  ["linear", { cpuMs: LINEAR }],
  ["fast, whatever it grows by", { cpuMs: (kib) => (kib / 64) ** 2 }],
  ["slow once at a half", { cpuMs: (kib, run) => (run === 0 ? 9 : kib === 64 ? 40 : 3) }],
  ["slow only at first", { cpuMs: (kib, run) => (run === 0 ? 1_000 : LINEAR(kib)) }],
  ["in a slow turn only at first", { cpuMs: LINEAR, slowTurnMs: (run) => (run < 3 ? 1_000 : 0) }],
])("work that is %s has no problem", async (name, work) => {
  expect(await judgeAll(`${name} work`, [build(work)])).toEqual([]);
});

/** Far above what a slow machine explains. */
test.each<[string, Work, string]>([
  ["too much for its size", { cpuMs: () => 10_000 }, "10000.0 ms of at most"],
  [
    "quadratic",
    { cpuMs: (kib) => (kib / 12) ** 2 },
    "7.1 ms, 28.4 ms, 113.8 ms, at a quarter, a half and the whole,",
  ],
  ["quadratic below a half", { cpuMs: (kib) => (kib <= 32 ? 10 : 100) }, "10.0 ms, 100.0 ms, 100.0 ms"],
  ["quadratic above a half", { cpuMs: (kib) => (kib <= 64 ? 30 : 120) }, "30.0 ms, 30.0 ms, 120.0 ms"],
  [
    "always in a slow turn",
    { cpuMs: LINEAR, slowTurnMs: () => 5_000 },
    "a turn of the event loop of 5000 ms",
  ],
])("work that is %s is reported", async (name, work, problem) => {
  const problems = await judgeAll(`${name} work`, [build(work)]);
  expect(problems).toHaveLength(1);
  expect(problems[0]).toContain(problem);
});

test("a slow turn belongs to the request that it names, or to the one at that time", () => {
  const line = (second: number, cpu_ms: number, request_id: string | null) =>
    `${JSON.stringify({
      time: `2026-01-01T00:00:0${second}.000Z`,
      level: "warn",
      event: "slow_turn",
      cpu_ms,
      endpoint: null,
      request_id,
    })}\n`;
  let output = `ready\n${line(1, 60, "req_a")}`;
  const log = new SlowTurnLog(() => output);
  const startMs = Date.parse("2026-01-01T00:00:00.000Z");
  const request = (requestId: string, second: number) => ({
    requestId,
    startedAtMs: startMs + second * 1_000,
    endedAtMs: startMs + (second + 1) * 1_000,
  });
  expect(log.findLongestMs(request("req_a", 0))).toBe(60);
  expect(log.findLongestMs(request("req_b", 1))).toBe(0);
  output += line(2, 80, null) + line(2, 70, "req_a") + line(3, 90, "req_c").slice(0, -1);
  expect(log.findLongestMs(request("req_a", 0))).toBe(70);
  expect(log.findLongestMs(request("req_b", 2))).toBe(80);
  expect(log.findLongestMs(request("req_c", 4))).toBe(0);
  output += "\n";
  expect(log.findLongestMs(request("req_c", 4))).toBe(90);
});
