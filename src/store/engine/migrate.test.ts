import { expect, test } from "bun:test";
import { eachEngine, onPostgres } from "../../../test/support/each-engine.ts";
import { eventually } from "../../../test/support/eventually.ts";
import { MIGRATIONS, type Migration } from "../migrations/index.ts";
import { registerProcess } from "../money/processes.ts";
import { findUsage } from "../usage/usage.ts";
import { insertUsage, usageRow } from "../usage/usage-row.test-support.ts";
import { type Db, openDb, transaction } from "./db.ts";
import { changesAhead, findWaitingMigrations, finishMigrations, migrate, ProgramTooOld } from "./migrate.ts";
import { readRevisions } from "./revisions.ts";

const newest = MIGRATIONS.at(-1)?.version ?? 0;
const later: Migration = {
  version: newest + 1,
  name: "later",
  sql: "CREATE TABLE later (a BIGINT); INSERT INTO later (a) VALUES (7);",
};

/** Removes the table of `later`, which programs that know `later` no longer use. */
const contract: Migration = {
  version: newest + 2,
  name: "contract",
  sql: "DROP TABLE later;",
  phase: { kind: "contract", oldestReader: newest + 1 },
};

const processRecord = (id: string) => ({
  id,
  host: "h",
  pid: 1,
  startedAtMs: 1,
  beatAtMs: 1,
  folderId: null,
  startTicks: null,
});

async function applyAll(db: Db, migrations: readonly Migration[]): Promise<void> {
  await migrate(db, migrations);
  await finishMigrations(db, migrations);
}

test("migrations are numbered from one without a gap", () => {
  expect(MIGRATIONS.map(({ version }) => version)).toEqual(MIGRATIONS.map((_, index) => index + 1));
});

eachEngine(({ emptyUrl, open }) => {
  test("an empty database is migrated to the newest version, and a second run changes nothing", async () => {
    const db = await openDb(await emptyUrl());
    expect(await migrate(db)).toEqual({ from: 0, to: newest });
    expect(await migrate(db)).toEqual({ from: newest, to: newest });
    expect(await readRevisions(db)).toEqual({ policy: 1, keys: 1 });
    await db.close();
  });

  test("processes that start together all succeed, and one of them migrates", async () => {
    const url = await emptyUrl();
    const connections = await Promise.all(Array.from({ length: 4 }, () => openDb(url)));
    const results = await Promise.all(connections.map((db) => migrate(db)));
    expect(results.map(({ from }) => from).sort()).toEqual([0, newest, newest, newest]);
    for (const db of connections) await db.close();
  });

  test("rows from before a migration are kept, with the defaults of its columns", async () => {
    const db = await openDb(await emptyUrl());
    await migrate(db);
    const row = usageRow({ requestId: "r1", trace: "{}" });
    await insertUsage(db, [row]);
    const addsColumn = { ...later, sql: "ALTER TABLE usage_row ADD COLUMN later BIGINT NOT NULL DEFAULT 7" };
    expect(await migrate(db, [...MIGRATIONS, addsColumn])).toEqual({ from: newest, to: newest + 1 });
    expect(await db.sql`SELECT later FROM usage_row`).toEqual([{ later: 7 }]);
    expect(await findUsage(db, "r1")).toEqual(row);
    // A program of the version before writes on.
    await insertUsage(db, [{ ...row, requestId: "r2" }]);
    expect(await db.sql`SELECT later FROM usage_row`).toEqual([{ later: 7 }, { later: 7 }]);
    await db.close();
  });

  test("a row that is written while rows are rewritten is not lost", async () => {
    const url = await emptyUrl();
    const [writer, db] = [await openDb(url), await openDb(url)];
    await migrate(db);
    const rewrites: Migration = {
      ...later,
      sql: "UPDATE usage_row SET wait_ms = wait_ms + 1",
      phase: { kind: "offline", locks: ["usage_row"] },
    };
    const row = usageRow({ waitMs: 4 });
    let migrated: Promise<unknown> = Promise.resolve();
    await transaction(writer, async (tx) => {
      await insertUsage(tx, [row]);
      migrated = migrate(db, [...MIGRATIONS, rewrites]);
      // The migration waits for this transaction by then; SQLite has no list of waiting writers.
      await Bun.sleep(200);
    });
    await migrated;
    expect(await findUsage(db, row.requestId)).toEqual({ ...row, waitMs: 5 });
    await writer.close();
    await db.close();
  });

  test("pending migrations of an older database can be listed before they run", async () => {
    const db = await openDb(await emptyUrl());
    expect(await changesAhead(db)).toBeNull();
    await migrate(db);
    const slow: Migration = { ...later, phase: { kind: "offline", locks: [], takes: "Long." } };
    const withSlow = [...MIGRATIONS, slow];
    expect(await changesAhead(db, withSlow)).toEqual({ from: newest, to: newest + 1, takes: ["Long."] });
    await migrate(db, withSlow);
    expect(await changesAhead(db, withSlow)).toBeNull();
    await db.close();
  });

  test("only missing migrations are applied", async () => {
    const db = await open();
    expect(await migrate(db, [...MIGRATIONS, later])).toEqual({ from: newest, to: newest + 1 });
    expect(await db.sql`SELECT a FROM later`).toEqual([{ a: 7 }]);
  });

  test("a program runs on a database with later migrations that only add", async () => {
    const db = await open();
    await migrate(db, [...MIGRATIONS, later]);
    expect(await migrate(db)).toEqual({ from: newest + 1, to: newest + 1 });
    expect(await changesAhead(db)).toBeNull();
    await registerProcess(db, processRecord("inc_old"));
  });

  test("a program is rejected by a database that has removed what it needs", async () => {
    const db = await open();
    await applyAll(db, [...MIGRATIONS, later, contract]);
    const error = await migrate(db).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ProgramTooOld);
    expect(String(error)).toContain(`requires a version that knows schema ${newest + 1}`);
    expect(String(error)).toContain(`up to ${newest}`);
    const registered = await registerProcess(db, processRecord("inc_late")).catch(
      (reason: unknown) => reason,
    );
    expect(registered).toBeInstanceOf(ProgramTooOld);
    expect(await migrate(db, [...MIGRATIONS, later])).toEqual({ from: newest + 2, to: newest + 2 });
  });

  test("a database that was created with all migrations has applied those that remove as well", async () => {
    const db = await openDb(await emptyUrl());
    await migrate(db, [...MIGRATIONS, later, contract]);
    expect(await db.sql`SELECT a FROM later`.catch(() => "no table")).toBe("no table");
    await db.close();
  });

  test("a migration that fails leaves nothing behind", async () => {
    const db = await open();
    const broken = { ...later, sql: "CREATE TABLE half (a BIGINT); INSERT INTO nowhere (a) VALUES (1);" };
    expect(await migrate(db, [...MIGRATIONS, broken]).catch(() => "failed")).toBe("failed");
    expect(await db.sql`SELECT a FROM half`.catch(() => "no table")).toBe("no table");
    expect(await migrate(db)).toEqual({ from: newest, to: newest });
  });
});

onPostgres(({ emptyUrl }) => {
  test("a migration that removes waits for the last process that needs it", async () => {
    const db = await openDb(await emptyUrl());
    await migrate(db);
    await registerProcess(db, processRecord("inc_old"));
    const next = [...MIGRATIONS, later, contract];
    expect(await migrate(db, next)).toEqual({ from: newest, to: newest + 2 });
    expect(await db.sql`SELECT a FROM later`).toEqual([{ a: 7 }]);
    const waiting = [{ name: "contract", processIds: ["inc_old"] }];
    expect(await findWaitingMigrations(db, next)).toEqual(waiting);
    expect(await finishMigrations(db, next)).toEqual({ applied: [], waiting });
    await db.sql`DELETE FROM process`;
    expect(await finishMigrations(db, next)).toEqual({ applied: ["contract"], waiting: [] });
    expect(await db.sql`SELECT a FROM later`.catch(() => "no table")).toBe("no table");
    await db.close();
  });

  test("a migration waits briefly for a lock, lets the queue behind it pass, and tries again", async () => {
    const url = await emptyUrl();
    const [db, other] = [await openDb(url), await openDb(url)];
    await migrate(db);
    const addColumn: Migration = { ...later, sql: "ALTER TABLE setting ADD COLUMN later BIGINT" };
    let migrated: Promise<unknown> = Promise.resolve();
    const readMs: number[] = [];
    await transaction(other, async (tx) => {
      await tx.sql`SELECT name FROM setting`;
      migrated = migrate(db, [...MIGRATIONS, addColumn]);
      await eventually(async () => {
        const waiting = await tx.sql`
          SELECT 1 FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
          WHERE NOT granted AND datname = current_database() AND relation = 'setting'::regclass`;
        return waiting.length > 0;
      });
      // Queues behind the migration until that gives up.
      const startedMs = performance.now();
      await db.sql`SELECT name FROM setting`;
      readMs.push(performance.now() - startedMs);
    });
    await migrated;
    expect(readMs[0]).toBeWithin(1_000, 10_000);
    expect(await db.sql`SELECT later FROM setting`).toEqual([]);
    for (const opened of [db, other]) await opened.close();
  }, 60_000);
});
