import { type Db, type Engine, placeholder, type Row, type SqlValue } from "./db.ts";

/**
 * Rows of one statement. PostgreSQL wants few round trips. SQLite keeps its place in every index from one row of a
 * statement to the next; it gets a few lengths only, for preparing a statement takes longer than running it.
 */
const ROWS_PER_STATEMENT: Record<Engine, number> = { sqlite: 16, postgres: 100 };
const SQLITE_LENGTHS = [ROWS_PER_STATEMENT.sqlite, 4, 1];

/** `tail` is what follows the values: `ON CONFLICT …`, `RETURNING …`. Returns what the statements return. */
export async function insertRows(
  tx: Db,
  table: string,
  columns: readonly string[],
  rows: readonly (readonly SqlValue[])[],
  tail = "",
): Promise<Row[]> {
  const perStatement = ROWS_PER_STATEMENT[tx.engine];
  const textFor = (rowCount: number) => insertText(tx.engine, table, columns, rowCount, tail);
  if (tx.engine === "sqlite" && !tail.includes("RETURNING")) {
    let done = 0;
    for (const size of SQLITE_LENGTHS) {
      const end = rows.length - ((rows.length - done) % size);
      if (end > done) await tx.sql.each(textFor(size), flattened(rows.slice(done, end), size));
      done = end;
    }
    return [];
  }
  const returned: Row[] = [];
  for (let start = 0; start < rows.length; start += perStatement) {
    const chunk = rows.slice(start, start + perStatement);
    for (const row of await tx.sql.text(textFor(chunk.length), chunk.flat())) returned.push(row);
  }
  return returned;
}

function flattened(rows: readonly (readonly SqlValue[])[], size: number): readonly (readonly SqlValue[])[] {
  if (size === 1) return rows;
  const lists: SqlValue[][] = [];
  for (let start = 0; start < rows.length; start += size) lists.push(rows.slice(start, start + size).flat());
  return lists;
}

const insertTexts = new WeakMap<readonly string[], Map<string, string>>();

/** Columns are always the same few objects, tails and numbers of rows are few: each text is put together once. */
function insertText(
  engine: Engine,
  table: string,
  columns: readonly string[],
  rowCount: number,
  tail: string,
): string {
  const known = insertTexts.get(columns) ?? new Map<string, string>();
  insertTexts.set(columns, known);
  const name = `${engine} ${table} ${rowCount} ${tail}`;
  const found = known.get(name);
  if (found !== undefined) return found;
  // To undo a statement of several rows, SQLite would copy every page that it changes into a file of its own; but
  // whatever fails here is undone with its transaction.
  const isBare = engine === "sqlite" && rowCount > 1 && !tail.includes("RETURNING");
  const insert = isBare ? "INSERT OR FAIL" : "INSERT";
  const values = tuples(engine, rowCount, columns.length);
  const text = `${insert} INTO ${table} (${columns.join(", ")}) VALUES ${values} ${tail}`;
  known.set(name, text);
  return text;
}

const knownTuples = new Map<string, string>();

/** `(?, ?), (?, ?)`: as many as there are rows, which are few enough different numbers to keep them all. */
function tuples(engine: Engine, rowCount: number, columnCount: number): string {
  const name = `${engine} ${rowCount} ${columnCount}`;
  const known = knownTuples.get(name);
  if (known !== undefined) return known;
  let next = 1;
  const tuple = () =>
    `(${Array.from({ length: columnCount }, () => placeholder(engine, next++)).join(", ")})`;
  const made = Array.from({ length: rowCount }, tuple).join(", ");
  knownTuples.set(name, made);
  return made;
}
