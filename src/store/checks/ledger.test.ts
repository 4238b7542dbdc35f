import { expect, test } from "bun:test";
import { type Db, openDb } from "../engine/db.ts";
import { migrate } from "../engine/migrate.ts";
import {
  findEntriesWithoutRow,
  findExcessRefunds,
  findRowsWithoutEntry,
  findWrongCharges,
} from "./ledger.ts";

test.each([
  ["rows without entry", (db: Db) => findRowsWithoutEntry(db, 9)],
  ["entries without row", (db: Db) => findEntriesWithoutRow(db, 0, 9)],
  ["wrong charges", (db: Db) => findWrongCharges(db, 9)],
  ["excess refunds", (db: Db) => findExcessRefunds(db, 0, 9)],
])("SQLite finds %s by existing indexes, without materializing rows", async (_what, question) => {
  const db = await openDb("sqlite::memory:");
  await migrate(db);
  const plans: string[] = [];
  const text: Db["sql"]["text"] = async (asked, values) => {
    const plan = await db.sql.text(`EXPLAIN QUERY PLAN ${asked}`, values);
    plans.push(...plan.map(({ detail }) => String(detail)));
    return db.sql.text(asked, values);
  };
  await question({ ...db, sql: Object.assign(db.sql.bind(null), db.sql, { text }) });
  expect(plans.join("\n")).toContain("USING");
  expect(plans.filter((line) => /MATERIALIZE usage|AUTOMATIC/.test(line))).toEqual([]);
  await db.close();
});
