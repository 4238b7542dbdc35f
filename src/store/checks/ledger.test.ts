import { expect, test } from "bun:test";
import { type Db, openDb } from "../engine/db.ts";
import { migrate } from "../engine/migrate.ts";
import { type LedgerCheck, runCheck } from "./ledger.ts";

test.each<[string, LedgerCheck]>([
  ["rows without entry", "row_entry"],
  ["entries without row", "entry_row"],
  ["wrong charges", "row_charge"],
  ["excess refunds", "refund"],
])("SQLite finds %s by existing indexes, without materializing rows", async (_what, check) => {
  const db = await openDb("sqlite::memory:");
  await migrate(db);
  const plans: string[] = [];
  const text: Db["sql"]["text"] = async (asked, values) => {
    const plan = await db.sql.text(`EXPLAIN QUERY PLAN ${asked}`, values);
    plans.push(...plan.map(({ detail }) => String(detail)));
    return db.sql.text(asked, values);
  };
  const observed = { ...db, sql: Object.assign(db.sql.bind(null), db.sql, { text }) };
  await runCheck(observed, check, { rowsSinceMs: 0, holdsBeforeMs: 0, limit: 9 });
  expect(plans.join("\n")).toContain("USING");
  expect(plans.filter((line) => /MATERIALIZE usage|AUTOMATIC/.test(line))).toEqual([]);
  await db.close();
});
