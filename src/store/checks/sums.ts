/**
 * Do sums agree with what they are the sum of? Asked of a span of time, so that no engine has to sort more than that,
 * and answered with yes or no: what is wrong is looked for only where something is.
 */

import { type Db, placeholder, type SqlValue } from "../engine/db.ts";
import { integer, integerOrNull } from "../engine/row.ts";

/** Lines of a table, whose `time` column a span is cut out by. All of it is SQL. */
export interface SumLines {
  from: string;
  where: string;
  time: string;
}

/** What tells one line from another, and what is compared: on both sides in the same order. */
export interface SummedLines extends SumLines {
  keys: readonly string[];
  values: readonly string[];
}

export interface TimeSpan {
  fromMs: number;
  /** Before it. */
  toMs: number;
}

/** Gathers the values of a statement's placeholders, in the order in which its text names them. */
export function openStatement(db: Db) {
  const values: SqlValue[] = [];
  const mark = (value: SqlValue) => placeholder(db.engine, values.push(value));
  return {
    values,
    mark,
    /** Which lines are of a span. */
    within: ({ where, time }: SumLines, { fromMs, toMs }: TimeSpan) =>
      `${where} AND ${time} >= ${mark(fromMs)} AND ${time} < ${mark(toMs)}`,
  };
}

/** Each of the sums is there and comes to its own parts, and there are no others. */
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
  if (row === undefined) throw new Error("Counting gives one row.");
  const many = integer(row, "many");
  return integer(row, "found") === many && integer(row, "standing") === many && integer(row, "wrong") === 0;
}

/** The earliest time of any of these lines from here on; null if there is none. */
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
