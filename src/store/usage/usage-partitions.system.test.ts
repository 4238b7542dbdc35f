import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { eventually } from "../../../test/support/eventually.ts";
import { type Postgres, startPostgres } from "../../../test/support/postgres.ts";
import { RowRemoval } from "../../billing/maintenance/remove-rows.ts";
import { type Db, openDb, transaction } from "../engine/db.ts";
import { migrate } from "../engine/migrate.ts";
import { listPartitions } from "../engine/range-partitions.ts";
import { runAlone } from "../nodes/job-leases.test-support.ts";
import { enableFeed, readEntries } from "../usage-feed/feed.ts";
import { requestIdAt, requestIdTime } from "./request-id-time.ts";
import { findUsage, keyTotals, readStoredCharges, settlePending, type UsageRow } from "./usage.ts";
import {
  canPartitionUsageRows,
  choosePartitionWidth,
  createPartitionsAhead,
  dropExpiredPartitions,
  endOfPeriod,
  listUnboundedTables,
} from "./usage-partitions.ts";
import { readUsageRowsRemovedBefore, writeUsageRowsKept } from "./usage-removal.ts";
import { insertUsage, usageRow } from "./usage-row.test-support.ts";

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const NOW = Date.UTC(2027, 0, 20, 12);
const TABLE = { name: "usage_row", key: "request_id" };
const lease = { check: async () => {} };

const opened: { db: Db; postgres: Postgres }[] = [];
let first: Postgres;

beforeAll(async () => {
  first = await startPostgres();
}, 300_000);
afterAll(() => first?.stop());
afterEach(async () => {
  for (const { db, postgres } of opened.splice(0)) {
    await db.close();
    await postgres.stop();
  }
});

async function openStore(): Promise<{ db: Db; url: string }> {
  const postgres = await startPostgres();
  const db = await openDb(postgres.url);
  opened.push({ db, postgres });
  await migrate(db);
  return { db, url: postgres.url };
}

let requests = 0;
function row(atMs: number, other: Partial<UsageRow> = {}): UsageRow {
  const id = `${requestIdAt(atMs)}-7000-8000-${String(++requests).padStart(12, "0")}`;
  return usageRow({ requestId: id, atMs, ...other });
}

async function readIds(db: Db, table = "usage"): Promise<unknown[]> {
  return (await db.sql.text(`SELECT request_id FROM ${table} ORDER BY request_id`, [])).map(
    ({ request_id }) => request_id,
  );
}

async function listNames(db: Db): Promise<string[]> {
  return (await listPartitions(db, TABLE)).map(({ name }) => name);
}

describe("periods", () => {
  test("an id and its time convert into each other", () => {
    expect(requestIdTime(requestIdAt(NOW))).toBe(NOW);
    expect(requestIdTime(Bun.randomUUIDv7("hex", NOW).replace(/^/, "req_"))).toBe(NOW);
    expect(requestIdTime("zzz")).toBeNull();
  });

  test("partitions are wider for a longer retention", () => {
    const widths = [7, 31, 32, 366, 367].map((days) => choosePartitionWidth(days * DAY_MS));
    expect(widths).toEqual(["day", "day", "week", "week", "month"]);
    expect(choosePartitionWidth(null)).toBe("month");
  });

  test("a period ends at the next boundary in UTC", () => {
    expect(endOfPeriod(Date.UTC(2027, 0, 20), "day")).toBe(Date.UTC(2027, 0, 21));
    expect(endOfPeriod(Date.UTC(2027, 11, 31, 5), "month")).toBe(Date.UTC(2028, 0, 1));
    expect(endOfPeriod(Date.UTC(2027, 0, 20), "week") % (7 * DAY_MS)).toBe(0);
  });
});

test("a new database gets partitions at once, and its rows go to the partition of their day", async () => {
  const { db } = await openStore();
  expect(await canPartitionUsageRows(db)).toBe(true);
  expect(await createPartitionsAhead({ db, nowMs: NOW, lease }, 7 * DAY_MS)).toBe(8);
  expect(await createPartitionsAhead({ db, nowMs: NOW, lease }, 7 * DAY_MS)).toBe(0);
  const today = row(NOW);
  await insertUsage(db, [today]);
  expect(await readIds(db, "usage_row_20270120")).toEqual([today.requestId]);
  // The same request is rejected, whichever partition it is in.
  await expect(insertUsage(db, [today])).rejects.toThrow(/duplicate key/);
});

test("rows from before the first partition move to the first one or to that of their day, and all reads stay the same", async () => {
  const { db } = await openStore();
  const rows = [row(NOW - 5 * DAY_MS), row(NOW - DAY_MS), row(NOW, { responseId: "resp_1" })];
  await insertUsage(db, rows);
  const before = await db.sql`SELECT * FROM usage ORDER BY request_id`;
  await createPartitionsAhead({ db, nowMs: NOW, lease }, 7 * DAY_MS);
  expect(await db.sql`SELECT * FROM usage ORDER BY request_id`).toEqual(before);
  expect(await readIds(db, "usage_row_first")).toHaveLength(2);
  expect(await readIds(db, "usage_row_20270120")).toHaveLength(1);
  const later = row(NOW + 2 * DAY_MS);
  await insertUsage(db, [later]);
  expect(await readIds(db)).toHaveLength(4);
  expect(await readIds(db, "usage_row_20270122")).toEqual([later.requestId]);
  expect((await findUsage(db, rows[0]?.requestId ?? ""))?.atMs).toBe(NOW - 5 * DAY_MS);
  expect(
    (
      await readStoredCharges(
        db,
        [...rows, later].map(({ requestId }) => requestId),
      )
    ).size,
  ).toBe(4);
  const indexes = await db.sql`SELECT indexname FROM pg_indexes WHERE tablename = 'usage_row' ORDER BY 1`;
  expect(indexes.map(({ indexname }) => indexname)).toEqual([
    "usage_at",
    "usage_key",
    "usage_response",
    "usage_row_pkey",
  ]);
});

test("writers and readers continue while partitions are created", async () => {
  const { db, url } = await openStore();
  await insertUsage(db, [row(Date.now() - DAY_MS), row(Date.now())]);
  const nodes = [await openDb(url), await openDb(url)];
  let isDone = false;
  const written: string[] = [];
  const write = async (node: Db) => {
    while (!isDone) {
      const added = row(Date.now());
      await insertUsage(node, [added]);
      written.push(added.requestId);
      expect((await findUsage(node, added.requestId))?.requestId).toBe(added.requestId);
    }
  };
  const writers = nodes.map(write);
  await eventually(() => written.length >= 20);
  for (let isPartitioned = false; !isPartitioned; ) {
    try {
      await createPartitionsAhead({ db, nowMs: Date.now(), lease }, 7 * DAY_MS);
      isPartitioned = true;
    } catch (error) {
      // A writer held the lock for longer than the change waits.
      if (!/lock timeout|deadlock/.test(String(error))) throw error;
    }
  }
  const count = written.length;
  await eventually(() => written.length >= count + 20);
  isDone = true;
  await Promise.all(writers);
  for (const node of nodes) await node.close();
  expect(await readIds(db)).toHaveLength(written.length + 2);
});

test("expired partitions are dropped with their rows; roll-ups, pending and newer rows are kept", async () => {
  const { db } = await openStore();
  const began = NOW - 20 * DAY_MS;
  await createPartitionsAhead({ db, nowMs: began, lease }, 7 * DAY_MS);
  const expired = [row(began), row(began + HOUR_MS), row(began + DAY_MS)];
  const pending = row(began + 2 * HOUR_MS, { outcome: "pending" });
  // A request that ended long after it began.
  const late = row(began + 3 * HOUR_MS, {});
  const present = row(began + 3 * DAY_MS);
  await insertUsage(db, [...expired, pending, { ...late, atMs: NOW }, present]);
  expect(await dropExpiredPartitions({ db, lease }, began + 2 * DAY_MS)).toBe(3);
  expect(await readIds(db)).toEqual([pending.requestId, late.requestId, present.requestId].sort());
  expect(await readIds(db, "usage_row_default")).toHaveLength(2);
  expect(await listNames(db)).not.toContain("usage_row_20261231");
  expect(await readUsageRowsRemovedBefore(db)).toBe(began + DAY_MS + 1);
  expect((await keyTotals(db, "k1", null)).requests).toBe(6);
  expect(await listUnboundedTables(db, began + 2 * DAY_MS)).toEqual(["usage_row_default"]);
});

test("each written row is appended to the usage feed once, and a row that only moves is not", async () => {
  const { db } = await openStore();
  await transaction(db, (tx) => enableFeed(tx, "feed"));
  const readFeedIds = async () =>
    (await readEntries(db, { after: 0, to: Number.MAX_SAFE_INTEGER, limit: 100 })).map(
      ({ requestId }) => requestId,
    );
  const began = NOW - 20 * DAY_MS;
  const earlier = row(began - DAY_MS);
  await insertUsage(db, [earlier]);
  await createPartitionsAhead({ db, nowMs: began, lease }, 7 * DAY_MS);
  const pending = row(began + DAY_MS, { outcome: "pending" });
  const ahead = row(began + 9 * DAY_MS);
  await insertUsage(db, [pending]);
  await insertUsage(db, [ahead]);
  const written = [earlier.requestId, pending.requestId, ahead.requestId];
  expect(await readFeedIds()).toEqual(written);
  await createPartitionsAhead({ db, nowMs: began + 5 * DAY_MS, lease }, 7 * DAY_MS);
  await dropExpiredPartitions({ db, lease }, began + 4 * DAY_MS);
  expect(await readIds(db, "usage_row_default")).toEqual([pending.requestId]);
  expect(await readFeedIds()).toEqual(written);
  expect(await settlePending(db, pending.requestId, null, "completed")).toBe(true);
  expect(await readFeedIds()).toEqual([...written, pending.requestId]);
});

test("rows of the default partition move to the partition that is created for them", async () => {
  const { db } = await openStore();
  await createPartitionsAhead({ db, nowMs: NOW, lease }, 7 * DAY_MS);
  const ahead = row(NOW + 9 * DAY_MS);
  await insertUsage(db, [ahead]);
  expect(await readIds(db, "usage_row_default")).toEqual([ahead.requestId]);
  await createPartitionsAhead({ db, nowMs: NOW + 5 * DAY_MS, lease }, 7 * DAY_MS);
  expect(await readIds(db, "usage_row_default")).toEqual([]);
  expect(await readIds(db, "usage_row_20270129")).toEqual([ahead.requestId]);
});

test("the job partitions, removes expired rows of the first partition, and drops it when all are expired", async () => {
  const { db, url } = await openStore();
  const old = row(NOW - 30 * DAY_MS);
  const recent = row(NOW - DAY_MS);
  await insertUsage(db, [old, recent]);
  await writeUsageRowsKept(db, 7 * DAY_MS);
  let nowMs = NOW;
  const lines: string[] = [];
  const log = { info() {}, warn: (event: string) => void lines.push(event), error() {} };
  const job = new RowRemoval({
    db,
    openMaintenanceDb: () => openDb(url, { workload: "maintenance" }),
    log,
    clock: { nowMs: () => nowMs },
    everyMs: HOUR_MS,
    firstAfterMs: HOUR_MS,
    rowsMax: 10,
    pauseMs: 0,
    runJob: runAlone,
  });
  await job.remove();
  expect(await readIds(db)).toEqual([recent.requestId]);
  const reader = await openDb(url);
  // A long report holds the table: the pass gives up soon, and the next one succeeds.
  nowMs = NOW + 9 * DAY_MS;
  await transaction(reader, async (tx) => {
    await tx.sql`SELECT COUNT(*) AS many FROM usage_row`;
    await job.remove();
  });
  expect(lines).toEqual(["usage_partitions_failed"]);
  expect(await listNames(db)).toContain("usage_row_first");
  await job.remove();
  expect(await listNames(db)).not.toContain("usage_row_first");
  await job.stop();
  await reader.close();
});

test("a role that may only read and write rows keeps its rights, and does not change the table", async () => {
  const { db, url } = await openStore();
  await db.sql.script(`
    DROP ROLE IF EXISTS gateway_writer; CREATE ROLE gateway_writer LOGIN;
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO gateway_writer`);
  const address = new URL(url);
  address.username = "gateway_writer";
  const writer = await openDb(address.href);
  try {
    expect(await canPartitionUsageRows(writer)).toBe(false);
    await createPartitionsAhead({ db, nowMs: NOW, lease }, 7 * DAY_MS);
    await insertUsage(writer, [row(NOW)]);
    expect(await readIds(writer)).toHaveLength(1);
  } finally {
    await writer.close();
    await db.sql.script("DROP OWNED BY gateway_writer; DROP ROLE gateway_writer");
  }
});
