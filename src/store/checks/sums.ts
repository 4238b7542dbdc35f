/**
 * Compares sums with their parts over a span of time, so that no engine has to sort more than one span. The result
 * is only yes or no: the slower search for the wrong rows runs only where this comparison fails.
 */

import { type Db, placeholder, type SqlValue } from "../engine/db.ts";
import { integer, integerOrNull } from "../engine/row.ts";

/** Lines of a table. The `time` column selects a span. All values are SQL. */
export interface SumLines {
  from: string;
  where: string;
  time: string;
}

/** `keys` identify a line, `values` are compared. Both sides list them in the same order. */
export interface SummedLines extends SumLines {
  keys: readonly string[];
  values: readonly string[];
}

export interface TimeSpan {
  fromMs: number;
  /** Exclusive. */
  toMs: number;
}

/** Collects the values of a statement's placeholders, in the order in which its text uses them. */
export function openStatement(db: Db) {
  const values: SqlValue[] = [];
  const mark = (value: SqlValue) => placeholder(db.engine, values.push(value));
  return {
    values,
    mark,
    /** The SQL condition for the lines in a span. */
    within: ({ where, time }: SumLines, { fromMs, toMs }: TimeSpan) =>
      `${where} AND ${time} >= ${mark(fromMs)} AND ${time} < ${mark(toMs)}`,
  };
}

/** Returns true if every sum exists and equals the sum of its parts, and there are no other sums. */
export async function compareSums(
  db: Db,
  sums: SummedLines,
  parts: SummedLines,
  span: TimeSpan,
): Promise<boolean> {
  const { values, within } = openStatement(db);
  const differs = sums.values.map((column, i) => `${column} <> v${i}`).join(" OR ");
  const [row] = await db.sql.text(
    `SELECT COUNT(*) AS many, COUNT(${sums.keys[0]}) AS found, COUNT(CASE WHEN ${differs} THEN 1 END) AS wrong,
       (SELECT COUNT(*) FROM ${sums.from} WHERE ${within(sums, span)}) AS standing
     FROM (
       SELECT ${parts.keys.map((key, i) => `${key} AS k${i}`).join(", ")},
         ${parts.values.map((value, i) => `CAST(SUM(${value}) AS BIGINT) AS v${i}`).join(", ")}
       FROM ${parts.from} WHERE ${within(parts, span)} GROUP BY ${parts.keys.map((_, i) => i + 1).join(", ")}
     ) added
     LEFT JOIN ${sums.from} ON ${within(sums, span)}
       AND ${sums.keys.map((key, i) => `${key} = k${i}`).join(" AND ")}`,
    values,
  );
  if (row === undefined) throw new Error("A count returned no row.");
  const many = integer(row, "many");
  return integer(row, "found") === many && integer(row, "standing") === many && integer(row, "wrong") === 0;
}

/** Returns the earliest time of these lines from `fromMs` on; null if there is none. */
export async function nextTime(db: Db, lines: readonly SumLines[], fromMs: number): Promise<number | null> {
  const { values, mark } = openStatement(db);
  const times = lines.map(
    ({ from, where, time }) =>
      `SELECT MIN(${time}) AS at_ms FROM ${from} WHERE ${where} AND ${time} >= ${mark(fromMs)}`,
  );
  const [row] = await db.sql.text(
    `SELECT MIN(at_ms) AS at_ms FROM (${times.join(" UNION ALL ")}) times`,
    values,
  );
  return row === undefined ? null : integerOrNull(row, "at_ms");
}
