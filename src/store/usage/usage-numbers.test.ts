import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { type Db, openDb, transaction } from "../engine/db.ts";
import { migrate } from "../engine/migrate.ts";
import { CorruptRow } from "../engine/row.ts";
import { findUsage, insertNewUsage, learnBefore, settlePending, type UsageRow } from "./usage.ts";
import { Numbering, UsageNumbers } from "./usage-numbers.ts";
import { insertUsage, usageRow } from "./usage-row.test-support.ts";

const insertWith = (db: Db, numbers: UsageNumbers, rows: readonly UsageRow[]) =>
  numbers.within(db, (tx, numbering) => insertNewUsage(tx, numbering, rows));

const writeRows = async (db: Db, rows: readonly UsageRow[]) => {
  for (const row of rows) expect(await findUsage(db, row.requestId)).toEqual(row);
};

const countRows = async (db: Db, table: string) =>
  Number((await db.sql.text(`SELECT COUNT(*) AS many FROM ${table}`, []))[0]?.many);

eachEngine(({ open, emptyUrl }) => {
  test("values shared by many rows are stored once", async () => {
    const db = await open();
    const rows = Array.from({ length: 50 }, (_, i) => usageRow({ userId: "u1", accountId: `a${i % 2}` }));
    await insertUsage(db, rows.slice(0, 20));
    await insertUsage(db, rows.slice(20));
    await writeRows(db, rows);
    expect(await countRows(db, "usage_id")).toBe(5);
    expect(await countRows(db, "usage_kind")).toBe(1);
  });

  test("known numbers are not queried again", async () => {
    const db = await open();
    const numbers = new UsageNumbers();
    await insertWith(db, numbers, [usageRow({ userId: "u1" })]);
    const numbering = new Numbering(numbers);
    expect([...numbers.ids.keys()].sort()).toEqual(["g1", "k1", "u1"]);
    for (const [id, no] of numbers.ids) expect(numbering.lookUpId(id)).toBe(no);
    await transaction(db, async (tx) => expect(await numbering.register(tx)).toBe(false));
  });

  test("a failed transaction clears the cached numbers", async () => {
    const db = await open();
    const numbers = new UsageNumbers();
    await insertWith(db, numbers, [usageRow({ requestId: "known" })]);
    const fails = [usageRow({ requestId: "known", keyId: "k2", publicModel: "slow" })];
    await expect(insertWith(db, numbers, fails)).rejects.toThrow();
    expect(numbers.ids.size + numbers.kinds.size).toBe(0);
    const rows = [usageRow({ keyId: "k2", publicModel: "slow" })];
    await insertWith(db, numbers, rows);
    await writeRows(db, rows);
  });

  test("numbers cleared during a transaction are not cached again by it", async () => {
    const db = await open();
    const numbers = new UsageNumbers();
    await numbers.within(db, async (tx, numbering) => {
      await insertNewUsage(tx, numbering, [usageRow()]);
      numbers.forget();
    });
    expect(numbers.ids.size + numbers.kinds.size).toBe(0);
  });

  test("on PostgreSQL, numbers learned beforehand need no queries during the insert", async () => {
    const db = await open();
    const numbers = new UsageNumbers();
    const rows = [usageRow({ userId: "u1" }), usageRow({ outcome: "refused" })];
    await learnBefore(db, numbers, rows);
    expect(numbers.ids.size).toBe(db.engine === "postgres" ? 3 : 0);
    const numbering = new Numbering(numbers);
    if (db.engine === "postgres") {
      await transaction(db, async (tx) => {
        await insertNewUsage(tx, numbering, rows);
        expect(await numbering.register(tx)).toBe(false);
      });
    } else await insertWith(db, numbers, rows);
    await writeRows(db, rows);
  });

  test("on PostgreSQL, cached numbers are trusted for a limited time", async () => {
    const db = await open();
    const numbers = new UsageNumbers();
    await insertWith(db, numbers, [usageRow()]);
    await db.sql`DELETE FROM usage_id`;
    for (let i = 0; i < 500; i++) await numbers.within(db, async () => {});
    if (db.engine === "sqlite") return expect(numbers.ids.size).toBe(2);
    const rows = [usageRow()];
    await insertWith(db, numbers, rows);
    await writeRows(db, rows);
  });

  test("a deleted number is assigned again with the same value", async () => {
    const db = await open();
    const [before, after] = [usageRow(), usageRow()];
    await insertUsage(db, [before]);
    await db.sql`DELETE FROM usage_id`;
    await db.sql`DELETE FROM usage_kind`;
    await insertUsage(db, [after]);
    await writeRows(db, [before, after]);
  });

  test("a number that is used by another value is not assigned", async () => {
    const db = await open();
    const numbers = new UsageNumbers();
    await insertWith(db, numbers, [usageRow()]);
    await db.sql`DELETE FROM usage_row`;
    await db.sql`UPDATE usage_id SET id = id || '-other'`;
    await db.sql`UPDATE usage_kind SET digest = digest || '-other', status = 500`;
    const rows = [usageRow()];
    await insertUsage(db, rows);
    await writeRows(db, rows);
    expect(await countRows(db, "usage_id")).toBe(4);
  });

  test("an id that the database does not return unchanged is rejected", async () => {
    const db = await open();
    await expect(insertUsage(db, [usageRow({ accountId: "a\ud800" })])).rejects.toThrow(CorruptRow);
  });

  test("concurrent writers of the same ids agree on their numbers", async () => {
    const url = await emptyUrl();
    const [one, two] = [await openDb(url), await openDb(url)];
    await migrate(one);
    const buildRows = (first: number) =>
      Array.from({ length: 30 }, (_, i) =>
        usageRow({ keyId: `k${first + i}`, userId: `u${i}`, status: 200 + i }),
      );
    const all = [buildRows(0), buildRows(20), buildRows(40), buildRows(10)];
    await Promise.all(all.map((rows, i) => insertWith(i % 2 === 0 ? one : two, new UsageNumbers(), rows)));
    await writeRows(one, all.flat());
    expect(await countRows(one, "usage_id")).toBe(70 + 30 + 1);
    expect(await countRows(one, "usage_kind")).toBe(30);
    await one.close();
    await two.close();
  });

  test("unknown models of rejected requests are stored in their rows, not in the kinds", async () => {
    const db = await open();
    const rows = Array.from({ length: 40 }, (_, i) => usageRow({ outcome: "refused", publicModel: `x${i}` }));
    await insertUsage(db, rows);
    await writeRows(db, rows);
    expect(await db.sql`SELECT public_model FROM usage_kind`).toEqual([{ public_model: "" }]);
  });

  test("settling a pending row changes its kind and not other rows of that kind", async () => {
    const db = await open();
    const rows = ["r1", "r2"].map((requestId) => usageRow({ requestId, outcome: "pending" }));
    await insertUsage(db, rows);
    expect(await settlePending(db, "r1", null, "completed")).toBe(true);
    expect(await settlePending(db, "r1", null, "failed")).toBe(false);
    expect((await findUsage(db, "r1"))?.outcome).toBe("completed");
    expect((await findUsage(db, "r2"))?.outcome).toBe("pending");
  });

  test("the cache is bounded", async () => {
    const db = await open();
    const numbers = new UsageNumbers();
    for (let i = 0; i <= 100_000; i++) numbers.ids.set(`gone${i}`, i);
    await insertWith(db, numbers, [usageRow()]);
    expect([...numbers.ids.keys()].sort()).toEqual(["g1", "k1"]);
  });
});
