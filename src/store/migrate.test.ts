import { expect, test } from "bun:test";
import { eachEngine } from "../../test/postgres.ts";
import { openDb } from "./db.ts";
import { migrate, SchemaTooNew } from "./migrate.ts";
import { MIGRATIONS } from "./migrations/index.ts";
import { readRevisions } from "./revisions.ts";

const newest = MIGRATIONS.length;
const later = {
  version: newest + 1,
  name: "later",
  sql: "CREATE TABLE later (a BIGINT); INSERT INTO later (a) VALUES (7);",
};

test("migrations are numbered from one without a gap", () => {
  expect(MIGRATIONS.map((migration) => migration.version)).toEqual(MIGRATIONS.map((_, index) => index + 1));
});

eachEngine(({ emptyUrl, open }) => {
  test("an empty database is brought up to the code, a second time changes nothing", async () => {
    const db = await openDb(await emptyUrl());
    expect(await migrate(db)).toEqual({ from: 0, to: newest });
    expect(await migrate(db)).toEqual({ from: newest, to: newest });
    expect(await readRevisions(db)).toEqual({ policy: 1, keys: 1 });
    await db.close();
  });

  test("processes that start together all succeed, and one of them does the work", async () => {
    const url = await emptyUrl();
    const connections = await Promise.all(Array.from({ length: 4 }, () => openDb(url)));
    const results = await Promise.all(connections.map((db) => migrate(db)));
    expect(results.map(({ from }) => from).sort()).toEqual([0, newest, newest, newest]);
    for (const db of connections) await db.close();
  });

  test("only what is missing is applied", async () => {
    const db = await open();
    expect(await migrate(db, [...MIGRATIONS, later])).toEqual({ from: newest, to: newest + 1 });
    expect(await db.sql`SELECT a FROM later`).toEqual([{ a: 7 }]);
  });

  test("a database newer than the code is refused", async () => {
    const db = await open();
    await migrate(db, [...MIGRATIONS, later]);
    const error = await migrate(db).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(SchemaTooNew);
    expect(String(error)).toContain(`schema ${newest + 1}`);
  });

  test("a migration that fails leaves nothing behind", async () => {
    const db = await open();
    const broken = { ...later, sql: "CREATE TABLE half (a BIGINT); INSERT INTO nowhere (a) VALUES (1);" };
    expect(await migrate(db, [...MIGRATIONS, broken]).catch(() => "failed")).toBe("failed");
    expect(await db.sql`SELECT a FROM half`.catch(() => "no table")).toBe("no table");
    expect(await migrate(db)).toEqual({ from: newest, to: newest });
  });
});
