/** Tables of PostgreSQL in range partitions of their primary key, with a default partition. */

import { type Db, placeholder, type Row, transaction } from "./db.ts";
import { flag, text } from "./row.ts";

/** How long a change of partitions waits for a lock. Requests queue behind it, for 300 ms at most. */
const LOCK_TIMEOUT_MS = 200;

export interface PartitionedTable {
  readonly name: string;
  /** The only column of the primary key. */
  readonly key: string;
}

export interface Partition {
  readonly name: string;
  /** Null: unbounded, or the default partition. */
  readonly from: string | null;
  readonly to: string | null;
  readonly isDefault: boolean;
}

const quoteName = (name: string): string => `"${name.replaceAll('"', '""')}"`;
const quoteText = (value: string): string => `'${value.replaceAll("'", "''")}'`;
const defaultPartition = ({ name }: PartitionedTable): string => `${name}_default`;

/** Whether the database has partitions and its role may change them. */
export async function canChangePartitions(db: Db, { name }: PartitionedTable): Promise<boolean> {
  if (db.engine !== "postgres") return false;
  const [row] = await db.sql`
    SELECT CASE WHEN pg_has_role(relowner, 'USAGE')
      AND has_schema_privilege(relnamespace, 'CREATE') THEN 1 ELSE 0 END AS may_change
    FROM pg_class WHERE oid = to_regclass(${name})`;
  return row !== undefined && flag(row, "may_change");
}

/** In the order of their keys; the default partition is the last one. */
export async function listPartitions(db: Db, table: PartitionedTable): Promise<Partition[]> {
  const rows = await db.sql`
    SELECT c.relname AS name, pg_get_expr(c.relpartbound, c.oid) AS bound
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass(${table.name})`;
  return rows.map(toPartition).sort(compareBounds);
}

function toPartition(row: Row): Partition {
  const bound = text(row, "bound");
  return {
    name: text(row, "name"),
    from: /FROM \('([^']*)'\)/.exec(bound)?.[1] ?? null,
    to: /TO \('([^']*)'\)/.exec(bound)?.[1] ?? null,
    isDefault: bound === "DEFAULT",
  };
}

function compareBounds(one: Partition, other: Partition): number {
  if (one.isDefault !== other.isDefault) return one.isDefault ? 1 : -1;
  return (one.from ?? "") < (other.from ?? "") ? -1 : 1;
}

export interface NewPartition {
  readonly name: string;
  /** Null: unbounded. */
  readonly from: string | null;
  readonly to: string;
}

/** Rows of its range that are in the default partition move to it. */
export async function addPartition(tx: Db, table: PartitionedTable, created: NewPartition): Promise<void> {
  const from = created.from === null ? "" : `${table.key} >= ${quoteText(created.from)} AND `;
  const range = `${from}${table.key} < ${quoteText(created.to)}`;
  const owner = await readOtherOwner(tx, table);
  await changeSchema(
    tx,
    [
      // A row that is written to the default partition after the move would prevent the attachment. A statement that
      // was planned before it would look for a moved row in the default partition only.
      `LOCK TABLE ONLY ${table.name}, ${defaultPartition(table)} IN ACCESS EXCLUSIVE MODE`,
      `CREATE TABLE ${created.name} (LIKE ${table.name} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)`,
      ...(owner === null ? [] : [`ALTER TABLE ${created.name} OWNER TO ${owner}`]),
      `WITH moved AS (DELETE FROM ${defaultPartition(table)} WHERE ${range} RETURNING *)
       INSERT INTO ${created.name} SELECT * FROM moved`,
      `ALTER TABLE ${table.name} ATTACH PARTITION ${created.name}
       FOR VALUES FROM (${created.from === null ? "MINVALUE" : quoteText(created.from)}) TO (${quoteText(created.to)})`,
    ].join(";\n"),
  );
}

/** The owner of the table if it is another role than that of this connection. */
async function readOtherOwner(tx: Db, { name }: PartitionedTable): Promise<string | null> {
  const [owner] = await tx.sql`
    SELECT relowner::regrole::text AS role FROM pg_class
    WHERE oid = to_regclass(${name}) AND relowner <> (SELECT oid FROM pg_roles WHERE rolname = current_user)`;
  return owner === undefined ? null : text(owner, "role");
}

/** From now on the rows of the partition do not change until the transaction ends. */
export async function freezePartition(tx: Db, { name }: Partition): Promise<void> {
  await changeSchema(tx, `LOCK TABLE ${quoteName(name)} IN SHARE MODE`);
}

/** Removes the partition with its rows, apart from those with one of these keys: they move to the default partition. */
export async function dropPartition(
  tx: Db,
  table: PartitionedTable,
  { name }: Partition,
  keptKeys: readonly string[],
): Promise<void> {
  await changeSchema(tx, `ALTER TABLE ${table.name} DETACH PARTITION ${quoteName(name)}`);
  if (keptKeys.length > 0)
    await tx.sql.text(
      // Not into the table: its triggers are about new rows.
      `INSERT INTO ${defaultPartition(table)} SELECT * FROM ${quoteName(name)}
       WHERE ${table.key} IN (SELECT json_array_elements_text(CAST(CAST(${placeholder(tx.engine, 1)} AS TEXT) AS JSON)))`,
      [JSON.stringify(keptKeys)],
    );
  await tx.sql.script(`DROP TABLE ${quoteName(name)}`);
}

/** The partitioned table gets no statistics by itself. */
export async function analyzeTable(db: Db, { name }: PartitionedTable): Promise<void> {
  await db.sql.script(`ANALYZE ${name}`);
}

function changeSchema(tx: Db, script: string): Promise<void> {
  return transaction(tx, async (inner) => {
    await inner.sql.script(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`);
    await inner.sql.script(script);
  });
}
