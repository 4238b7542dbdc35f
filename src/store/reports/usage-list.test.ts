import { expect, test } from "bun:test";
import fc from "fast-check";
import { eachEngine } from "../../../test/support/each-engine.ts";
import type { Db } from "../engine/db.ts";
import { insertRows } from "../engine/insert-rows.ts";
import type { UsageRow } from "../usage/usage.ts";
import { insertUsage, usageRow } from "../usage/usage-row.test-support.ts";
import { listUsage, type UsageCursor, type UsageFilter } from "./usage-list.ts";

const row = (requestId: string, change: Partial<UsageRow> = {}): UsageRow =>
  usageRow({ requestId, userId: "u1", ...change });

const USERS = { k1: "u1", k2: "u1", k3: "u2", k4: null } as const;
const HOUR_MS = 3_600_000;

async function seedKeys(db: Db): Promise<void> {
  const columns = ["id", "name", "user_id", "group_id", "digest", "public_id", "last4", "status"];
  await insertRows(
    db,
    "api_key",
    [...columns, "created_at_ms", "revision"],
    Object.entries(USERS).map(([id, userId]) => [id, id, userId, "g1", id, id, "", "active", 1, 1]),
  );
}

/** Few different times, some of them hours apart. */
const instant = fc
  .tuple(fc.integer({ min: 0, max: 3 }), fc.integer({ min: 0, max: 3 }))
  .map(([hours, ms]) => 1_000 * HOUR_MS + hours * HOUR_MS + ms);

const anyRows = fc.array(
  fc
    .record({
      atMs: instant,
      keyId: fc.constantFrom("k1" as const, "k2" as const, "k3" as const, "k4" as const),
      groupId: fc.constantFrom("g1", "g2"),
      publicModel: fc.constantFrom("fast", "slow"),
      outcome: fc.constantFrom<UsageRow["outcome"][]>("completed", "failed", "refused"),
      accountId: fc.constantFrom("a1", "a2", null),
      status: fc.constantFrom(200, 429, 502),
    })
    .map((drawn) => ({ ...drawn, userId: USERS[drawn.keyId] })),
  { maxLength: 25 },
);

const anyFilter: fc.Arbitrary<UsageFilter> = fc.record(
  {
    keyId: fc.constantFrom("k1", "k2", "k3"),
    userId: fc.constantFrom("u1", "u2"),
    groupId: fc.constantFrom("g1", "g2"),
    model: fc.constantFrom("fast", "slow"),
    outcome: fc.constantFrom<UsageRow["outcome"][]>("completed", "failed"),
    accountId: fc.constantFrom("a1", "a2"),
    statusClass: fc.constantFrom(2 as const, 4 as const, 5 as const),
    fromMs: instant,
    toMs: instant,
  },
  { requiredKeys: [] },
);

/** So small that a page often ends before it is full. */
const bounds = fc.record({
  rowsPerScan: fc.integer({ min: 1, max: 5 }),
  scansMax: fc.integer({ min: 1, max: 3 }),
});

function matches(one: UsageRow, filter: UsageFilter): boolean {
  return (
    (filter.keyId === undefined || one.keyId === filter.keyId) &&
    (filter.userId === undefined || one.userId === filter.userId) &&
    (filter.groupId === undefined || one.groupId === filter.groupId) &&
    (filter.model === undefined || one.publicModel === filter.model) &&
    (filter.outcome === undefined || one.outcome === filter.outcome) &&
    (filter.accountId === undefined || one.accountId === filter.accountId) &&
    (filter.statusClass === undefined || Math.floor(one.status / 100) === filter.statusClass) &&
    (filter.fromMs === undefined || one.atMs >= filter.fromMs) &&
    (filter.toMs === undefined || one.atMs < filter.toMs)
  );
}

eachEngine(({ open }) => {
  test("the pages of any filter contain every matching row once, newest first", async () => {
    const db = await open();
    await seedKeys(db);
    await fc.assert(
      fc.asyncProperty(
        anyRows,
        anyFilter,
        fc.integer({ min: 1, max: 7 }),
        bounds,
        async (drawn, filter, limit, bound) => {
          await db.sql`DELETE FROM usage_row`;
          await db.sql`DELETE FROM usage_hour`;
          const rows = drawn.map((change, i) => row(`req_${String(i).padStart(3, "0")}`, change));
          await insertUsage(db, rows);
          const expected = rows
            .filter((one) => matches(one, filter))
            .toSorted((a, b) => b.atMs - a.atMs || (a.requestId < b.requestId ? 1 : -1));
          const listed: UsageRow[] = [];
          let after: UsageCursor | null = null;
          do {
            const page = await listUsage(db, filter, { after, limit }, bound);
            expect(page.rows.length).toBeLessThanOrEqual(limit);
            listed.push(...page.rows);
            after = page.next;
          } while (after !== null);
          expect(listed).toEqual(expected);
        },
      ),
      { numRuns: 60 },
    );
    await db.close();
  });

  test("a row inserted between two pages does not change the next page", async () => {
    const db = await open();
    await insertUsage(
      db,
      [1, 2, 3, 4].map((i) => row(`req_${i}`, { atMs: i })),
    );
    const first = await listUsage(db, {}, { after: null, limit: 2 });
    await insertUsage(db, [row("req_5", { atMs: 5 })]);
    const second = await listUsage(db, {}, { after: first.next, limit: 2 });
    expect([...first.rows, ...second.rows].map(({ requestId }) => requestId)).toEqual([
      "req_4",
      "req_3",
      "req_2",
      "req_1",
    ]);
    expect(second.next).toBeNull();
  });

  test("a search without a match in a full hour continues before that hour, and ends", async () => {
    const db = await open();
    await seedKeys(db);
    const hour = (hours: number) => (1_000 + hours) * HOUR_MS;
    await insertUsage(db, [
      ...[1, 2, 3, 4].map((i) => row(`req_new_${i}`, { atMs: hour(1) })),
      row("req_old", { atMs: hour(0), outcome: "failed" }),
    ]);
    const listed: string[] = [];
    let after: UsageCursor | null = null;
    for (let page = 0; page < 20; page++) {
      const bound = { rowsPerScan: 1, scansMax: 1 };
      const found = await listUsage(db, { groupId: "g1", outcome: "failed" }, { after, limit: 5 }, bound);
      listed.push(...found.rows.map(({ requestId }) => requestId));
      after = found.next;
      if (after === null) break;
    }
    expect(listed).toEqual(["req_old"]);
    expect(after).toBeNull();
  });

  test("a page of one key is read by its index, and only rows of equal time are sorted", async () => {
    const db = await open();
    const filler = Array.from({ length: 2_000 }, (_, i) =>
      row(`req_${String(i).padStart(5, "0")}`, { atMs: i, keyId: `k${i % 50}` }),
    );
    await insertUsage(db, filler);
    await db.sql.script("ANALYZE");
    const explain = db.engine === "postgres" ? "EXPLAIN" : "EXPLAIN QUERY PLAN";
    const plan = await db.sql.text(
      `${explain} SELECT * FROM usage
       WHERE key_no = (SELECT no FROM usage_id WHERE id = 'k7') AND (at_ms, request_id) < (1500, 'req_1')
       ORDER BY at_ms DESC, request_id DESC LIMIT 11`,
      [],
    );
    const text = plan.map((line) => Object.values(line).join(" ")).join("\n");
    // Partitions name the index by its columns.
    expect(text).toMatch(/usage_key|usage_row_first_key_no_at_ms_idx/);
    expect(text).toContain(
      db.engine === "postgres" ? "Presorted Key: r.at_ms" : "TEMP B-TREE FOR LAST TERM OF ORDER BY",
    );
  });

  test("a search for rare rows reads a limited number of rows, and the next page continues there", async () => {
    const db = await open();
    const filler = Array.from({ length: 30 }, (_, i) => row(`req_${i + 10}`, { atMs: i + 10 }));
    await insertUsage(db, [...filler, row("req_01", { atMs: 1, outcome: "failed" })]);
    const look = { rowsPerScan: 5, scansMax: 2 };
    const first = await listUsage(db, { outcome: "failed" }, { after: null, limit: 3 }, look);
    expect(first).toEqual({ rows: [], next: { atMs: 30, requestId: "" } });
    const second = await listUsage(db, { outcome: "failed" }, { after: first.next, limit: 3 }, look);
    const third = await listUsage(db, { outcome: "failed" }, { after: second.next, limit: 3 }, look);
    const fourth = await listUsage(db, { outcome: "failed" }, { after: third.next, limit: 3 }, look);
    expect(fourth.rows.map(({ requestId }) => requestId)).toEqual(["req_01"]);
    expect(fourth.next).toBeNull();
  });

  test("lists the rows of a group with many keys", async () => {
    const db = await open();
    const filler = Array.from({ length: 450 }, (_, i) =>
      row(`req_${String(i).padStart(5, "0")}`, { atMs: i, keyId: `k${i % 225}`, groupId: `g${i % 2}` }),
    );
    await insertUsage(db, [...filler, row("req_old", { atMs: 0, groupId: "g1", outcome: "failed" })]);
    const { rows } = await listUsage(db, { groupId: "g1" }, { after: null, limit: 300 });
    expect(rows.map(({ requestId }) => requestId)).toEqual([
      ...filler.flatMap(({ requestId, groupId }) => (groupId === "g1" ? [requestId] : [])).toReversed(),
      "req_old",
    ]);
    const failed = await listUsage(db, { groupId: "g1", outcome: "failed" }, { after: null, limit: 1 });
    expect(failed.rows.map(({ requestId }) => requestId)).toEqual(["req_old"]);
  });
});
