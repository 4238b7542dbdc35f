import { type Db, type Engine, placeholder, type Row, type Value } from "./db.ts";

/** PostgreSQL wants few round trips. SQLite wants one statement that it need not prepare again, run for every row. */
const ROWS_PER_STATEMENT: Record<Engine, number> = { sqlite: 20, postgres: 100 };

/** `tail` is what follows the values: `ON CONFLICT …`, `RETURNING …`. Returns what the statements return. */
export async function insertRows(
  tx: Db,
  table: string,
  columns: readonly string[],
  rows: readonly (readonly Value[])[],
  tail = "",
): Promise<Row[]> {
  if (tx.engine === "sqlite" && !tail.includes("RETURNING")) {
    await tx.sql.each(oneRowText(table, columns, tail), rows);
    return [];
  }
  const returned: Row[] = [];
  const perStatement = ROWS_PER_STATEMENT[tx.engine];
  for (let start = 0; start < rows.length; start += perStatement) {
    const chunk = rows.slice(start, start + perStatement);
    const values = tuples(tx.engine, chunk.length, columns.length);
    const text = `INSERT INTO ${table} (${columns.join(", ")}) VALUES ${values} ${tail}`;
    for (const row of await tx.sql.text(text, chunk.flat())) returned.push(row);
  }
  return returned;
}

const oneRowTexts = new WeakMap<readonly string[], Map<string, string>>();

/** Columns and tails are few and always the same objects: the text is put together once. */
function oneRowText(table: string, columns: readonly string[], tail: string): string {
  const byTail = oneRowTexts.get(columns) ?? new Map<string, string>();
  oneRowTexts.set(columns, byTail);
  const known = byTail.get(tail);
  if (known !== undefined) return known;
  const text = `INSERT INTO ${table} (${columns.join(", ")}) VALUES ${tuples("sqlite", 1, columns.length)} ${tail}`;
  byTail.set(tail, text);
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
