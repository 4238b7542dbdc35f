import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { type Db, transaction } from "../engine/db.ts";
import { isSharedServer } from "../engine/dialect.ts";
import { insertNewUsage, settlePending, UsageNumbers } from "../usage/usage.ts";
import { createPartitionsAhead } from "../usage/usage-partitions.ts";
import { replaceUsage } from "../usage/usage-replacement.ts";
import { insertUsage, usageRow } from "../usage/usage-row.test-support.ts";
import { countEntries, disableFeed, enableFeed, readEntries, readFeed, removeEntries } from "./feed.ts";
import { FeedHorizon } from "./feed-horizon.ts";

const ALL = { after: 0, to: Number.MAX_SAFE_INTEGER, limit: 1_000 };

async function listIds(db: Db, range: Partial<typeof ALL> = {}): Promise<string[]> {
  return (await readEntries(db, { ...ALL, ...range })).map(({ requestId }) => requestId);
}

const rows = (...ids: string[]) => ids.map((requestId) => usageRow({ requestId }));

/** Inserts a row in a transaction that stays open until the returned function is called. */
async function beginInsert(db: Db, id: string): Promise<() => Promise<void>> {
  const { promise: mayEnd, resolve: end } = Promise.withResolvers<void>();
  const { promise: hasWritten, resolve: written } = Promise.withResolvers<void>();
  const ended = new UsageNumbers().within(db, async (tx, numbering) => {
    // A separate key: the sums of a key are locked until the transaction ends.
    await insertNewUsage(tx, numbering, [usageRow({ requestId: id, keyId: `key-${id}` })]);
    written();
    await mayEnd;
  });
  await hasWritten;
  return async () => {
    end();
    await ended;
  };
}

eachEngine(({ open }) => {
  test("rows are appended only while the export is enabled, and each enabling starts another feed", async () => {
    const db = await open();
    await insertUsage(db, rows("r1"));
    expect(await listIds(db)).toEqual([]);
    await transaction(db, (tx) => enableFeed(tx, "feed_1"));
    await insertUsage(db, rows("r2", "r3"));
    // Enabled already: nothing changes.
    await transaction(db, (tx) => enableFeed(tx, "feed_x"));
    expect(await readFeed(db)).toEqual({ id: "feed_1", isEnabled: true, removedTo: 0 });
    expect((await listIds(db)).toSorted()).toEqual(["r2", "r3"]);
    await transaction(db, disableFeed);
    await insertUsage(db, rows("r4"));
    expect((await listIds(db)).toSorted()).toEqual(["r2", "r3"]);
    await transaction(db, (tx) => enableFeed(tx, "feed_2"));
    await insertUsage(db, rows("r5"));
    const feed = await readFeed(db);
    expect(feed).toEqual({ id: "feed_2", isEnabled: true, removedTo: 2 });
    expect(await listIds(db, { after: feed?.removedTo ?? 0 })).toEqual(["r5"]);
  });

  test("a failed transaction appends nothing, and many rows of one statement have different numbers", async () => {
    const db = await open();
    await transaction(db, (tx) => enableFeed(tx, "feed_1"));
    await insertUsage(db, rows("r1"));
    await expect(insertUsage(db, rows("r2", "r1"))).rejects.toThrow();
    const many = Array.from({ length: 250 }, (_, i) => `many-${String(i).padStart(3, "0")}`);
    await insertUsage(db, rows(...many));
    const entries = await readEntries(db, ALL);
    expect(entries.map(({ requestId }) => requestId).toSorted()).toEqual(["r1", ...many].toSorted());
    expect(new Set(entries.map(({ feedNo }) => feedNo)).size).toBe(251);
    expect(await countEntries(db, entries[0]?.feedNo ?? 0, 1_000)).toBe(250);
    expect(await countEntries(db, 0, 100)).toBe(100);
    for (const { appendedAtMs } of entries) expect(Math.abs(appendedAtMs - Date.now())).toBeLessThan(600_000);
  });

  test("a row that is written again is appended again: a background response, and a recovered request", async () => {
    const db = await open();
    await transaction(db, (tx) => enableFeed(tx, "feed_1"));
    const before = usageRow({ requestId: "r2", flags: ["recovered"] });
    await insertUsage(db, [usageRow({ requestId: "r1", outcome: "pending" }), before]);
    await settlePending(db, "r1", null, "completed");
    await new UsageNumbers().within(db, (tx, numbering) =>
      replaceUsage(tx, numbering, [{ before, row: { ...before, flags: [], outputTokens: 9 } }]),
    );
    const ids = await listIds(db);
    expect(ids.slice(0, 2).toSorted()).toEqual(["r1", "r2"]);
    expect(ids.slice(2)).toEqual(["r1", "r2"]);
  });

  test("the oldest entries are removed, except those that are young, undelivered, or the newest", async () => {
    const db = await open();
    await transaction(db, (tx) => enableFeed(tx, "feed_1"));
    for (const id of ["r1", "r2", "r3", "r4"]) await insertUsage(db, rows(id));
    const remove = (change: object) =>
      removeEntries(db, { beforeMs: Number.MAX_SAFE_INTEGER, upTo: 1e9, limit: 100, ...change });
    expect(await remove({ beforeMs: 0 })).toBe(0);
    expect(await remove({ limit: 1 })).toBe(1);
    expect((await readFeed(db))?.removedTo).toBe(1);
    await db.sql`UPDATE usage_export SET appended_at_ms = 5 WHERE request_id = 'r2'`;
    expect(await remove({ beforeMs: 6 })).toBe(1);
    expect(await remove({})).toBe(1);
    expect(await listIds(db)).toEqual(["r4"]);
    expect(await remove({})).toBe(0);
    await insertUsage(db, rows("r5"));
    expect((await readEntries(db, ALL)).at(-1)).toMatchObject({ feedNo: 5, requestId: "r5" });
  });

  test("the horizon stops before a transaction that commits late, and no entry appears below it", async () => {
    const db = await open();
    await transaction(db, (tx) => enableFeed(tx, "feed_1"));
    await insertUsage(db, rows("r1"));
    const horizon = new FeedHorizon(db);
    expect(await horizon.advance()).toBe(1);
    if (!isSharedServer(db)) return;
    const endLate = await beginInsert(db, "late");
    await insertUsage(db, rows("r3"));
    // r3 is committed and visible, but the number before it is not.
    expect(await listIds(db)).toEqual(["r1", "r3"]);
    for (let i = 0; i < 3; i += 1) expect(await horizon.advance()).toBe(1);
    expect(await new FeedHorizon(db).settle(60)).toBe(0);
    await endLate();
    expect(await horizon.advance()).toBe(3);
    expect(await listIds(db)).toEqual(["r1", "late", "r3"]);
  });

  test("a role that may only read and write tables appends to the feed", async () => {
    const db = await open();
    await transaction(db, (tx) => enableFeed(tx, "feed_1"));
    if (!isSharedServer(db)) return;
    const role = `writer_${process.pid}_${Date.now()}`;
    await db.sql.script(
      `CREATE ROLE ${role}; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO ${role}`,
    );
    const entries = await transaction(db, async (tx) => {
      await tx.sql.script(`SET LOCAL ROLE ${role}`);
      await insertUsage(tx, rows("r1"));
      return [await new FeedHorizon(tx).readLast(), await listIds(tx)];
    });
    expect(entries).toEqual([1, ["r1"]]);
    await db.sql.script(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
  });

  test("rows of a partitioned table are appended once, and new partitions append nothing", async () => {
    const db = await open();
    await transaction(db, (tx) => enableFeed(tx, "feed_1"));
    if (!isSharedServer(db)) return;
    await insertUsage(db, rows("r1"));
    const job = { db, nowMs: Date.now(), lease: { check: async () => {} } };
    await createPartitionsAhead(job, null);
    await insertUsage(db, [...rows("r2"), usageRow({ requestId: "r3", outcome: "pending" })]);
    await settlePending(db, "r3", null, "completed");
    const ids = await listIds(db);
    expect([ids[0], ids.slice(1, 3).toSorted(), ids.slice(3)]).toEqual(["r1", ["r2", "r3"], ["r3"]]);
  });

  test("the horizon moves although some transaction is always open", async () => {
    const db = await open();
    await transaction(db, (tx) => enableFeed(tx, "feed_1"));
    if (!isSharedServer(db)) return;
    const horizon = new FeedHorizon(db);
    await insertUsage(db, rows("r0"));
    let endBefore = await beginInsert(db, "r1");
    const seen: number[] = [];
    for (const id of ["r2", "r3", "r4"]) {
      await horizon.advance();
      const endThis = await beginInsert(db, id);
      await endBefore();
      endBefore = endThis;
      seen.push(await horizon.advance());
    }
    await endBefore();
    expect(seen).toEqual([2, 3, 4]);
    expect(await horizon.advance()).toBe(5);
  });

  test("concurrent writers and a reader: every row is read once, in order", async () => {
    const db = await open();
    await transaction(db, (tx) => enableFeed(tx, "feed_1"));
    await insertUsage(db, rows("first"));
    const horizon = new FeedHorizon(db);
    const wanted = ["first"];
    const write = async (name: string) => {
      for (let i = 0; i < 40; i += 1) {
        const ids = Array.from({ length: 1 + (i % 5) }, (_, k) => `${name}-${i}-${k}`);
        wanted.push(...ids);
        await insertUsage(db, rows(...ids));
      }
    };
    const read: string[] = [];
    let position = 0;
    const readOn = async () => {
      const entries = await readEntries(db, { ...ALL, after: position, to: await horizon.advance() });
      read.push(...entries.map(({ requestId }) => requestId));
      position = entries.at(-1)?.feedNo ?? position;
    };
    let isOver = false;
    const writers = Promise.all(["a", "b", "c", "d"].map(write)).finally(() => {
      isOver = true;
    });
    while (!isOver) await readOn();
    await writers;
    await readOn();
    expect(read.toSorted()).toEqual(wanted.toSorted());
  });
});
