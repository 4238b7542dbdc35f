/** Long windows on PostgreSQL: their use is read from the stored usage, at the first call and after a burial. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { createMigrated, FIRST_START_WITHIN_MS } from "../../test/support/postgres.ts";
import { DAY_MS, HOUR_MS } from "../base/time.ts";
import type { RecordRef } from "../limits/coordinator/protocol.ts";
import type { Scope } from "../limits/limiter-types.ts";
import { type Db, openDb } from "../store/engine/db.ts";
import { markSubjectsUnread, markWindowsUnread } from "../store/engine/limit-coordination.ts";
import { type Hold, insertHolds, moveResponseHolds, recordResponse, UNSENT } from "../store/money/holds.ts";
import { setAsideHold } from "../store/money/set-aside-holds.ts";
import { foldDay, markDays, startOfDay, writeFolded } from "../store/usage/usage-day.ts";
import { insertUsage, usageRow } from "../store/usage/usage-row.test-support.ts";
import {
  type CoordinatorUnderTest,
  openCoordinatorOn,
  ProtocolCluster,
  type ProtocolNode,
} from "./limit-coordinators.test-support.ts";

const MONTH_MS = 30 * DAY_MS;
const [REQUESTS, TOKENS, NANO] = [0, 1, 2] as const;

let db: Db;
let under: CoordinatorUnderTest;
let cluster: ProtocolCluster;
let stop: () => Promise<void>;

beforeAll(async () => {
  const postgres = await createMigrated();
  stop = postgres.stop;
  db = await openDb(postgres.url);
  under = openCoordinatorOn(db, postgres.url);
  for (const [key, user] of [
    ["k1", "u1"],
    ["k2", "u1"],
    ["k3", null],
  ] as const)
    await db.sql`
      INSERT INTO api_key (id, public_id, digest, last4, name, user_id, group_id, status, created_at_ms, revision)
      VALUES (${key}, ${key}, ${key}, ${key}, ${key}, ${user}, 'g1', 'active', 0, 0)`;
}, FIRST_START_WITHIN_MS);

afterAll(async () => {
  await db?.close();
  await stop?.();
});

beforeEach(async () => {
  await under.clear();
  await db.sql.script("TRUNCATE usage_row, usage_hour, usage_day, usage_day_mark, hold");
  cluster = new ProtocolCluster(under);
});

interface Use {
  readonly keyId: string;
  readonly groupId: string;
  readonly atMs: number;
}

/** One request a use, 15 tokens and 100 nano-USD. */
async function store(uses: readonly Use[]): Promise<void> {
  await insertUsage(
    db,
    uses.map((use) => usageRow({ ...use, costNano: 100n })),
  );
}

async function fold(fromMs: number, nowMs: number): Promise<void> {
  for (let dayMs = startOfDay(fromMs); dayMs <= nowMs; dayMs += DAY_MS) await foldDay(db, dayMs, dayMs);
  await writeFolded(db, nowMs, []);
}

const HELD = {
  ...UNSENT,
  atMs: 0,
  subscriptionId: null,
  amountNano: 700n,
  tariffId: "t1",
  interface: "responses",
  endpoint: "responses",
  publicModel: "m",
  stream: false,
  inputTokens: 12,
} as const;

function buildWindow(scope: Scope, id: string, perMs: number): RecordRef {
  return { scope, id, perMs, revision: 1, limits: [1_000, 1_000_000, 1_000_000_000] };
}

/** What a window counts: an hour until its end has left the window. */
function countUses(uses: readonly Use[], { scope, id, perMs }: RecordRef, nowMs: number): number {
  const [key = "", group] = id.split(" in ");
  const keys = scope === "user" ? ["k1", "k2"] : [key];
  return uses.filter(({ keyId, groupId, atMs }) => {
    const isOwn =
      scope === "group" ? groupId === id : keys.includes(keyId) && (group === undefined || group === groupId);
    return isOwn && (Math.floor(atMs / HOUR_MS) + 1) * HOUR_MS > nowMs - (perMs ?? 0);
  }).length;
}

async function readUsed(node: ProtocolNode, record: RecordRef): Promise<number[]> {
  const { states } = await node.ok([record]);
  return (states[0]?.meters ?? []).map(({ used }) => used);
}

async function reopen(node: ProtocolNode): Promise<void> {
  const { term: replaces } = node;
  await node.open();
  await node.declare([], { replaces });
}

const SCOPES = [
  ["key", "k1"],
  ["key", "k1 in g1"],
  ["user", "u1"],
  ["group", "g1"],
] as const;

for (const [scope, id] of SCOPES)
  test(`the window of the ${scope} ${id} begins with its stored use, which leaves it hour by hour`, async () => {
    const endMs = cluster.nowMs;
    const uses: Use[] = [];
    for (let i = 0; i < 160; i += 1)
      uses.push({
        keyId: `k${1 + (i % 3)}`,
        groupId: i % 5 === 0 ? "g2" : "g1",
        atMs: endMs - Math.floor((i * 40 * DAY_MS) / 160) - 1,
      });
    await store(uses);
    await fold(endMs - 41 * DAY_MS, endMs - 3 * DAY_MS);
    const node = await cluster.start("p1");
    const record = buildWindow(scope, id, MONTH_MS);
    const count = countUses(uses, record, cluster.nowMs);
    expect(count).toBeGreaterThan(20);
    expect(await readUsed(node, record)).toEqual([count, 15 * count, 100 * count]);
    for (let i = 0; i < 45; i += 1) {
      await cluster.pass(17 * HOUR_MS + 1_000_000);
      await reopen(node);
      const left = countUses(uses, record, cluster.nowMs);
      expect([i, ...(await readUsed(node, record))]).toEqual([i, left, 15 * left, 100 * left]);
    }
  }, 60_000);

test("a day with a late row is read by its hours", async () => {
  const endMs = cluster.nowMs;
  const atMs = endMs - 10 * DAY_MS;
  await store([{ keyId: "k1", groupId: "g1", atMs }]);
  await fold(endMs - 11 * DAY_MS, endMs);
  await store([{ keyId: "k2", groupId: "g1", atMs }]);
  const node = await cluster.start("p1");
  // Without a mark, the daily sum counts.
  expect(await readUsed(node, buildWindow("user", "u1", MONTH_MS))).toEqual([1, 15, 100]);
  await markDays(db, [{ requestId: "req_late", atMs }]);
  expect(await readUsed(node, buildWindow("user", "u1", MONTH_MS - 1))).toEqual([2, 30, 200]);
});

test("a window that is read after the server's clock was set back has the rows from before and since", async () => {
  const serverMs = Date.now();
  await cluster.pass(serverMs + 6 * HOUR_MS - cluster.nowMs);
  const node = await cluster.start("p1");
  const rows = [cluster.nowMs - 2 * HOUR_MS, serverMs - 2 * HOUR_MS, serverMs - 8 * HOUR_MS];
  await store(rows.map((atMs) => ({ keyId: "k1", groupId: "g1", atMs })));
  expect(await readUsed(node, buildWindow("key", "k1", 5 * HOUR_MS))).toEqual([2, 30, 200]);
});

test("windows of 5 hours have buckets of 5 minutes", async () => {
  const node = await cluster.start("p1");
  const record = buildWindow("key", "k1", 5 * HOUR_MS);
  await node.ask(record, TOKENS, { amount: 600 });
  expect(await node.report(record, TOKENS, { used: 600 })).toMatchObject({ used: 600, lent: 0 });
  await cluster.pass(5 * HOUR_MS + 299_000);
  await reopen(node);
  expect(await node.read(record, TOKENS)).toMatchObject({ used: 600, resetMs: 1_000 });
  await cluster.pass(1_000);
  expect(await node.read(record, TOKENS)).toMatchObject({ used: 0, resetMs: 0 });
});

test("a refused ask says when enough of a window becomes free", async () => {
  const endMs = cluster.nowMs;
  await store([
    { keyId: "k1", groupId: "g1", atMs: endMs - 4 * HOUR_MS },
    { keyId: "k1", groupId: "g1", atMs: endMs - 2 * HOUR_MS },
  ]);
  const node = await cluster.start("p1");
  const record: RecordRef = { ...buildWindow("key", "k1", 5 * HOUR_MS), limits: [2, null, null] };
  const refused = await node.ask(record, REQUESTS, { amount: 2 });
  // The hour of the later use ends in an hour less two hours, and leaves the window five hours after that.
  expect(refused).toEqual({ kind: "refused", lacks: 0, freesInMs: 4 * HOUR_MS });
});

describe("what a killed process held of a window", () => {
  const record = buildWindow("key", "k1", MONTH_MS);
  const limit = 1_000_000_000;
  let living: ProtocolNode;

  beforeEach(async () => {
    const [killed, other] = await cluster.startAll("p1", "p2");
    if (killed === undefined || other === undefined) throw new Error("no nodes");
    living = other;
    await killed.ask(record, NANO, { amount: 5_000 });
  });

  async function pass(ms: number): Promise<void> {
    for (let leftMs = ms; leftMs > 0; leftMs -= 9_000) {
      await cluster.pass(Math.min(9_000, leftMs));
      await living.ok([]);
    }
  }

  const store1 = () => store([{ keyId: "k1", groupId: "g1", atMs: cluster.nowMs }]);
  const read = () => living.read(record, NANO);

  test("stays lent until its folder starts again, which has stored its usage", async () => {
    await under.coordinator.bury("p1");
    await pass(18_000);
    expect(await read()).toMatchObject({ free: limit - 5_000, used: 0 });
    await store1();
    await cluster.start("p3", { folder: "p1" });
    expect(await read()).toMatchObject({ free: limit - 100, used: 100 });
  });

  test("is free after a minute if the folder stays away; usage that is stored later counts", async () => {
    await store1();
    await under.coordinator.bury("p1");
    await pass(60_000);
    expect(await read()).toMatchObject({ free: limit - 5_000, used: 0 });
    await pass(12_000);
    expect(await read()).toMatchObject({ free: limit - 100, used: 100 });
    await store1();
    expect(await read()).toMatchObject({ used: 100 });
    await cluster.start("p3", { folder: "p1" });
    expect(await read()).toMatchObject({ free: limit - 200, used: 200 });
  });

  test("stays lent for a minute if the state of terms is lost as well", async () => {
    await under.lose();
    const { term: replaces } = living;
    await living.open();
    await living.declare([], { replaces, registered: ["p2"], isSurvivor: true });
    await pass(36_000);
    await under.coordinator.sweep();
    expect(await read()).toMatchObject({ free: limit - 5_000, used: 0 });
    await store1();
    await pass(36_000);
    expect(await read()).toMatchObject({ free: limit - 100, used: 100 });
  });
});

test("use that no node has reported counts when the windows are read again", async () => {
  const node = await cluster.start("p1");
  const record = buildWindow("key", "k1", MONTH_MS);
  await node.ask(record, NANO, { amount: 5_000 });
  await store([{ keyId: "k1", groupId: "g1", atMs: cluster.nowMs }]);
  expect(await node.read(record, NANO)).toMatchObject({ lent: 5_000, used: 0 });
  await markWindowsUnread(db);
  expect(await node.read(record, NANO)).toMatchObject({ lent: 5_000, used: 100 });
});

test("the windows of some subjects are read again, and no others", async () => {
  const node = await cluster.start("p1");
  const records = SCOPES.map(([scope, id]) => buildWindow(scope, id, MONTH_MS));
  const readAll = async () => (await node.ok(records)).states.map(({ meters }) => meters[NANO].used);
  expect(await readAll()).toEqual([0, 0, 0, 0]);
  await store([{ keyId: "k1", groupId: "g1", atMs: cluster.nowMs }]);
  await markSubjectsUnread(db, ["key:k1:", "user:u1:"]);
  expect(await readAll()).toEqual([100, 0, 100, 0]);
  await markSubjectsUnread(db, ["key:k1 in g1:", "group:g1:"]);
  expect(await readAll()).toEqual([100, 100, 100, 100]);
});

test("responses of ended processes count by their holds until they are settled", async () => {
  const node = await cluster.start("p1");
  const records = SCOPES.map(([scope, id]) => buildWindow(scope, id, 5 * HOUR_MS));
  const others = [
    buildWindow("key", "k2", MONTH_MS),
    buildWindow("key", "k1 in g2", MONTH_MS),
    buildWindow("group", "g2", MONTH_MS),
  ];
  const readAll = async () => {
    await markWindowsUnread(db);
    const { states } = await node.ok([...records, ...others]);
    return states.map(({ meters }) => meters.map(({ used }) => used));
  };
  const held: Hold = { ...HELD, requestId: "r1", processId: "p1", keyId: "k1", userId: "u1", groupId: "g1" };
  await insertHolds(db, [held, { ...held, requestId: "r2" }, { ...held, requestId: "r3", processId: "p2" }]);
  for (const requestId of ["r1", "r3"])
    await recordResponse(db, requestId, {
      responseId: `resp_${requestId}`,
      accountId: "a1",
      upstreamModel: "m",
    });
  const none = [0, 0, 0];
  // What a running process holds is lent to it.
  expect(await readAll()).toEqual([...records, ...others].map(() => none));
  expect(await moveResponseHolds(db, "p2", "p1")).toEqual(["r3"]);
  expect(await readAll()).toEqual([...records.map(() => [1, 12, 700]), ...others.map(() => none)]);
  await cluster.pass(4 * HOUR_MS);
  await reopen(node);
  expect((await readAll())[0]).toEqual([1, 12, 700]);
  await setAsideHold(db, { requestId: "r3", processId: "p1", reason: "test", nowMs: 1 });
  expect((await readAll())[0]).toEqual(none);
});

test("a window that is not used is deleted, and read again at its next use", async () => {
  const node = await cluster.start("p1");
  const record = buildWindow("key", "k1", MONTH_MS);
  await store([{ keyId: "k1", groupId: "g1", atMs: cluster.nowMs - 3 * HOUR_MS }]);
  expect(await readUsed(node, record)).toEqual([1, 15, 100]);
  await node.ask(record, NANO, { amount: 10 });
  const count = async () =>
    (await db.sql`SELECT id FROM limit_window UNION ALL SELECT window_id FROM limit_window_bucket`).length;
  await under.coordinator.sweep();
  expect(await count()).toBe(2);
  await node.report(record, NANO, { returned: 10 });
  await under.coordinator.sweep();
  expect(await count()).toBe(0);
  expect(await readUsed(node, record)).toEqual([1, 15, 100]);
});

test("many windows that are not used are deleted in several statements", async () => {
  await cluster.start("p1");
  await db.sql.script(`
    INSERT INTO limit_window (id) SELECT 'key:k' || k || ':${MONTH_MS}' FROM generate_series(1, 250) AS k;
    INSERT INTO limit_window_bucket (window_id, no, requests, tokens, nano)
    SELECT id, no, 1, 1, 1 FROM limit_window, generate_series(1, 20) AS no`);
  const sweep = "SELECT limit_sweep(600000, 10000, 100) AS windows";
  expect(await db.sql.text(sweep, [])).toEqual([{ windows: 100 }]);
  await under.coordinator.sweep();
  expect(
    await db.sql.text(
      "SELECT window_id AS id FROM limit_window_bucket UNION SELECT id FROM limit_window",
      [],
    ),
  ).toEqual([]);
});

test("calls about the same records wait for each other, and lend exactly the limit", async () => {
  const nodes = await cluster.startAll(...Array.from({ length: 8 }, (_, i) => `p${i}`));
  const records = Array.from({ length: 12 }, (_, i) => ({
    ...buildWindow("key", `shared ${i}`, i % 2 === 0 ? MONTH_MS : 0),
    ...(i % 2 === 0 ? {} : { perMs: null }),
    limits: [20, 20, 20] as const,
  }));
  let granted = 0;
  await Promise.all(
    nodes.map(async (node, n) => {
      for (let i = 0; i < 12; i += 1) {
        // Each node names the records in another order.
        const order = records.map((_, j) => records[(j * 5 + n + i) % 12] as RecordRef);
        const wants = order.map((_, record) => ({ record, meter: 1 as const, least: 1, need: 1, most: 1 }));
        const { results } = await node.ok(order, { asks: [{ mode: "refill", key: "k", wants }] });
        if (results[0]?.kind === "granted") granted += 1;
      }
    }),
  );
  expect(granted).toBe(20);
  const { states } = await (nodes[0] as ProtocolNode).ok(records);
  expect(states.map(({ meters }) => meters[1].free)).toEqual(records.map(() => 0));
}, 60_000);

test("the first use of a window with hundreds of thousands of sums is read at once", async () => {
  const { nowMs } = cluster;
  const lastHourMs = Math.floor(nowMs / HOUR_MS) * HOUR_MS;
  await db.sql`
    INSERT INTO usage_hour (key_id, hour_ms, group_id, public_model, interface, requests, refused, failed,
      input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens, images, cost_nano)
    SELECT 'k' || k, CAST(${lastHourMs} AS BIGINT) - h * CAST(3600000 AS BIGINT), 'g1', 'm', 'chat_completions', 1, 0, 0,
      10, 0, 0, 5, 0, 0, 100
    FROM generate_series(1, 400) AS k, generate_series(0, 719) AS h`;
  await fold(nowMs - MONTH_MS, nowMs);
  await db.sql.script("ANALYZE usage_hour, usage_day");
  const node = await cluster.start("p1");
  for (const [scope, id, keys] of [
    ["key", "k7", 1],
    ["user", "u1", 2],
    ["group", "g1", 400],
  ] as const) {
    const startedMs = performance.now();
    expect(await readUsed(node, buildWindow(scope, id, MONTH_MS))).toEqual(
      [1, 15, 100].map((each) => 720 * keys * each),
    );
    // 2 to 15 ms on a machine that is not busy.
    expect(performance.now() - startedMs).toBeLessThan(1_000);
  }
}, 180_000);

test("rows of another shape cannot be written", async () => {
  const writes = [
    "INSERT INTO limit_subject (id, holders) VALUES ('key:x:', '{t}')",
    "INSERT INTO limit_subject (id, limits) VALUES ('key:x:', '{1}')",
    "INSERT INTO limit_subject (id, wait_terms, wait_keys) VALUES ('key:x:', '{t}', '{k}')",
    "INSERT INTO limit_subject (id, bucket_nos) VALUES ('key:x:', '{1}')",
    "INSERT INTO limit_window (id, recalls) VALUES ('key:x:1', '{}')",
  ];
  for (const write of writes) await expect(db.sql.script(write)).rejects.toThrow("check constraint");
});
