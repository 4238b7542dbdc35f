/**
 * Tables of PostgreSQL in range partitions of their primary key. A plain table becomes the first partition of a
 * partitioned table with its name, so programs that know only the plain table continue to work.
 */

import { type Db, placeholder, type Row, transaction } from "./db.ts";
import { flag, text, textOrNull } from "./row.ts";

/**
 * How long a change of partitions waits for a lock. Statements of requests queue behind it meanwhile, and they
 * themselves wait 300 ms at most.
 */
const LOCK_TIMEOUT_MS = 200;

export interface PartitionedTable {
  readonly name: string;
  /** The only column of the primary key. */
  readonly key: string;
  /** Views that read the table. */
  readonly views: readonly string[];
}

export interface Partition {
  readonly name: string;
  /** Null: unbounded, or the default partition. */
  readonly from: string | null;
  readonly to: string | null;
  readonly isDefault: boolean;
}

export type TableForm =
  /** The database or its role cannot change the form of the table. */
  | { readonly kind: "fixed" }
  /** `bound`: the keys are checked to be below it, for a change that was interrupted. */
  | { readonly kind: "plain"; readonly bound: string | null }
  | { readonly kind: "partitioned" };

const quoteName = (name: string): string => `"${name.replaceAll('"', '""')}"`;
const quoteText = (value: string): string => `'${value.replaceAll("'", "''")}'`;
const boundCheck = ({ name }: PartitionedTable): string => `${name}_bound`;
const firstPartition = ({ name }: PartitionedTable): string => `${name}_first`;
const defaultPartition = ({ name }: PartitionedTable): string => `${name}_default`;

export async function readTableForm(db: Db, table: PartitionedTable): Promise<TableForm> {
  if (db.engine !== "postgres") return { kind: "fixed" };
  const [row] = await db.sql`
    SELECT relkind::text AS kind, CASE WHEN pg_has_role(relowner, 'USAGE')
        AND has_schema_privilege(relnamespace, 'CREATE') THEN 1 ELSE 0 END AS may_change,
      (SELECT pg_get_constraintdef(k.oid) FROM pg_constraint k
        WHERE k.conrelid = c.oid AND k.conname = ${boundCheck(table)}) AS bound
    FROM pg_class c WHERE c.oid = to_regclass(${table.name})`;
  if (row === undefined || !flag(row, "may_change")) return { kind: "fixed" };
  if (text(row, "kind") === "p") return { kind: "partitioned" };
  const bound = /< '([^']*)'/.exec(textOrNull(row, "bound") ?? "")?.[1];
  return { kind: "plain", bound: bound ?? null };
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

/**
 * Rejects keys from this bound on, without a look at the present rows. Until the table is partitioned, the bound must
 * stay far ahead of new keys.
 */
export async function addBound(tx: Db, table: PartitionedTable, bound: string): Promise<void> {
  await changeSchema(
    tx,
    `ALTER TABLE ${table.name} ADD CONSTRAINT ${boundCheck(table)} CHECK (${table.key} < ${quoteText(bound)}) NOT VALID`,
  );
}

export async function removeBound(tx: Db, table: PartitionedTable): Promise<void> {
  await changeSchema(tx, `ALTER TABLE ${table.name} DROP CONSTRAINT IF EXISTS ${boundCheck(table)}`);
}

/** Reads the whole table, while others read and write it. */
export async function validateBound(db: Db, table: PartitionedTable): Promise<void> {
  await db.sql.script(`ALTER TABLE ${table.name} VALIDATE CONSTRAINT ${boundCheck(table)}`);
}

/**
 * Makes the table the first partition, up to `bound`. Only catalogs change if the bound is validated; otherwise the
 * rows are read under the lock.
 */
export async function partitionTable(tx: Db, table: PartitionedTable, bound: string): Promise<void> {
  const { name, key, views } = table;
  const first = firstPartition(table);
  const indexes = await tx.sql`
    SELECT c.relname AS name, pg_get_indexdef(i.indexrelid) AS definition
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE i.indrelid = to_regclass(${name}) AND NOT i.indisprimary ORDER BY c.relname`;
  const triggers = await tx.sql`
    SELECT tgname AS name, pg_get_triggerdef(oid) AS definition FROM pg_trigger
    WHERE tgrelid = to_regclass(${name}) AND NOT tgisinternal ORDER BY tgname`;
  const definitions = await Promise.all(views.map((view) => readView(tx, view)));
  const rights = await readRights(tx, name);
  const primary = await readPrimaryKeyName(tx, name);
  await changeSchema(
    tx,
    [
      // Unchanged yet: this locks the views before the table, as their readers do, who would deadlock otherwise.
      ...definitions,
      `ALTER TABLE ${name} RENAME TO ${first}`,
      `ALTER TABLE ${first} RENAME CONSTRAINT ${quoteName(primary)} TO ${first}_pkey`,
      ...indexes.map((row) => {
        const index = text(row, "name");
        return `ALTER INDEX ${quoteName(index)} RENAME TO ${quoteName(`${index}_first`)}`;
      }),
      `CREATE TABLE ${name} (LIKE ${first} INCLUDING DEFAULTS) PARTITION BY RANGE (${key})`,
      `ALTER TABLE ${name} ADD CONSTRAINT ${quoteName(primary)} PRIMARY KEY (${key})`,
      // The definitions contain the name of the table, which is now the name of the partitioned one.
      ...indexes.map((row) => text(row, "definition")),
      // A statement fires the triggers of the table that it names.
      ...triggers.map((row) => `DROP TRIGGER ${quoteName(text(row, "name"))} ON ${first}`),
      ...triggers.map((row) => text(row, "definition")),
      `ALTER TABLE ${name} ATTACH PARTITION ${first} FOR VALUES FROM (MINVALUE) TO (${quoteText(bound)})`,
      `ALTER TABLE ${first} DROP CONSTRAINT IF EXISTS ${boundCheck(table)}`,
      `CREATE TABLE ${defaultPartition(table)} PARTITION OF ${name} DEFAULT`,
      ...rights.map((right) => right.replaceAll("%table", name)),
      ...definitions,
    ].join(";\n"),
  );
}

/** Read before the table is renamed: a view stays with the table that it was created on. */
async function readView(tx: Db, view: string): Promise<string> {
  const [row] = await tx.sql`SELECT pg_get_viewdef(to_regclass(${view})) AS definition`;
  if (row === undefined) throw new Error(`The view ${view} does not exist.`);
  return `CREATE OR REPLACE VIEW ${view} AS ${text(row, "definition").replace(/;\s*$/, "")}`;
}

async function readPrimaryKeyName(tx: Db, name: string): Promise<string> {
  const [row] =
    await tx.sql`SELECT conname AS name FROM pg_constraint WHERE conrelid = to_regclass(${name}) AND contype = 'p'`;
  if (row === undefined) throw new Error(`The table ${name} has no primary key.`);
  return text(row, "name");
}

/** Statements that give another table the owner and the grants of this one. */
async function readRights(tx: Db, name: string): Promise<string[]> {
  const grants = await tx.sql`
    SELECT a.privilege_type AS privilege, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role
    FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = to_regclass(${name}) AND a.grantee <> c.relowner`;
  const [owner] = await tx.sql`
    SELECT relowner::regrole::text AS role FROM pg_class
    WHERE oid = to_regclass(${name}) AND relowner <> (SELECT oid FROM pg_roles WHERE rolname = current_user)`;
  return [
    ...grants.map((row) => `GRANT ${text(row, "privilege")} ON %table TO ${text(row, "role")}`),
    ...(owner === undefined ? [] : [`ALTER TABLE %table OWNER TO ${text(owner, "role")}`]),
  ];
}

export interface NewPartition {
  readonly name: string;
  readonly from: string;
  readonly to: string;
}

/** Rows of its range that are in the default partition move to it. */
export async function addPartition(tx: Db, table: PartitionedTable, created: NewPartition): Promise<void> {
  const range = `${table.key} >= ${quoteText(created.from)} AND ${table.key} < ${quoteText(created.to)}`;
  const rights = (await readRights(tx, table.name)).filter((right) => right.startsWith("ALTER"));
  await changeSchema(
    tx,
    [
      `CREATE TABLE ${created.name} (LIKE ${table.name} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)`,
      ...rights.map((right) => right.replaceAll("%table", created.name)),
      `WITH moved AS (DELETE FROM ${defaultPartition(table)} WHERE ${range} RETURNING *)
       INSERT INTO ${created.name} SELECT * FROM moved`,
      `ALTER TABLE ${table.name} ATTACH PARTITION ${created.name}
       FOR VALUES FROM (${quoteText(created.from)}) TO (${quoteText(created.to)})`,
    ].join(";\n"),
  );
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
