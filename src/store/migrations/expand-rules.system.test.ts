/**
 * Holds migrations to the rules that let nodes of two versions run on one database. The rules read the effect of each
 * migration from PostgreSQL's catalogs, within its transaction.
 */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Postgres, startPostgres } from "../../../test/support/postgres.ts";
import { type Db, openDb, type Row } from "../engine/db.ts";
import { migrate } from "../engine/migrate.ts";
import { MIGRATIONS, type Migration } from "./index.ts";

let postgres: Postgres;
let db: Db;

beforeAll(async () => {
  postgres = await startPostgres();
  db = await openDb(postgres.url);
  await migrate(db, MIGRATIONS.slice(0, 1));
}, 300_000);

afterAll(async () => {
  await db?.close();
  await postgres?.stop();
});

class Rollback extends Error {}

interface Column {
  readonly type: string;
  readonly isRequired: boolean;
}

/** What a node of the earlier version relies on, and where each table is stored. */
interface Catalog {
  readonly files: ReadonlyMap<string, string>;
  readonly columns: ReadonlyMap<string, Column>;
  readonly checks: ReadonlySet<string>;
}

async function readCatalog(tx: Db): Promise<Catalog> {
  const tables = await tx.sql`
    SELECT relname AS name, CAST(pg_relation_filenode(oid) AS TEXT) AS file FROM pg_class
    WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace`;
  const columns = await tx.sql`
    SELECT table_name || '.' || column_name AS name, data_type AS type,
      CASE WHEN is_nullable = 'NO' AND column_default IS NULL THEN 1 ELSE 0 END AS required
    FROM information_schema.columns WHERE table_schema = 'public'`;
  const checks = await tx.sql`
    SELECT conrelid::regclass || ': ' || pg_get_constraintdef(oid) AS name FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace AND contype <> 'n'`;
  return {
    files: new Map(tables.map((row) => [String(row.name), String(row.file)])),
    columns: new Map(
      columns.map((row) => [String(row.name), { type: String(row.type), isRequired: row.required === 1 }]),
    ),
    checks: new Set(checks.map((row) => String(row.name))),
  };
}

/** Locks of this transaction that block readers or writers. */
async function listBlockingLocks(tx: Db): Promise<Row[]> {
  return tx.sql`
    SELECT relation::regclass::text AS name, mode FROM pg_locks
    WHERE pid = pg_backend_pid() AND locktype = 'relation'
      AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')`;
}

/**
 * How often rows of each table were read or changed. The counts include transactions of the last second that the
 * connection has not reported yet, so only differences count. The table `migration` belongs to the program that runs
 * migrations.
 */
async function countRowAccesses(tx: Db): Promise<Map<string, number>> {
  const rows = await tx.sql`
    SELECT relname AS name, COALESCE(seq_scan, 0) + COALESCE(idx_scan, 0) + n_tup_upd + n_tup_del AS accesses
    FROM pg_stat_xact_user_tables WHERE relname <> 'migration'`;
  return new Map(rows.map(({ name, accesses }) => [String(name), Number(accesses)]));
}

/**
 * Locks of changes to the catalog, which last as long as the transaction: milliseconds. Adding a column takes the first,
 * creating a trigger the second. A foreign key takes the second as well, and is reported as a constraint.
 */
const CATALOG_LOCKS: ReadonlySet<string> = new Set(["AccessExclusiveLock", "ShareRowExclusiveLock"]);

/** Lists what breaks the rules for a migration that is applied while nodes of the earlier version run. */
async function findBreaches(tx: Db, { sql }: Pick<Migration, "sql">): Promise<string[]> {
  const before = await readCatalog(tx);
  const accessesBefore = await countRowAccesses(tx);
  await tx.sql.script(sql);
  const accesses = await countRowAccesses(tx);
  const after = await readCatalog(tx);
  const blocking = await listBlockingLocks(tx);
  const breaches: string[] = [];
  for (const [name, file] of before.files) {
    if (!after.files.has(name)) breaches.push(`removes the table ${name}`);
    else if (after.files.get(name) !== file) breaches.push(`rewrites the table ${name}`);
  }
  for (const [name, { type }] of before.columns) {
    const now = after.columns.get(name);
    if (now === undefined) breaches.push(`removes the column ${name}`);
    else if (now.type !== type) breaches.push(`changes the type of ${name}`);
    else if (now.isRequired && !before.columns.get(name)?.isRequired)
      breaches.push(`requires a value in ${name}`);
  }
  for (const [name, { isRequired }] of after.columns) {
    const isNew = !before.columns.has(name) && before.files.has(name.split(".")[0] ?? "");
    if (isNew && isRequired) breaches.push(`requires a value in ${name}, which the earlier version omits`);
  }
  for (const check of after.checks) {
    const isNew = !before.checks.has(check) && before.files.has(check.split(":")[0] ?? "");
    if (isNew && !check.endsWith("NOT VALID")) breaches.push(`adds a constraint to a table: ${check}`);
  }
  for (const { name, mode } of blocking) {
    if (!CATALOG_LOCKS.has(String(mode)) && before.files.has(String(name)))
      breaches.push(`blocks writes to ${name} (${mode})`);
  }
  for (const [name, count] of accesses) {
    const isTouched = count > (accessesBefore.get(name) ?? 0);
    if (isTouched && before.files.has(name))
      breaches.push(`reads or changes rows of ${name} under its locks`);
  }
  return breaches.sort();
}

async function findBreachesOnCopy(sql: string): Promise<string[]> {
  let breaches: string[] = [];
  const run = db.begin("write", async (tx) => {
    breaches = await findBreaches(tx, { sql });
    throw new Rollback();
  });
  await run.catch((error: unknown) => {
    if (!(error instanceof Rollback)) throw error;
  });
  return breaches;
}

/** Later migrations that keep the rules. */
const ADDITIONS: readonly [what: string, sql: string][] = [
  ["a nullable column", "ALTER TABLE setting ADD later TEXT"],
  ["a constant default", "ALTER TABLE usage_row ADD later BIGINT NOT NULL DEFAULT 7"],
  ["a table with an index", "CREATE TABLE later (a BIGINT); CREATE INDEX later_a ON later (a)"],
  ["a view", "CREATE VIEW later AS SELECT name FROM setting"],
  ["an unchecked constraint", "ALTER TABLE wallet ADD CHECK (held_nano < 9) NOT VALID"],
];

describe("a migration without a phase only adds, and holds no lock while it reads or changes rows", () => {
  test.each(ADDITIONS)("%s", async (_, sql) => {
    expect(await findBreachesOnCopy(sql)).toEqual([]);
  });

  for (const migration of MIGRATIONS.slice(1)) {
    test(`${migration.version} ${migration.name}`, async () => {
      if ((migration.phase?.kind ?? "expand") === "expand")
        expect(await findBreachesOnCopy(migration.sql)).toEqual([]);
      await migrate(
        db,
        MIGRATIONS.filter(({ version }) => version <= migration.version),
      );
    });
  }
});

test("a migration that removes something names the programs that no longer need it", () => {
  for (const { version, phase } of MIGRATIONS)
    if (phase?.kind === "contract") expect(phase.oldestReader).toBeLessThan(version);
});

/** Each rule, broken on purpose. */
const BREACHES: readonly [what: string, sql: string, breach: RegExp][] = [
  ["a dropped table", "DROP TABLE billing_fault", /^removes the table billing_fault$/],
  ["a dropped column", "ALTER TABLE setting DROP COLUMN value", /^removes the column setting\.value$/],
  ["a renamed column", "ALTER TABLE setting RENAME value TO v", /^removes the column setting\.value$/],
  [
    "another type",
    "ALTER TABLE wallet_reservation ALTER amount_nano TYPE NUMERIC",
    /^(changes the type|rewrites)/,
  ],
  ["a required column", "ALTER TABLE setting ADD later TEXT NOT NULL", /^requires a value in setting\.later/],
  ["a default for each row", "ALTER TABLE setting ADD later TEXT DEFAULT random()", /^rewrites the table/],
  ["a stricter column", "ALTER TABLE process ALTER folder_id SET NOT NULL", /^requires a value in/],
  ["a constraint", "ALTER TABLE wallet ADD CHECK (balance_nano > -5)", /^adds a constraint to a table/],
  [
    "a foreign key",
    "ALTER TABLE setting ADD FOREIGN KEY (name) REFERENCES key_group (id)",
    /^adds a constraint/,
  ],
  ["an index", "CREATE INDEX later ON usage_row (wait_ms)", /^blocks writes to usage_row \(ShareLock\)$/],
  ["a backfill", "UPDATE usage_row SET wait_ms = 0", /^reads or changes rows of usage_row/],
];

describe("the rules notice", () => {
  for (const [what, sql, breach] of BREACHES) {
    test(what, async () => {
      const found = await findBreachesOnCopy(sql);
      expect(found.some((text) => breach.test(text))).toBe(true);
    });
  }
});
