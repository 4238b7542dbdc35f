/**
 * The roll-up by day, held against what it was folded from. Each of its scopes follows from the hours, or from another
 * scope that is folded in the same transaction.
 */

import type { Contradiction } from "./books.ts";
import { type Db, placeholder } from "./db.ts";
import { integer, text } from "./row.ts";
import { DAY_MS, FOLD_GRACE_MS, HOUR_MS, readFoldState, WEEK_MS } from "./usage-day.ts";
import { SUM_COLUMNS } from "./usage-hour.ts";

interface Scope {
  name: string;
  /** What it is folded from, and whose, which time and which model each of its lines counts for; all of it is SQL. */
  from: string;
  id: string;
  at: string;
  model: string;
  /**
   * The hour that a line is of, where folding comes later: until the hour is surely folded the line may be missing.
   * Null: both are written in one transaction, so that they always agree.
   */
  hour: string | null;
}

const ofDay = (at: string) => `${at} - ${at} % ${DAY_MS}`;
/** Monday, as in `weekOf`. */
const ofWeek = (at: string) => `${at} - (${at} + ${3 * DAY_MS}) % ${WEEK_MS}`;

const hours = { from: "usage_hour", model: "public_model", hour: "hour_ms" } as const;

const SCOPES: readonly Scope[] = [
  { name: "key", ...hours, id: "key_id", at: ofDay("hour_ms") },
  { name: "group", ...hours, id: "group_id", at: ofDay("hour_ms") },
  { name: "all_hour", ...hours, id: "''", at: "hour_ms" },
  {
    name: "all",
    from: "usage_day WHERE scope = 'all_hour'",
    id: "''",
    at: ofDay("day_ms"),
    model: "public_model",
    hour: "day_ms",
  },
  {
    name: "user",
    from: "usage_day JOIN api_key ON api_key.id = scope_id WHERE scope = 'key' AND user_id IS NOT NULL",
    id: "user_id",
    at: "day_ms",
    model: "public_model",
    hour: null,
  },
  ...["key", "user", "group"].flatMap((name): Scope[] => {
    const sums = { id: "scope_id", model: "''", hour: null };
    return [
      { name: `${name}_sum`, ...sums, from: `usage_day WHERE scope = '${name}'`, at: "day_ms" },
      { name: `${name}_week`, ...sums, from: `usage_day WHERE scope = '${name}_sum'`, at: ofWeek("day_ms") },
    ];
  }),
];

/**
 * Sums that are less than what was surely folded into them, or more than there is. What an hour got since the last
 * fold is still to be folded, and so is all of a day that is marked.
 */
export async function wrongDays(db: Db, nowMs: number, limit: number): Promise<Contradiction[]> {
  const { foldedAtMs, marks } = await readFoldState(db);
  const foldedMs = Math.floor((Math.min(foldedAtMs, nowMs) - FOLD_GRACE_MS) / HOUR_MS) * HOUR_MS;
  const marked = new Set(marks.map(({ dayMs }) => dayMs));
  const found: Contradiction[] = [];
  for (const scope of SCOPES) found.push(...(await wrongSums(db, scope, foldedMs, [...marked], limit)));
  return found;
}

async function wrongSums(
  db: Db,
  scope: Scope,
  foldedMs: number,
  marked: readonly number[],
  limit: number,
): Promise<Contradiction[]> {
  const values = [scope.name, ...(scope.hour === null ? [] : [foldedMs]), limit];
  let next = 1;
  const value = () => placeholder(db.engine, next++);
  // PostgreSQL's sums are NUMERIC, which take several times as long to be added up once more.
  const sums = SUM_COLUMNS.map((column) => `CAST(SUM(${column}) AS BIGINT) AS ${column}`).join(", ");
  const isLate = (mark: () => string) =>
    scope.hour === null ? "0" : `CASE WHEN ${scope.hour} < ${mark()} THEN 0 ELSE 1 END`;
  // One list of what stands there (-1), what was surely folded (0) and what may not be yet (1), added up side by side.
  const sidesOf = (column: string) => [
    `SUM(CASE part WHEN -1 THEN ${column} ELSE 0 END) AS is_${column}`,
    `SUM(CASE part WHEN 0 THEN ${column} ELSE 0 END) AS least_${column}`,
    `SUM(CASE part WHEN -1 THEN 0 ELSE ${column} END) AS most_${column}`,
  ];
  const isWrong = SUM_COLUMNS.map(
    (column) => `is_${column} < least_${column} OR is_${column} > most_${column}`,
  ).join(" OR ");
  const shown = SUM_COLUMNS.flatMap((column) =>
    ["is", "least", "most"].map((side) => `CAST(${side}_${column} AS TEXT) AS ${side}_${column}`),
  );
  const unmarked =
    scope.hour === null || marked.length === 0
      ? ""
      : `AND at_ms - at_ms % ${DAY_MS} NOT IN (${marked.join(", ")})`;
  const rows = await db.sql.text(
    `SELECT id, at_ms, model, ${shown.join(", ")}
     FROM (
       SELECT id, at_ms, model, ${SUM_COLUMNS.flatMap(sidesOf).join(", ")}
       FROM (
         SELECT -1 AS part, scope_id AS id, day_ms AS at_ms, public_model AS model, ${SUM_COLUMNS.join(", ")}
         FROM usage_day WHERE scope = ${value()}
         UNION ALL
         SELECT part, id, at_ms, model, ${sums}
         FROM (
           SELECT ${isLate(value)} AS part, ${scope.id} AS id, ${scope.at} AS at_ms, ${scope.model} AS model,
             ${SUM_COLUMNS.join(", ")}
           FROM ${scope.from}
         ) lines GROUP BY part, id, at_ms, model
       ) sides GROUP BY id, at_ms, model
     ) folded
     WHERE (${isWrong}) ${unmarked} ORDER BY at_ms, id, model LIMIT ${value()}`,
    values,
  );
  return rows.map((row) => {
    const side = (name: string, column: string) => text(row, `${name}_${column}`);
    const differ = SUM_COLUMNS.filter((column) => {
      const is = BigInt(side("is", column));
      return is < BigInt(side("least", column)) || is > BigInt(side("most", column));
    });
    const told = (of: (column: string) => string) =>
      differ.map((column) => `${column} ${of(column)}`).join(", ");
    const time = new Date(integer(row, "at_ms")).toISOString();
    const names = [scope.name, text(row, "id"), time.slice(0, scope.name === "all_hour" ? 13 : 10)];
    return {
      subject: [...names, text(row, "model")].filter((name) => name !== "").join(" "),
      is: told((column) => side("is", column)),
      ought: told((column) => {
        const [least, most] = [side("least", column), side("most", column)];
        return least === most ? most : `${least} to ${most}`;
      }),
    };
  });
}
