/** Applies the schema migrations. */

import { MIGRATIONS, type Migration } from "../migrations/index.ts";
import { type Db, transaction } from "./db.ts";
import { integer } from "./row.ts";

/** Id of PostgreSQL's advisory lock for migrations; any fixed number. */
const ADVISORY_LOCK_ID = 6_034_270_118;

/** SQL for SQLite only. Other engines read it as a comment. */
const SQLITE_ONLY = /\/\* sqlite: ([A-Z ]+) \*\//g;

export class SchemaTooNew extends Error {
  override readonly name = "SchemaTooNew";
}

/** Migrates the database to the schema of this program. Two processes that start at the same time both succeed. */
export async function migrate(
  db: Db,
  migrations: readonly Migration[] = MIGRATIONS,
): Promise<{ from: number; to: number }> {
  const to = migrations.at(-1)?.version ?? 0;
  // First check without a lock: most starts change nothing, and the database role may lack the right to change the
  // schema.
  const current = await readSchemaVersion(db);
  rejectNewer(current, to);
  if (current === to) return { from: current, to };
  return transaction(db, async (tx) => {
    if (tx.engine === "postgres") await tx.sql`SELECT pg_advisory_xact_lock(${ADVISORY_LOCK_ID})`;
    // Not `hasVersions`: PostgreSQL may answer it from a snapshot taken before this connection waited for the lock.
    await tx.sql`CREATE TABLE IF NOT EXISTS migration (version BIGINT PRIMARY KEY, name TEXT NOT NULL)`;
    const from = await readVersion(tx);
    rejectNewer(from, to);
    const pending = migrations.filter(({ version }) => version > from);
    // Lock all tables first. A writer then waits before it holds a lock that a migration needs.
    if (tx.engine === "postgres" && from > 0) {
      const tables = new Set(pending.flatMap(({ locks = [] }) => locks));
      for (const table of tables) await lockTable(tx, table);
    }
    for (const { version, name, sql } of pending) {
      await tx.sql.script(tx.engine === "sqlite" ? sql.replaceAll(SQLITE_ONLY, "$1") : sql);
      await tx.sql`INSERT INTO migration (version, name) VALUES (${version}, ${name})`;
    }
    return { from, to };
  });
}

/** Skips a table that a later migration creates. */
async function lockTable(tx: Db, table: string): Promise<void> {
  const found = await tx.sql`SELECT 1 AS found WHERE to_regclass(${table}) IS NOT NULL`;
  if (found.length > 0) await tx.sql.script(`LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);
}

function rejectNewer(present: number, known: number): void {
  if (present <= known) return;
  throw new SchemaTooNew(
    `The database has schema ${present}, this program knows schemas up to ${known}. Run the newer version, or restore a backup.`,
  );
}

/** Returns 0 for an empty database. */
async function readSchemaVersion(db: Db): Promise<number> {
  return (await hasVersions(db)) ? await readVersion(db) : 0;
}

/** Describes what the next start would change in a store of an earlier version; null if nothing. */
export async function changesAhead(
  db: Db,
  migrations: readonly Migration[] = MIGRATIONS,
): Promise<{ from: number; to: number; takes: string[] } | null> {
  const from = await readSchemaVersion(db);
  const pending = migrations.filter(({ version }) => version > from);
  const last = pending.at(-1);
  if (from === 0 || last === undefined) return null;
  return { from, to: last.version, takes: pending.flatMap(({ takes }) => takes ?? []) };
}

/** Whether the database is a gateway store, of any version. */
export async function hasVersions(db: Db): Promise<boolean> {
  const found =
    db.engine === "postgres"
      ? await db.sql`SELECT 1 AS found WHERE to_regclass('migration') IS NOT NULL`
      : await db.sql`SELECT 1 AS found FROM sqlite_master WHERE type = 'table' AND name = 'migration'`;
  return found.length > 0;
}

async function readVersion(db: Db): Promise<number> {
  const [row] = await db.sql`SELECT COALESCE(MAX(version), 0) AS version FROM migration`;
  return row === undefined ? 0 : integer(row, "version");
}
