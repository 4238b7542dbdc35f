/** Inserts many rows with few statements. */

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

const insertTexts = new WeakMap<readonly string[], Map<string, string>>();

/** Caches each text. Column lists are always the same few arrays, and there are few tails and row counts. */
function insertText(
  engine: Engine,
  table: string,
  columns: readonly string[],
  rowCount: number,
  tail: string,
): string {
  const cache = insertTexts.get(columns) ?? new Map<string, string>();
  insertTexts.set(columns, cache);
  const name = `${engine} ${table} ${rowCount} ${tail}`;
  const cached = cache.get(name);
  if (cached !== undefined) return cached;
  // `OR FAIL` skips the statement journal: to undo a statement of several rows, SQLite would copy every changed page
  // to a separate file. A failure here rolls back the whole transaction anyway.
  const skipsStatementJournal = engine === "sqlite" && rowCount > 1 && !tail.includes("RETURNING");
  const insert = skipsStatementJournal ? "INSERT OR FAIL" : "INSERT";
  const values = buildTuples(engine, rowCount, columns.length);
  const text = `${insert} INTO ${table} (${columns.join(", ")}) VALUES ${values} ${tail}`;
  cache.set(name, text);
  return text;
}

const knownTuples = new Map<string, string>();

/** Builds `(?, ?), (?, ?)`, one tuple per row. There are few different row counts, so all of them are cached. */
function buildTuples(engine: Engine, rowCount: number, columnCount: number): string {
  const name = `${engine} ${rowCount} ${columnCount}`;
  const cached = knownTuples.get(name);
  if (cached !== undefined) return cached;
  let next = 1;
  const tuple = () =>
    `(${Array.from({ length: columnCount }, () => placeholder(engine, next++)).join(", ")})`;
  const built = Array.from({ length: rowCount }, tuple).join(", ");
  knownTuples.set(name, built);
  return built;
}
