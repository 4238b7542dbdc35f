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
    const text = insertText(tx.engine, table, columns, chunk.length, tail);
    for (const row of await tx.sql.text(text, chunk.flat())) returned.push(row);
  }
  return returned;
}

function insertText(
  engine: Engine,
  table: string,
  columns: readonly string[],
  rowCount: number,
  tail: string,
): string {
  let next = 1;
  const tuple = () => `(${columns.map(() => placeholder(engine, next++)).join(", ")})`;
  const tuples = Array.from({ length: rowCount }, tuple);
  return `INSERT INTO ${table} (${columns.join(", ")}) VALUES ${tuples.join(", ")} ${tail}`;
}
