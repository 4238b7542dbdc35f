import { describe, expect, test } from "bun:test";
import {
  decideWait,
  FIRST_PROBE_WAIT_MS_MAX,
  NO_OBSTACLES,
  type Obstacles,
  type SelectionVerdict,
} from "./wait-decision.ts";

const QUEUE_MS = 30_000;

type Row = [name: string, obstacles: Partial<Obstacles>, expected: SelectionVerdict];

/** One account per part: a failing upstream whose first probe is due, and one with a failed probe. */
const failing = (inMs: number): Partial<Obstacles> => ({ failingMs: inMs, firstProbeMs: inMs });
const stillFailing = (inMs: number): Partial<Obstacles> => ({ failingMs: inMs });
const no = (reason: SelectionVerdict["reason"], freesInMs: number | null): SelectionVerdict => ({
  waitMs: 0,
  reason,
  freesInMs,
});
const upTo = (
  waitMs: number,
  reason: SelectionVerdict["reason"],
  freesInMs: number | null,
): SelectionVerdict => ({
  waitMs,
  reason,
  freesInMs,
});

const ONE_KIND: Row[] = [
  ["busy", { busy: true }, upTo(QUEUE_MS, "busy", null)],
  ["limited, soon", { limitedMs: 8_000 }, upTo(QUEUE_MS, "limited", 8_000)],
  ["limited beyond the queue's time", { limitedMs: 42_000 }, no("limited", 42_000)],
  ["limited for long", { limitedMs: 300_000 }, no("at_capacity", 300_000)],
  ["a limit below the request", { neverFits: true }, no("at_capacity", null)],
  ["overloaded", { overloadedMs: 6_000 }, upTo(QUEUE_MS, "overloaded", 6_000)],
  ["failing, first probe due", failing(5_000), upTo(FIRST_PROBE_WAIT_MS_MAX, "failing", 5_000)],
  ["failing, first probe late", failing(12_000), no("failing", 12_000)],
  ["failing after a failed probe", stillFailing(4_000), no("failing", 4_000)],
  ["failing for long", stillFailing(300_000), no("failing", 300_000)],
  ["credential rejected", { outOfOrder: true }, no("out_of_order", null)],
  ["no account left", {}, no("out_of_order", null)],
];

const MIXED: Row[] = [
  ["failing and busy", { ...stillFailing(4_000), busy: true }, upTo(QUEUE_MS, "busy", null)],
  [
    "failing and limited, soon",
    { ...stillFailing(4_000), limitedMs: 20_000 },
    upTo(QUEUE_MS, "limited", 20_000),
  ],
  ["failing and limited, later", { ...stillFailing(4_000), limitedMs: 50_000 }, no("limited", 50_000)],
  ["failing and limited for long", { ...stillFailing(9_000), limitedMs: 600_000 }, no("failing", 9_000)],
  [
    "failing and overloaded",
    { ...stillFailing(1_000), overloadedMs: 7_000 },
    upTo(QUEUE_MS, "overloaded", 7_000),
  ],
  ["failing and out of order", { ...stillFailing(9_000), outOfOrder: true }, no("failing", 9_000)],
  ["busy and out of order", { busy: true, outOfOrder: true }, upTo(QUEUE_MS, "busy", null)],
  ["busy and limited", { busy: true, limitedMs: 3_000 }, upTo(QUEUE_MS, "busy", 3_000)],
  ["limited for long and out of order", { limitedMs: 300_000, outOfOrder: true }, no("at_capacity", 300_000)],
  [
    "one failing for the first time, one for long",
    { failingMs: 3_000, firstProbeMs: 6_000 },
    upTo(FIRST_PROBE_WAIT_MS_MAX, "failing", 3_000),
  ],
];

describe("a request without an available account", () => {
  test.each([...ONE_KIND, ...MIXED])("%s", (_, obstacles, expected) => {
    expect(decideWait({ ...NO_OBSTACLES, ...obstacles }, QUEUE_MS)).toEqual(expected);
  });

  test.each<[string, Partial<Obstacles>]>([
    ["busy", { busy: true }],
    ["limited", { limitedMs: 1 }],
    ["failing", failing(1)],
  ])("does not wait if its time is over (%s)", (_, obstacles) => {
    for (const leftMs of [0, -5]) {
      expect(decideWait({ ...NO_OBSTACLES, ...obstacles }, leftMs).waitMs).toBe(0);
    }
  });

  test("waits for a first probe no longer than its group allows", () => {
    expect(decideWait({ ...NO_OBSTACLES, ...failing(2_000) }, 3_000).waitMs).toBe(3_000);
    expect(decideWait({ ...NO_OBSTACLES, ...failing(2_000) }, 1_000).waitMs).toBe(0);
  });
});
