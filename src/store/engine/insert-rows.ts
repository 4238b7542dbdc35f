/** Inserts many rows with few statements. */

import { Cache } from "../../base/cache.ts";
import { type Db, type Engine, placeholder, type Row, type SqlValue } from "./db.ts";

/**
 * Rows per statement. PostgreSQL needs few round trips. SQLite keeps its position in every index between the rows of
 * a statement. It gets only a few different lengths, because preparing a statement takes longer than running it.
 */
const ROWS_PER_STATEMENT: Record<Engine, number> = { sqlite: 16, postgres: 100 };
const SQLITE_LENGTHS = [ROWS_PER_STATEMENT.sqlite, 4, 1];

/** `tail` follows the values: `ON CONFLICT …`, `RETURNING …`. Returns the rows that the statements return. */
export async function insertRows(
  tx: Db,
  table: string,
  columns: readonly string[],
  rows: readonly (readonly SqlValue[])[],
  tail = "",
): Promise<Row[]> {
  const perStatement = ROWS_PER_STATEMENT[tx.engine];
  const buildText = (rowCount: number) => insertText(tx.engine, table, columns, rowCount, tail);
  if (tx.engine === "sqlite" && !tail.includes("RETURNING")) {
    let done = 0;
    for (const size of SQLITE_LENGTHS) {
      const end = rows.length - ((rows.length - done) % size);
      if (end > done) await tx.sql.each(buildText(size), flattenRows(rows.slice(done, end), size));
      done = end;
    }
    return [];
  }
  const returned: Row[] = [];
  for (let start = 0; start < rows.length; start += perStatement) {
    const chunk = rows.slice(start, start + perStatement);
    for (const row of await tx.sql.text(buildText(chunk.length), chunk.flat())) returned.push(row);
  }
  return returned;
}

function flattenRows(rows: readonly (readonly SqlValue[])[], size: number): readonly (readonly SqlValue[])[] {
  if (size === 1) return rows;
  const lists: SqlValue[][] = [];
  for (let start = 0; start < rows.length; start += size) lists.push(rows.slice(start, start + size).flat());
  return lists;
}

/**
 * `OR FAIL` skips the statement journal: to undo a statement of several rows, SQLite would copy every changed page to a
 * separate file. A failure here rolls back the whole transaction anyway.
 */
const INSERT_WITHOUT_JOURNAL = "INSERT OR FAIL";

/** By columns, which are always the same few arrays; then by table, row count and tail, which are few as well. */
const insertTextsByColumns = new WeakMap<readonly string[], Cache<string, string>>();

function insertText(
  engine: Engine,
  table: string,
  columns: readonly string[],
  rowCount: number,
  tail: string,
): string {
  let texts = insertTextsByColumns.get(columns);
  if (texts === undefined) {
    texts = new Cache({ name: "insert statements", entriesMax: 1_000 });
    insertTextsByColumns.set(columns, texts);
  }
  const name = `${engine} ${table} ${rowCount} ${tail}`;
  return texts.getOrCreate(name, () => buildInsertText(engine, table, columns, rowCount, tail));
}

function buildInsertText(
  engine: Engine,
  table: string,
  columns: readonly string[],
  rowCount: number,
  tail: string,
): string {
  const skipsStatementJournal = engine === "sqlite" && rowCount > 1 && !tail.includes("RETURNING");
  const insert = skipsStatementJournal ? INSERT_WITHOUT_JOURNAL : "INSERT";
  const values = buildTuples(engine, rowCount, columns.length);
  return `${insert} INTO ${table} (${columns.join(", ")}) VALUES ${values} ${tail}`;
}

/** Builds `(?, ?), (?, ?)`, one tuple per row. */
function buildTuples(engine: Engine, rowCount: number, columnCount: number): string {
  let next = 1;
  const tuple = () =>
    `(${Array.from({ length: columnCount }, () => placeholder(engine, next++)).join(", ")})`;
  return Array.from({ length: rowCount }, tuple).join(", ");
}

/**
 * Builds a statement whose rows share the values of the first `sharedCount` columns. Its values are the shared ones,
 * then the others of each row. Only where `canShareValues`.
 */
export function buildSharingInsert({
  table,
  columns,
  sharedCount,
  rowCount,
}: {
  table: string;
  columns: readonly string[];
  sharedCount: number;
  rowCount: number;
}): string {
  const first = columns.map(() => "?");
  const next = columns.map((_, index) => (index < sharedCount ? `?${index + 1}` : "?"));
  const tuples = Array.from({ length: rowCount }, (_, row) => `(${(row === 0 ? first : next).join(", ")})`);
  return `${INSERT_WITHOUT_JOURNAL} INTO ${table} (${columns.join(", ")}) VALUES ${tuples.join(", ")}`;
}
