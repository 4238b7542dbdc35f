import { afterEach, beforeEach, expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Db, openDb, ReadRejected, snapshot, transaction } from "./db.ts";
import { openSqliteReader, READER_LIMITS } from "./sqlite-reader.ts";

/** Runs for seconds, and returns one row. */
const LONG = (rows: number) =>
  `WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${rows}) SELECT COUNT(*) AS many FROM numbers`;

let folder: string;
let path: string;
let db: Db;
const opened: Db[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "gateway-reader-"));
  path = join(folder, "gateway.db");
  db = await openDb(`sqlite:${path}`);
  await db.sql.script("CREATE TABLE line (no BIGINT, text TEXT)");
  await db.sql`INSERT INTO line (no, text) VALUES (1, 'one')`;
});
afterEach(async () => {
  for (const reader of opened.splice(0)) await reader.close();
  await db.close();
  rmSync(folder, { recursive: true, force: true });
});

function openReader(limits: Partial<typeof READER_LIMITS> = {}): Db {
  const reader = openSqliteReader(path, { ...READER_LIMITS, ...limits });
  opened.push(reader);
  return reader;
}

test("reads what was committed before, with values of every type", async () => {
  await db.sql`INSERT INTO line (no, text) VALUES (2, NULL)`;
  expect(await db.reports.sql`SELECT no, text FROM line WHERE no < ${9} ORDER BY no`).toEqual([
    { no: 1, text: "one" },
    { no: 2, text: null },
  ]);
});

test("does not wait for an open transaction, and does not see it", async () => {
  await transaction(db, async (tx) => {
    await tx.sql`INSERT INTO line (no) VALUES (2)`;
    expect(await db.reports.sql`SELECT no FROM line`).toEqual([{ no: 1 }]);
    // Reports of a transaction belong to it.
    expect(await tx.reports.sql`SELECT no FROM line ORDER BY no`).toEqual([{ no: 1 }, { no: 2 }]);
  });
});

test("a snapshot does not change", async () => {
  await snapshot(db.reports, async (tx) => {
    expect(await tx.sql`SELECT COUNT(*) AS many FROM line`).toEqual([{ many: 1 }]);
    await db.sql`INSERT INTO line (no) VALUES (2)`;
    expect(await tx.sql`SELECT COUNT(*) AS many FROM line`).toEqual([{ many: 1 }]);
  });
  expect(await db.reports.sql`SELECT COUNT(*) AS many FROM line`).toEqual([{ many: 2 }]);
});

test("cannot write", async () => {
  await expect(Promise.resolve(db.reports.sql`DELETE FROM line`)).rejects.toThrow("readonly");
  await expect(transaction(db.reports, (tx) => tx.sql`DELETE FROM line`)).rejects.toThrow("readonly");
  expect(await db.reports.sql`SELECT no FROM line`).toEqual([{ no: 1 }]);
});

test("a failed statement fails alone, with the text of the engine", async () => {
  await expect(Promise.resolve(db.reports.sql`SELECT absent FROM line`)).rejects.toThrow("no such column");
  expect(await db.reports.sql`SELECT no FROM line`).toEqual([{ no: 1 }]);
});

test("a long statement does not hold the event loop", async () => {
  const before = process.threadCpuUsage();
  expect(await db.reports.sql.text(LONG(300_000), [])).toEqual([{ many: 300_000 }]);
  const { user, system } = process.threadCpuUsage(before);
  // At once it takes 90 ms.
  expect((user + system) / 1_000).toBeLessThan(45);
});

test("a statement that takes too long is rejected, and the next one is served", async () => {
  const reader = openReader({ statementMs: 2_000 });
  await reader.sql`SELECT 1`;
  const running = [reader.sql.text(LONG(12_000_000), []), reader.sql`SELECT no FROM line`];
  await expect(running[0]).rejects.toThrow(ReadRejected);
  expect(await running[1]).toEqual([{ no: 1 }]);
});

test("rejects reads when too many wait", async () => {
  const reader = openReader({ waitingMax: 2 });
  const reads = [1, 2, 3].map((no) => reader.sql`SELECT ${no} AS no`);
  expect(await Promise.allSettled(reads)).toMatchObject([
    { status: "fulfilled" },
    { status: "fulfilled" },
    { status: "rejected", reason: { name: "ReadRejected" } },
  ]);
  expect(await reader.sql`SELECT 4 AS no`).toEqual([{ no: 4 }]);
});

test("a thread that is not used is ended, and the next read starts another", async () => {
  const reader = openReader({ idleMs: 10 });
  expect(await reader.sql`SELECT no FROM line`).toEqual([{ no: 1 }]);
  await Bun.sleep(100);
  expect(await reader.sql`SELECT no FROM line`).toEqual([{ no: 1 }]);
});

test("closing ends a statement that runs, and removes the write-ahead log of an idle reader", async () => {
  const reader = openReader();
  const running = reader.sql.text(LONG(3_000_000), []);
  await Bun.sleep(50);
  await reader.close();
  await expect(running).rejects.toThrow("closed");
  await expect(Promise.resolve(reader.sql`SELECT 1`)).rejects.toThrow(ReadRejected);

  const other = await openDb(`sqlite:${join(folder, "other.db")}`);
  await other.sql.script("CREATE TABLE line (no BIGINT)");
  await other.reports.sql`SELECT no FROM line`;
  await other.close();
  expect(existsSync(join(folder, "other.db-wal"))).toBe(false);
});

test("a database in memory has no other thread", async () => {
  const memory = await openDb("sqlite::memory:");
  expect(memory.reports).toBe(memory);
  await memory.close();
});
