import type { Db, Row, Value } from "./db.ts";

/** Both engines cap the parameters of a statement (32,766 and 65,535); beyond 100 rows longer ones gain nothing. */
const ROWS_PER_STATEMENT = 100;

/** `tail` is what follows the values: `ON CONFLICT …`, `RETURNING …`. Returns what the statements return. */
export async function insertRows(
  tx: Db,
  table: string,
  columns: readonly string[],
  rows: readonly (readonly Value[])[],
  tail = "",
): Promise<Row[]> {
  const returned: Row[] = [];
  for (let start = 0; start < rows.length; start += ROWS_PER_STATEMENT) {
    const chunk = rows.slice(start, start + ROWS_PER_STATEMENT);
    const values = chunk.flat();
    for (const row of await tx.sql.text(insertText(table, columns, chunk.length, tail), values))
      returned.push(row);
  }
  return returned;
}

const fullTexts = new Map<string, string>();

function insertText(table: string, columns: readonly string[], rowCount: number, tail: string): string {
  const head = `INSERT INTO ${table} (${columns.join(", ")})`;
  if (rowCount !== ROWS_PER_STATEMENT)
    return `${head} VALUES ${placeholders(rowCount, columns.length)} ${tail}`;
  const name = `${head} ${tail}`;
  const known = fullTexts.get(name);
  if (known !== undefined) return known;
  const made = `${head} VALUES ${placeholders(rowCount, columns.length)} ${tail}`;
  fullTexts.set(name, made);
  return made;
}

function placeholders(rowCount: number, columnCount: number): string {
  let next = 1;
  const tuple = () => `(${Array.from({ length: columnCount }, () => `$${next++}`).join(", ")})`;
  return Array.from({ length: rowCount }, tuple).join(", ");
}
