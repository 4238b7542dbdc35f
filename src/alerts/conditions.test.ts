import { describe, expect, test } from "bun:test";
import type { AccountReport } from "../pool/health-report.ts";
import { DEFAULT_ALERTS } from "../records/settings.ts";
import type { AlertRecord } from "../store/alerts/alerts.ts";
import type { NodeRecord } from "../store/nodes/nodes.ts";
import type { AlertView } from "./alert-view.ts";
import { findConditions, isOver } from "./conditions.ts";

const NOW_MS = Date.parse("2026-09-01T12:00:00Z");
const DAY_MS = Date.parse("2026-09-01T00:00:00Z");

const WELL: AccountReport = {
  inFlight: 0,
  condition: "well",
  cause: null,
  freesInMs: null,
  isTried: true,
  models: [],
};
const PARKED: AccountReport = { ...WELL, condition: "parked", cause: "credential" };
const UNKNOWN: AccountReport = { ...WELL, isTried: false };

const NODE: NodeRecord = {
  id: "inc_1",
  hostName: "gw-1",
  pid: 7,
  startedAtMs: NOW_MS - 3_600_000,
  sinceHeartbeatMs: 2_000,
  schemaKnown: 1,
  version: "1.0.0",
  address: "gw-1:8787",
  state: "ready",
  coordinator: "redis",
  clockSkewMs: 12,
  jobs: [],
};

/** Within the span of a rule. */
const traffic = (count: Partial<ReturnType<AlertView["countTraffic"]>>) => ({
  countTraffic: () => ({ requests: 0, errors: 0, fallbacks: 0, ...count }),
});

function view(change: Partial<AlertView> = {}): AlertView {
  return {
    nowMs: NOW_MS,
    startedAtMs: NOW_MS - 3_600_000,
    accounts: [{ id: "acct_1", name: "openai-1", report: WELL }],
    groups: [{ id: "grp_1", name: "default", accountIds: ["acct_1"], emptySinceMs: null }],
    ...traffic({}),
    spent: { dayMs: DAY_MS, nano: 0 },
    billingFaults: [],
    billingFaultMs: 3_600_000,
    overruns: [],
    slowTurns: 0,
    nodes: [],
    uncoordinatedNodeIds: new Set(),
    directoryLosses: [],
    nodeSilentMs: 30_000,
    storeReplacedAtMs: null,
    failoverMs: 3_600_000,
    ...change,
  };
}

const rulesIn = (change: Partial<AlertView>, rules = DEFAULT_ALERTS) =>
  findConditions(view(change), rules).map(({ rule, subject }) => [rule, subject]);

const withReport = (report: AccountReport) => ({ accounts: [{ id: "acct_1", name: "openai-1", report }] });
const emptyFor = (ms: number) => ({
  groups: [{ id: "grp_1", name: "default", accountIds: ["acct_1"], emptySinceMs: NOW_MS - ms }],
});

describe("the alert conditions", () => {
  test("name the slow turns of the event loop when they are repeated", () => {
    expect(rulesIn({ slowTurns: 3 })).toEqual([["slow_turns", ""]]);
    const alert = findConditions(view({ slowTurns: 3 }), DEFAULT_ALERTS)[0];
    expect(alert?.details).toEqual({ turns: 3 });
  });

  test("are none while everything is healthy", () => {
    expect(rulesIn({})).toEqual([]);
  });

  test("contain an account with a rejected credential, by name and without the credential", () => {
    expect(rulesIn(withReport(PARKED))).toEqual([["account_parked", "acct_1"]]);
    expect(findConditions(view(withReport(PARKED)), DEFAULT_ALERTS)[0]?.message).toStartWith(
      "Account openai-1 is parked",
    );
    expect(rulesIn(withReport(PARKED), { ...DEFAULT_ALERTS, accountParked: { enabled: false } })).toEqual([]);
  });

  test("contain a pool that was empty for the configured time, and no shorter pause", () => {
    expect(rulesIn(emptyFor(59_999))).toEqual([]);
    expect(rulesIn(emptyFor(60_000))).toEqual([["pool_empty", "grp_1"]]);
  });

  test("contain the nodes that are silent, have lost their coordinator, wait for others to declare, or have a wrong clock", () => {
    const listRules = (change: Partial<NodeRecord>, lost: string[] = []) =>
      rulesIn({ nodes: [{ ...NODE, ...change }], uncoordinatedNodeIds: new Set(lost) });
    expect(listRules({})).toEqual([]);
    expect(listRules({ sinceHeartbeatMs: 29_999 })).toEqual([]);
    expect(listRules({}, ["inc_1"])).toEqual([["coordinator_lost", "inc_1"]]);
    expect(listRules({ coordinator: "redis_closed" })).toEqual([["limits_closed", "inc_1"]]);
    expect(listRules({ clockSkewMs: 2_000 })).toEqual([]);
    expect(listRules({ clockSkewMs: -2_001 })).toEqual([["clock_skew", "inc_1"]]);
    // What a silent node published last may be out of date.
    const silent = listRules({ sinceHeartbeatMs: 30_000, clockSkewMs: 9_000 }, ["inc_1"]);
    expect(silent).toEqual([["node_silent", "inc_1"]]);
  });

  test("name a node by its address, and all nodes share the alert", () => {
    const [found] = findConditions(view({ nodes: [{ ...NODE, sinceHeartbeatMs: 41_400 }] }), DEFAULT_ALERTS);
    expect(found?.message).toStartWith("Node gw-1:8787 has sent no heartbeat for 41 s.");
    expect(found).toMatchObject({ seenBy: "all", details: { node: "gw-1:8787", seconds: 41 } });
  });

  test("contain a failover of the database for an hour", () => {
    expect(rulesIn({ storeReplacedAtMs: NOW_MS - 3_599_999 })).toEqual([["database_failover", ""]]);
    expect(rulesIn({ storeReplacedAtMs: NOW_MS - 3_600_000 })).toEqual([]);
  });

  test("contain a user with repeated overruns", () => {
    const overruns = [{ userId: "usr_1", email: "ada@example.com", overruns: 3, overNano: 420_000_000n }];
    expect(rulesIn({ overruns })).toEqual([["overruns", "usr_1"]]);
    expect(findConditions(view({ overruns }), DEFAULT_ALERTS)[0]).toMatchObject({
      seenBy: "all",
      message:
        "3 requests of ada@example.com cost more than their holds in the last 60 min, $0.42 in total. Check the user's requests with the flag overrun.",
      details: { user_id: "usr_1", user: "ada@example.com", overruns: 3, usd: "0.42", minutes: 60 },
    });
    const off = { ...DEFAULT_ALERTS, overruns: { ...DEFAULT_ALERTS.overruns, enabled: false } };
    expect(rulesIn({ overruns }, off)).toEqual([]);
  });

  test("contain a day that reached the spend threshold, once per threshold", () => {
    const rules = { ...DEFAULT_ALERTS, spend: { enabled: true, usdPerDay: "1.50" } };
    expect(rulesIn({ spent: { dayMs: DAY_MS, nano: 1.4999e9 } }, rules)).toEqual([]);
    expect(rulesIn({ spent: { dayMs: DAY_MS, nano: 1.5e9 } }, rules)).toEqual([["spend", "2026-09-01 1.50"]]);
    expect(rulesIn({ spent: null }, rules)).toEqual([]);
    expect(rulesIn({ spent: { dayMs: DAY_MS, nano: 9e9 } })).toEqual([]);
  });

  test("contain an error rate if there are enough requests", () => {
    expect(rulesIn(traffic({ requests: 19, errors: 19 }))).toEqual([]);
    expect(rulesIn(traffic({ requests: 20, errors: 3 }))).toEqual([]);
    expect(rulesIn(traffic({ requests: 20, errors: 4 }))).toEqual([["error_rate", ""]]);
  });

  test("contain a fallback rate if there are enough requests", () => {
    expect(rulesIn(traffic({ requests: 19, fallbacks: 19 }))).toEqual([]);
    expect(rulesIn(traffic({ requests: 20, fallbacks: 9 }))).toEqual([]);
    expect(rulesIn(traffic({ requests: 20, fallbacks: 10 }))).toEqual([["fallback_rate", ""]]);
  });
});

describe("an alert without its condition", () => {
  const alert = (change: Partial<AlertRecord>): AlertRecord => ({
    id: "alert_1",
    rule: "account_parked",
    subject: "acct_1",
    node: "here:1",
    message: "",
    details: {},
    startedAtMs: NOW_MS - 1_000,
    endedAtMs: null,
    ...change,
  });
  const before = { startedAtMs: NOW_MS - 7_200_000 };
  const over = (change: Partial<AlertRecord>, seen: Partial<AlertView> = {}) =>
    isOver(alert(change), view(seen), DEFAULT_ALERTS);

  test("about a billing fault stays open for one hour, even after a restart", () => {
    const fault = { rule: "billing_fault", subject: "unpaid_row" } as const;
    expect(over({ ...fault, startedAtMs: NOW_MS - 3_590_000 }, { startedAtMs: NOW_MS - 1_000 })).toBe(false);
    expect(over({ ...fault, startedAtMs: NOW_MS - 3_600_000 }, { startedAtMs: NOW_MS - 1_000 })).toBe(true);
  });

  test("is over if this process opened it", () => {
    expect(over({})).toBe(true);
    expect(over({ rule: "pool_empty", subject: "grp_1" })).toBe(true);
    expect(over({ rule: "error_rate", subject: "" })).toBe(true);
  });

  test("from before a restart is over only after an observation", () => {
    expect(over(before, withReport(UNKNOWN))).toBe(false);
    expect(over(before, withReport(WELL))).toBe(true);
    expect(over(before, { accounts: [] })).toBe(true);
    const pool = { ...before, rule: "pool_empty", subject: "grp_1" } as const;
    expect(over(pool, withReport(UNKNOWN))).toBe(false);
    expect(over(pool, withReport(WELL))).toBe(true);
    const rate = { ...before, rule: "error_rate", subject: "" } as const;
    expect(over(rate, { startedAtMs: NOW_MS - 299_999 })).toBe(false);
    expect(over(rate, { startedAtMs: NOW_MS - 300_000 })).toBe(true);
  });

  test("about spend ends with the day, its threshold or its rule, not because of a restart", () => {
    const rules = { ...DEFAULT_ALERTS, spend: { enabled: true, usdPerDay: "1.50" } };
    const spend = { ...before, rule: "spend", subject: "2026-09-01 1.50" } as const;
    const spendOver = (seen: Partial<AlertView>, now = rules) => isOver(alert(spend), view(seen), now);
    expect(spendOver({ spent: null })).toBe(false);
    expect(spendOver({ spent: { dayMs: DAY_MS, nano: 0 } })).toBe(false);
    expect(spendOver({ spent: { dayMs: DAY_MS + 86_400_000, nano: 0 } })).toBe(true);
    expect(spendOver({}, { ...rules, spend: { enabled: true, usdPerDay: "2" } })).toBe(true);
    expect(spendOver({}, { ...rules, spend: { enabled: false, usdPerDay: "1.50" } })).toBe(true);
  });

  test("is not over for a pool that lost its last account", () => {
    const groups = [{ id: "grp_1", name: "default", accountIds: [], emptySinceMs: null }];
    expect(over({ rule: "pool_empty", subject: "grp_1" }, { groups })).toBe(false);
    expect(over({ rule: "pool_empty", subject: "grp_1" }, { groups: [] })).toBe(true);
  });
});
