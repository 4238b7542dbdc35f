/**
 * Reconciliation check of the daily roll-up against its sources. Each scope of the roll-up derives from the hourly
 * roll-up, or from another scope that is folded in the same transaction.
 */

import { DAY_MS, HOUR_MS, WEEK_MS } from "../../base/time.ts";
import { type Db, snapshot } from "../engine/db.ts";
import { integer, text } from "../engine/row.ts";
import { FOLD_GRACE_MS, startOfWeek } from "../usage/usage-day.ts";
import { SUM_COLUMNS } from "../usage/usage-hour.ts";
import type { Contradiction } from "./ledger.ts";
import { compareSums, nextTime, openStatement, type SumLines, type TimeSpan } from "./sums.ts";

/**
 * One scope of the daily roll-up: its source lines, and the owner, time and model that each source line counts
 * towards. All values are SQL.
 */
interface Scope extends SumLines {
  name: string;
  id: string;
  at: string;
  model: string;
  /**
   * True if folding happens later than the write of the source: lines may be missing until their hour is certainly
   * folded. False if both are written in one transaction, so they always agree.
   */
  isLater: boolean;
}

const sqlStartOfDay = (at: string) => `${at} - ${at} % ${DAY_MS}`;
/** Weeks start on Monday, as in `startOfWeek`. */
const sqlStartOfWeek = (at: string) => `${at} - (${at} + ${3 * DAY_MS}) % ${WEEK_MS}`;

const hours = {
  from: "usage_hour",
  where: "1 = 1",
  time: "hour_ms",
  model: "public_model",
  isLater: true,
} as const;
const days = (scope: string) => ({ from: "usage_day", where: `scope = '${scope}'`, time: "day_ms" });

const SCOPES: readonly Scope[] = [
  { name: "key", ...hours, id: "key_id", at: sqlStartOfDay("hour_ms") },
  { name: "group", ...hours, id: "group_id", at: sqlStartOfDay("hour_ms") },
  { name: "all_hour", ...hours, id: "''", at: "hour_ms" },
  {
    name: "all",
    ...days("all_hour"),
    id: "''",
    at: sqlStartOfDay("day_ms"),
    model: "public_model",
    isLater: true,
  },
  {
    name: "user",
    from: "usage_day JOIN api_key ON api_key.id = scope_id",
    where: "scope = 'key' AND user_id IS NOT NULL",
    time: "day_ms",
    id: "user_id",
    at: "day_ms",
    model: "public_model",
    isLater: false,
  },
  ...["key", "user", "group"].flatMap((name): Scope[] => {
    const sums = { id: "scope_id", model: "''", isLater: false };
    return [
      { name: `${name}_sum`, ...sums, ...days(name), at: "day_ms" },
      { name: `${name}_week`, ...sums, ...days(`${name}_sum`), at: sqlStartOfWeek("day_ms") },
    ];
  }),
];

/** All lines that have a time: the hourly roll-up, and each scope of the daily one. */
const ALL_LINES: readonly SumLines[] = [hours, ...SCOPES.map(({ name }) => days(name))];

/** The part of the hourly roll-up that may not be folded yet. */
interface UnfoldedHours {
  /** Hours from this time on may not be folded. */
  sinceMs: number;
  /** Every hour of these days may be unfolded. */
  marked: readonly number[];
}

/**
 * Finds daily sums below what was certainly folded into them, or above the sum of their sources. Additions to an
 * hour since the last fold are still unfolded, and so is every marked day. Works through one week at a time, each in
 * its own snapshot. Returns at most `limit` rows per scope.
 */
export async function findWrongDays(db: Db, nowMs: number, limit: number): Promise<Contradiction[]> {
  const found = new Map<Scope, Contradiction[]>(SCOPES.map((scope) => [scope, []]));
  for (let fromMs: number | null = 0; fromMs !== null; ) {
    const startMs: number = fromMs;
    fromMs = await snapshot(db, async (tx) => {
      const atMs = await nextTime(tx, ALL_LINES, startMs);
      if (atMs === null) return null;
      const unfolded = await readUnfolded(tx, nowMs);
      for (const [scope, wrong] of found) {
        wrong.push(...(await findWrongInWeek(tx, scope, startOfWeek(atMs), unfolded, limit - wrong.length)));
      }
      return startOfWeek(atMs) + WEEK_MS;
    });
  }
  return [...found.values()].flat();
}

async function readUnfolded(tx: Db, nowMs: number): Promise<UnfoldedHours> {
  const [fold] = await tx.sql`SELECT folded_at_ms FROM usage_fold WHERE id = 1`;
  const foldedAtMs = fold === undefined ? 0 : integer(fold, "folded_at_ms");
  const marked = await tx.sql`SELECT DISTINCT day_ms FROM usage_day_mark`;
  return {
    sinceMs: Math.floor((Math.min(foldedAtMs, nowMs) - FOLD_GRACE_MS) / HOUR_MS) * HOUR_MS,
    marked: marked.map((row) => integer(row, "day_ms")),
  };
}

async function findWrongInWeek(
  tx: Db,
  scope: Scope,
  weekMs: number,
  unfolded: UnfoldedHours,
  limit: number,
): Promise<Contradiction[]> {
  const wrong: Contradiction[] = [];
  // The hourly roll-up has many lines. The engine sorts at most one day of them at once.
  const stepMs = scope.isLater ? DAY_MS : WEEK_MS;
  for (let fromMs = weekMs; fromMs < weekMs + WEEK_MS && wrong.length < limit; fromMs += stepMs) {
    const span = { fromMs, toMs: fromMs + stepMs };
    if (await isFolded(tx, scope, span)) continue;
    wrong.push(...(await findWrongSums(tx, scope, span, unfolded, limit - wrong.length)));
  }
  return wrong;
}

/** Whether all sums are complete and equal to their sources. */
function isFolded(db: Db, scope: Scope, span: TimeSpan): Promise<boolean> {
  const sums = { ...days(scope.name), keys: ["scope_id", "day_ms", "public_model"], values: SUM_COLUMNS };
  return compareSums(
    db,
    sums,
    { ...scope, keys: [scope.id, scope.at, scope.model], values: SUM_COLUMNS },
    span,
  );
}

async function findWrongSums(
  db: Db,
  scope: Scope,
  span: TimeSpan,
  { sinceMs, marked }: UnfoldedHours,
  limit: number,
): Promise<Contradiction[]> {
  const { values, mark, within } = openStatement(db);
  // SUM returns NUMERIC on PostgreSQL, which is several times slower to sum again.
  const sums = SUM_COLUMNS.map((column) => `CAST(SUM(${column}) AS BIGINT) AS ${column}`).join(", ");
  const isLate = () => (scope.isLater ? `CASE WHEN ${scope.time} < ${mark(sinceMs)} THEN 0 ELSE 1 END` : "0");
  // One list of the stored sums (-1), the certainly folded lines (0) and the possibly unfolded lines (1), summed side
  // by side.
  const buildSideColumns = (column: string) => [
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
    !scope.isLater || marked.length === 0
      ? ""
      : `AND at_ms - at_ms % ${DAY_MS} NOT IN (${marked.join(", ")})`;
  const rows = await db.sql.text(
    `SELECT id, at_ms, model, ${shown.join(", ")}
     FROM (
       SELECT id, at_ms, model, ${SUM_COLUMNS.flatMap(buildSideColumns).join(", ")}
       FROM (
         SELECT -1 AS part, scope_id AS id, day_ms AS at_ms, public_model AS model, ${SUM_COLUMNS.join(", ")}
         FROM usage_day WHERE ${within(days(scope.name), span)}
         UNION ALL
         SELECT part, id, at_ms, model, ${sums}
         FROM (
           SELECT ${isLate()} AS part, ${scope.id} AS id, ${scope.at} AS at_ms, ${scope.model} AS model,
             ${SUM_COLUMNS.join(", ")}
           FROM ${scope.from} WHERE ${within(scope, span)}
         ) lines GROUP BY part, id, at_ms, model
       ) sides GROUP BY id, at_ms, model
     ) folded
     WHERE (${isWrong}) ${unmarked} ORDER BY at_ms, id, model LIMIT ${mark(limit)}`,
    values,
  );
  return rows.map((row) => {
    const side = (name: string, column: string) => text(row, `${name}_${column}`);
    const differ = SUM_COLUMNS.filter((column) => {
      const is = BigInt(side("is", column));
      return is < BigInt(side("least", column)) || is > BigInt(side("most", column));
    });
    const describeColumns = (describe: (column: string) => string) =>
      differ.map((column) => `${column} ${describe(column)}`).join(", ");
    const time = new Date(integer(row, "at_ms")).toISOString();
    const names = [scope.name, text(row, "id"), time.slice(0, scope.name === "all_hour" ? 13 : 10)];
    return {
      subject: [...names, text(row, "model")].filter((name) => name !== "").join(" "),
      is: describeColumns((column) => side("is", column)),
      ought: describeColumns((column) => {
        const [least, most] = [side("least", column), side("most", column)];
        return least === most ? most : `${least} to ${most}`;
      }),
    };
  });
}
