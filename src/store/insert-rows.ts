import { type Db, type Engine, placeholder, type Row, type Value } from "./db.ts";

/** Measured: PostgreSQL wants few round trips, SQLite short statements that it need not prepare again. */
const ROWS_PER_STATEMENT: Record<Engine, number> = { sqlite: 20, postgres: 100 };

/** `tail` is what follows the values: `ON CONFLICT …`, `RETURNING …`. Returns what the statements return. */
export async function insertRows(
  tx: Db,
  table: string,
  columns: readonly string[],
  rows: readonly (readonly Value[])[],
  tail = "",
): Promise<Row[]> {
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
