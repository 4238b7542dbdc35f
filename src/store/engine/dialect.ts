/** The differences between the engines, by name. Other files depend on a property of the engine, not on its name. */

import type { Db } from "./db.ts";
import { integer, text } from "./row.ts";
import { selectIn } from "./select-in.ts";

/**
 * The database is a server that other nodes write to as well. Otherwise it runs within this process: statements have no
 * round trip, and there is a single writer.
 */
export function isSharedServer(db: Pick<Db, "engine">): boolean {
  return db.engine === "postgres";
}

export async function hasTable(db: Db, name: string): Promise<boolean> {
  const found =
    db.engine === "postgres"
      ? await db.sql`SELECT 1 AS found WHERE to_regclass(${name}) IS NOT NULL`
      : await db.sql`SELECT 1 AS found FROM sqlite_master WHERE type = 'table' AND name = ${name}`;
  return found.length > 0;
}

/** Statements can bind a value once for several rows (`buildSharingInsert`). */
export function canShareValues(db: Pick<Db, "engine">): boolean {
  return db.engine === "sqlite";
}

/**
 * The end of a SELECT that locks its rows in this order until the transaction ends. Use the same order everywhere, so
 * that two nodes wait for each other instead of deadlocking. Empty where there is a single writer.
 */
export function lockClause(db: Pick<Db, "engine">, order: string, table?: string): string {
  if (!isSharedServer(db)) return "";
  return `ORDER BY ${order} FOR UPDATE${table === undefined ? "" : ` OF ${table}`}`;
}

/** Locks the rows of a `selectIn`, without reading them. Does nothing where there is a single writer. */
export async function lockIn(
  tx: Db,
  { head, order, table }: { head: string; order: string; table?: string },
  ids: readonly string[],
): Promise<void> {
  if (isSharedServer(tx)) await selectIn(tx, head, ids, lockClause(tx, order, table));
}

/** The clock of a shared server; null if the database has no clock. */
export async function readServerClock(db: Db): Promise<number | null> {
  if (!isSharedServer(db)) return null;
  const [row] = await db.sql`SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT) AS now_ms`;
  return row === undefined ? null : integer(row, "now_ms");
}

/** Whether the server is a standby, which rejects every write. */
export async function isStandby(db: Db): Promise<boolean> {
  if (!isSharedServer(db)) return false;
  const [row] = await db.sql`SELECT CAST(pg_is_in_recovery() AS INT) AS standby`;
  return row !== undefined && integer(row, "standby") === 1;
}

/** The open transactions of a shared server that have changed rows of the table. Each name stands for one transaction. */
export async function listWriters(db: Db, table: string): Promise<ReadonlySet<string>> {
  const rows = await db.sql`
    SELECT DISTINCT virtualtransaction AS writer FROM pg_locks
    WHERE locktype = 'relation' AND relation = ${table}::regclass AND mode = 'RowExclusiveLock' AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
  return new Set(rows.map((row) => text(row, "writer")));
}

interface MissingPrivileges {
  /** Rights to read and write rows. */
  readonly data: readonly string[];
  /** Rights that only migrations need. */
  readonly schema: readonly string[];
}

/** What the role of a shared server may not do with the tables of the current schema. */
export async function listMissingPrivileges(db: Db): Promise<MissingPrivileges> {
  const tables = await db.sql`
    SELECT relname AS name,
      has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')
        AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE') AS may_write,
      pg_has_role(relowner, 'USAGE') AS is_owner
    FROM pg_class
    WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = current_schema()::regnamespace ORDER BY relname`;
  const [schema] = await db.sql`SELECT has_schema_privilege(current_schema(), 'CREATE') AS may_create`;
  const named = (right: string, column: string) =>
    tables.filter((row) => !row[column]).map((row) => `${right} ${String(row.name)}`);
  return {
    data: named("access to", "may_write"),
    schema: [...named("ownership of", "is_owner"), ...(schema?.may_create ? [] : ["CREATE on the schema"])],
  };
}

/** SQL for JSON in a TEXT column: a table of the elements of an array, and a member of one such element as text. */
export function jsonElements(db: Pick<Db, "engine">, column: string, alias: string): string {
  return db.engine === "sqlite"
    ? `json_each(${column}) ${alias}`
    : `json_array_elements(CAST(${column} AS JSON)) ${alias}`;
}

export function jsonMember(db: Pick<Db, "engine">, alias: string, member: string): string {
  return db.engine === "sqlite"
    ? `json_extract(${alias}.value, '$.${member}')`
    : `${alias}.value ->> '${member}'`;
}

/** For the line that the server prints when it has started. */
export function describeStore(db: Pick<Db, "engine">, dataDir: string): string {
  return db.engine === "sqlite" ? `SQLite in ${dataDir}` : "PostgreSQL";
}
