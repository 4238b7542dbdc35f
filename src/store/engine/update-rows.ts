/** Updates many rows, each with its own values. */

import { type Db, placeholder, type SqlValue } from "./db.ts";
import { isSharedServer } from "./dialect.ts";

/** A shared server needs few round trips. */
const ROWS_PER_STATEMENT = 64;

/** `set` and `where` name the values of a row `v.column1`, …; all of them are text: cast others. */
export async function updateRows(
  tx: Db,
  { table, set, where }: { table: string; set: string; where: string },
  rows: readonly (readonly SqlValue[])[],
): Promise<number> {
  let changed = 0;
  const perStatement = isSharedServer(tx) ? ROWS_PER_STATEMENT : 1;
  for (let start = 0; start < rows.length; start += perStatement) {
    const chunk = rows.slice(start, start + perStatement);
    let next = 1;
    const tuples = chunk.map((values) => `(${values.map(() => placeholder(tx.engine, next++)).join(", ")})`);
    const updated = await tx.sql.text(
      `UPDATE ${table} SET ${set} FROM (VALUES ${tuples.join(", ")}) AS v WHERE ${where} RETURNING 1 AS changed`,
      chunk.flat(),
    );
    changed += updated.length;
  }
  return changed;
}
