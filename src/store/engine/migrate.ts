import { MIGRATIONS, type Migration } from "../migrations/index.ts";
import { type Db, transaction } from "./db.ts";
import { integer } from "./row.ts";

/** Any fixed number: the name of the lock among PostgreSQL's advisory locks. */
const LOCK = 6_034_270_118;

/** To every other engine this line is a comment. */
const FOR_SQLITE = /\/\* sqlite: ([A-Z ]+) \*\//g;

export class SchemaTooNew extends Error {
  override readonly name = "SchemaTooNew";
}

/** Brings the database up to the code. Two processes that start together both get through. */
export async function migrate(
  db: Db,
  migrations: readonly Migration[] = MIGRATIONS,
): Promise<{ from: number; to: number }> {
  const to = migrations.at(-1)?.version ?? 0;
  // Without a lock first: the usual start changes nothing, and its role may lack the right to.
  const present = await schemaOf(db);
  refuseNewer(present, to);
  if (present === to) return { from: present, to };
  return transaction(db, async (tx) => {
    if (tx.engine === "postgres") await tx.sql`SELECT pg_advisory_xact_lock(${LOCK})`;
    // Not `hasVersions`: PostgreSQL may answer that from what this connection knew before it waited for the lock.
    await tx.sql`CREATE TABLE IF NOT EXISTS migration (version BIGINT PRIMARY KEY, name TEXT NOT NULL)`;
    const from = await readVersion(tx);
    refuseNewer(from, to);
    const ahead = migrations.filter(({ version }) => version > from);
    // All of them first: whoever writes has to wait before it holds what is wanted here.
    if (tx.engine === "postgres" && from > 0) {
      const tables = new Set(ahead.flatMap(({ locks = [] }) => locks));
      for (const table of tables) await lockTable(tx, table);
    }
    for (const { version, name, sql } of ahead) {
      await tx.sql.script(tx.engine === "sqlite" ? sql.replaceAll(FOR_SQLITE, "$1") : sql);
      await tx.sql`INSERT INTO migration (version, name) VALUES (${version}, ${name})`;
    }
    return { from, to };
  });
}

/** A table that a migration further ahead creates is not there yet. */
async function lockTable(tx: Db, table: string): Promise<void> {
  const found = await tx.sql`SELECT 1 AS found WHERE to_regclass(${table}) IS NOT NULL`;
  if (found.length > 0) await tx.sql.script(`LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);
}

function refuseNewer(present: number, known: number): void {
  if (present <= known) return;
  throw new SchemaTooNew(
    `The database has schema ${present}, this program knows schemas up to ${known}. Run the newer version, or restore a backup.`,
  );
}

/** 0 of a database that has none. */
async function schemaOf(db: Db): Promise<number> {
  return (await hasVersions(db)) ? await readVersion(db) : 0;
}

/** What a start will do to a store of an earlier version, before it does; null if there is nothing to do. */
export async function changesAhead(
  db: Db,
  migrations: readonly Migration[] = MIGRATIONS,
): Promise<{ from: number; to: number; takes: string[] } | null> {
  const from = await schemaOf(db);
  const ahead = migrations.filter(({ version }) => version > from);
  const last = ahead.at(-1);
  if (from === 0 || last === undefined) return null;
  return { from, to: last.version, takes: ahead.flatMap(({ takes }) => takes ?? []) };
}

/** Whether it is a store at all, of whatever version. */
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
