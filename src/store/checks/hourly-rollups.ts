/** Reconciliation check of the hourly roll-up against the usage rows that it sums. */

import { DAY_MS, HOUR_MS } from "../../base/time.ts";
import { type Db, snapshot } from "../engine/db.ts";
import { text } from "../engine/row.ts";
import { startOfDay } from "../usage/usage-day.ts";
import { ROW_VALUES, SUM_COLUMNS } from "../usage/usage-hour.ts";
import { readUsageRowsRemovedBefore } from "../usage/usage-removal.ts";
import type { Contradiction } from "./ledger.ts";
import { compareSums, nextTime, openStatement, type SummedLines, type TimeSpan } from "./sums.ts";

const HOURS: SummedLines = {
  from: "usage_hour",
  where: "1 = 1",
  time: "hour_ms",
  keys: ["key_id", "hour_ms", "group_id", "public_model", "interface"],
  values: SUM_COLUMNS,
};

const ROWS: SummedLines = {
  from: "usage",
  where: "1 = 1",
  time: "at_ms",
  // A number without a matching id counts as a missing id, too.
  keys: [
    "COALESCE(key_id, '')",
    `at_ms - at_ms % ${HOUR_MS}`,
    "COALESCE(group_id, '')",
    "COALESCE(public_model, '')",
    "interface",
  ],
  values: ROW_VALUES,
};

/**
 * Finds hours whose sums differ from their usage rows, as far back as usage rows are retained. Works through one day
 * at a time, each in its own snapshot: a long read transaction would block the WAL checkpoint.
 */
export async function findWrongRollUps(db: Db, limit: number): Promise<Contradiction[]> {
  const found: Contradiction[] = [];
  for (let fromMs: number | null = 0; fromMs !== null && found.length < limit; ) {
    const startMs: number = fromMs;
    const { wrong, nextMs } = await snapshot(db, (tx) => checkNextDay(tx, startMs, limit - found.length));
    found.push(...wrong);
    fromMs = nextMs;
  }
  return found;
}

/** Checks the first day from `fromMs` on that has data. */
async function checkNextDay(
  tx: Db,
  fromMs: number,
  limit: number,
): Promise<{ wrong: Contradiction[]; nextMs: number | null }> {
  // Some rows of the hour in which the removal stopped are gone. The next hour is complete.
  const retainedFromMs = Math.ceil((await readUsageRowsRemovedBefore(tx)) / HOUR_MS) * HOUR_MS;
  const atMs = await nextTime(tx, [HOURS, ROWS], Math.max(fromMs, retainedFromMs));
  if (atMs === null) return { wrong: [], nextMs: null };
  const span = { fromMs: atMs - (atMs % HOUR_MS), toMs: startOfDay(atMs) + DAY_MS };
  const isRight = await compareSums(tx, HOURS, ROWS, span);
  return { wrong: isRight ? [] : await findWrongHours(tx, span, limit), nextMs: span.toMs };
}

async function findWrongHours(db: Db, span: TimeSpan, limit: number): Promise<Contradiction[]> {
  const { values, mark, within } = openStatement(db);
  // Each group has at most two lines: the roll-up's and the one summed from the rows.
  const sumColumn = (side: 0 | 1, column: string) => `SUM(CASE side WHEN ${side} THEN ${column} ELSE 0 END)`;
  const differs = SUM_COLUMNS.map((column) => `${sumColumn(0, column)} <> ${sumColumn(1, column)}`).join(
    " OR ",
  );
  const list = (side: 0 | 1) =>
    SUM_COLUMNS.map((column) => `CAST(${sumColumn(side, column)} AS TEXT)`).join(" || ' ' || ");
  const keys = HOURS.keys.join(", ");
  const rows = await db.sql.text(
    `SELECT ${HOURS.keys.map((key) => `CAST(${key} AS TEXT)`).join(" || ' ' || ")} AS subject,
       ${list(0)} AS is_now, ${list(1)} AS ought
     FROM (
       SELECT 0 AS side, ${keys}, ${SUM_COLUMNS.join(", ")} FROM ${HOURS.from} WHERE ${within(HOURS, span)}
       UNION ALL
       SELECT 1, ${ROWS.keys.join(", ")}, ${ROWS.values.map((value) => `SUM(${value})`).join(", ")}
       FROM ${ROWS.from} WHERE ${within(ROWS, span)} GROUP BY ${ROWS.keys.join(", ")}
     ) both_sides GROUP BY ${keys} HAVING ${differs} ORDER BY hour_ms, key_id, public_model LIMIT ${mark(limit)}`,
    values,
  );
  return rows.map((row) => ({
    subject: text(row, "subject"),
    is: text(row, "is_now"),
    ought: text(row, "ought"),
  }));
}
