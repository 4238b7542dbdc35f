/**
 * Copies all rows of a store to another one, between SQLite and PostgreSQL, and compares them. Both have the same schema.
 * Integers travel as text, so that none is rounded.
 */

import { type Db, placeholder, type Row, type SqlValue, transaction } from "./db.ts";
import { hasTable, isSharedServer } from "./dialect.ts";
import { COPY_PROGRESS_TABLE, MOVE_TABLE } from "./moved-store.ts";
import { integer, text } from "./row.ts";

/** State of running processes, which a stopped installation does not have. */
const TRANSIENT = new Set([
  "migration",
  "process",
  "hold",
  "wallet_reservation",
  "reservation_fence",
  "reservation_recall",
  "job_lease",
  "account_fact",
  "throttle_use",
  "node_use",
  "shared_revision",
  "coordination",
  MOVE_TABLE,
  COPY_PROGRESS_TABLE,
]);
const BATCH_ROWS = 500;
/** Rows of these tables may have megabytes each. */
const LARGE_ROWS = new Set(["stored_response"]);
const LARGE_BATCH_ROWS = 8;
const PROGRESS = COPY_PROGRESS_TABLE;

interface Column {
  readonly name: string;
  readonly isInteger: boolean;
}

export interface CopiedTable {
  readonly name: string;
  readonly columns: readonly Column[];
  readonly key: readonly Column[];
}

export class StoreCopyError extends Error {
  override readonly name = "StoreCopyError";
}

/** The tables that are copied, each after the tables that it refers to. Read from the SQLite store of both. */
export async function listCopiedTables(sqlite: Db): Promise<CopiedTable[]> {
  const rows = await sqlite.sql`SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name`;
  const names = rows.map((row) => text(row, "name")).filter((name) => !TRANSIENT.has(name));
  const references = new Map<string, string[]>();
  for (const name of names) {
    const keys = await sqlite.sql.text(`PRAGMA foreign_key_list(${name})`, []);
    references.set(
      name,
      keys.map((row) => text(row, "table")),
    );
  }
  const ordered: string[] = [];
  const visit = (name: string) => {
    if (ordered.includes(name)) return;
    for (const referred of references.get(name) ?? []) visit(referred);
    ordered.push(name);
  };
  for (const name of names) visit(name);
  return Promise.all(ordered.map((name) => describeTable(sqlite, name)));
}

async function describeTable(sqlite: Db, name: string): Promise<CopiedTable> {
  const rows = await sqlite.sql.text(`PRAGMA table_info(${name})`, []);
  const toColumn = (row: Row) => ({ name: text(row, "name"), isInteger: text(row, "type") === "BIGINT" });
  const key = rows
    .filter((row) => integer(row, "pk") > 0)
    .sort((a, b) => integer(a, "pk") - integer(b, "pk"));
  return { name, columns: rows.map(toColumn), key: key.map(toColumn) };
}

/** Whether a copy has begun in this database and is not complete. */
export function hasBegunCopy(target: Db): Promise<boolean> {
  return hasTable(target, PROGRESS);
}

export async function beginCopy(target: Db): Promise<void> {
  await target.sql.script(
    `CREATE TABLE IF NOT EXISTS ${PROGRESS} (name TEXT PRIMARY KEY, last_key TEXT, copied BIGINT NOT NULL, is_done BIGINT NOT NULL)`,
  );
}

export async function endCopy(target: Db): Promise<void> {
  // The feed of the copy continues after the last number of the copied one.
  if (isSharedServer(target))
    await target.sql`SELECT setval('usage_export_no', GREATEST(1, (SELECT MAX(feed_no) FROM usage_export)))`;
  await target.sql.script(`DROP TABLE ${PROGRESS}`);
}

/** Copies the rows that are not copied yet. Each batch commits together with its progress. Returns the number of rows. */
export async function copyTable(source: Db, target: Db, table: CopiedTable): Promise<number> {
  const [progress] = await target.sql.text(
    `SELECT last_key, copied, is_done FROM ${PROGRESS} WHERE name = ${placeholder(target.engine, 1)}`,
    [table.name],
  );
  let after: SqlValue[] | null =
    typeof progress?.last_key === "string" ? JSON.parse(progress.last_key) : null;
  let copied = progress === undefined ? 0 : integer(progress, "copied");
  if (progress !== undefined && integer(progress, "is_done") === 1) return copied;
  for (;;) {
    const rows = await readBatch(source, table, after);
    const isDone = rows.length < batchRows(table);
    const last = rows.at(-1);
    if (last !== undefined) after = table.key.map(({ name }) => last[name] ?? null);
    copied += rows.length;
    await transaction(target, async (tx) => {
      // Copied rows are in the copied usage feed already.
      if (isSharedServer(tx)) await tx.sql.script("SET LOCAL model_gateway.copying = 'on'");
      if (rows.length > 0) await insertBatch(tx, table, rows);
      await tx.sql.text(
        `INSERT INTO ${PROGRESS} (name, last_key, copied, is_done) VALUES (${[1, 2, 3, 4].map((number) => placeholder(tx.engine, number)).join(", ")})
         ON CONFLICT (name) DO UPDATE SET last_key = excluded.last_key, copied = excluded.copied, is_done = excluded.is_done`,
        [table.name, after === null ? null : JSON.stringify(after), copied, isDone ? 1 : 0],
      );
    });
    if (isDone) return copied;
  }
}

/** Throws if the tables differ in any value of any row. Returns the number of rows. */
export async function compareTable(source: Db, target: Db, table: CopiedTable): Promise<number> {
  let after: SqlValue[] | null = null;
  let compared = 0;
  for (;;) {
    const [rows, copies]: [Row[], Row[]] = await Promise.all([
      readBatch(source, table, after),
      readBatch(target, table, after),
    ]);
    for (const [index, row] of rows.entries()) {
      const copy = copies[index];
      const column = table.columns.find(({ name }) => (copy?.[name] ?? null) !== (row[name] ?? null));
      if (copy === undefined || column !== undefined) throw differenceError(table, row, column);
    }
    if (copies.length !== rows.length) throw differenceError(table, copies[rows.length] ?? {}, undefined);
    compared += rows.length;
    const last = rows.at(-1);
    if (last === undefined || rows.length < batchRows(table)) return compared;
    after = table.key.map(({ name }) => last[name] ?? null);
  }
}

function differenceError({ name, key }: CopiedTable, row: Row, column: Column | undefined): StoreCopyError {
  const at = key.map((part) => row[part.name]).join(", ");
  const what = column === undefined ? "is not in both databases" : `differs in ${column.name}`;
  return new StoreCopyError(
    `The row ${at} of ${name} ${what}. The database was used after the copy began. Run the command again with an empty target.`,
  );
}

function batchRows({ name }: CopiedTable): number {
  return LARGE_ROWS.has(name) ? LARGE_BATCH_ROWS : BATCH_ROWS;
}

/** All values as text, in the order of the primary key. */
async function readBatch(db: Db, table: CopiedTable, after: readonly SqlValue[] | null): Promise<Row[]> {
  const { name, columns, key } = table;
  const values = columns.map((column) =>
    column.isInteger ? `CAST(${quote(column)} AS TEXT) AS ${quote(column)}` : quote(column),
  );
  const ordered = key.map((column) => orderExpression(db, column)).join(", ");
  const bounds = key.map((column, index) => boundExpression(db, column, index + 1)).join(", ");
  const where = after === null ? "" : `WHERE (${ordered}) > (${bounds})`;
  return db.sql.text(
    `SELECT ${values.join(", ")} FROM ${name} t ${where} ORDER BY ${ordered} LIMIT ${batchRows(table)}`,
    after ?? [],
  );
}

/** Qualified: the name alone would be the text of the select list. Text is compared byte by byte on both engines. */
function orderExpression({ engine }: Db, column: Column): string {
  const value = `t.${quote(column)}`;
  return engine === "postgres" && !column.isInteger ? `${value} COLLATE "C"` : value;
}

function boundExpression({ engine }: Db, { isInteger }: Column, number: number): string {
  const value = `CAST(${placeholder(engine, number)} AS TEXT)`;
  return isInteger ? `CAST(${value} AS BIGINT)` : value;
}

/** Replaces rows that a migration has created, such as the first revision. */
async function insertBatch(tx: Db, { name, columns, key }: CopiedTable, rows: readonly Row[]): Promise<void> {
  const names = columns.map(quote).join(", ");
  const types = columns
    .map((column) => `${quote(column)} ${column.isInteger ? "BIGINT" : "TEXT"}`)
    .join(", ");
  const isKey = (column: Column) => key.some((part) => part.name === column.name);
  const updates = columns
    .filter((column) => !isKey(column))
    .map((column) => `${quote(column)} = excluded.${quote(column)}`);
  const onConflict = updates.length === 0 ? "NOTHING" : `UPDATE SET ${updates.join(", ")}`;
  const conflict = `ON CONFLICT (${key.map(quote).join(", ")}) DO ${onConflict}`;
  if (!isSharedServer(tx)) {
    // Columns of integers convert the texts.
    await tx.sql.each(
      `INSERT INTO ${name} (${names}) VALUES (${columns.map(() => "?").join(", ")}) ${conflict}`,
      rows.map((row) => columns.map((column) => row[column.name] ?? null)),
    );
    return;
  }
  await tx.sql.text(
    `INSERT INTO ${name} (${names}) SELECT ${names} FROM json_to_recordset(CAST(CAST($1 AS TEXT) AS JSON)) AS r(${types}) ${conflict}`,
    [JSON.stringify(rows)],
  );
}

function quote({ name }: Column): string {
  return `"${name}"`;
}
