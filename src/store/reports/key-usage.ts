/**
 * Usage of one key, exact to the last committed request. Days that are certainly folded come from the daily roll-up,
 * so that an old key is as fast as a new one; the rest comes from the hourly roll-up.
 */

import { type Db, placeholder, type SqlValue } from "../engine/db.ts";
import { integer, text } from "../engine/row.ts";
import { DAY_MS, HOUR_MS, readFoldState, startOfDay } from "../usage/usage-day.ts";
import { SUM_COLUMNS, TOTALS, toTotals, type UsageTotals } from "../usage/usage-hour.ts";

export interface KeyUsageRequest {
  keyId: string;
  /** Start of an hour or a day, according to the granularity. */
  fromMs: number;
  /** Exclusive. */
  toMs: number;
  granularity: "hour" | "day";
}

export interface UsagePoint extends UsageTotals {
  atMs: number;
}

export interface ModelUsage extends UsageTotals {
  model: string;
}

/** Before this time the daily roll-up equals the hourly one, including late rows. */
export async function readFoldedBefore(db: Db): Promise<number> {
  const { foldedAtMs, marks } = await readFoldState(db);
  const settledMs = Math.max(0, startOfDay(foldedAtMs) - DAY_MS);
  return Math.min(settledMs, ...marks.map(({ dayMs }) => dayMs));
}

/** In order of time. An hour or day without usage has no point. */
export async function readKeyPoints(
  db: Db,
  request: KeyUsageRequest,
  foldedBeforeMs: number,
): Promise<UsagePoint[]> {
  const { from, values } = buildSource(db, request, foldedBeforeMs);
  const unitMs = request.granularity === "day" ? DAY_MS : HOUR_MS;
  const at = `at_ms - at_ms % ${unitMs}`;
  const rows = await db.sql.text(
    `SELECT ${at} AS unit_ms, ${TOTALS} FROM ${from} GROUP BY ${at} ORDER BY 1`,
    values,
  );
  return rows.map((row) => ({ atMs: integer(row, "unit_ms"), ...toTotals(row) }));
}

/** Highest cost first, then most requests. */
export async function readKeyModels(
  db: Db,
  request: KeyUsageRequest,
  foldedBeforeMs: number,
  limit: number,
): Promise<ModelUsage[]> {
  const { from, values } = buildSource(db, request, foldedBeforeMs);
  const rows = await db.sql.text(
    `SELECT public_model, ${TOTALS} FROM ${from} GROUP BY public_model
     ORDER BY SUM(cost_nano) DESC, SUM(requests) DESC, public_model LIMIT ${limit}`,
    values,
  );
  return rows.map((row) => ({ model: text(row, "public_model"), ...toTotals(row) }));
}

export async function readKeySum(
  db: Db,
  request: KeyUsageRequest,
  foldedBeforeMs: number,
): Promise<UsageTotals> {
  const { from, values } = buildSource(db, request, foldedBeforeMs);
  const [row] = await db.sql.text(`SELECT ${TOTALS} FROM ${from}`, values);
  if (row === undefined) throw new Error("A sum returned no row.");
  return toTotals(row);
}

function buildSource(
  db: Db,
  { keyId, fromMs, toMs, granularity }: KeyUsageRequest,
  foldedBeforeMs: number,
): { from: string; values: SqlValue[] } {
  const splitMs = granularity === "day" ? Math.min(toMs, Math.max(fromMs, foldedBeforeMs)) : fromMs;
  const columns = ["public_model", ...SUM_COLUMNS].join(", ");
  const at = (number: number) => placeholder(db.engine, number);
  return {
    from: `(
      SELECT day_ms AS at_ms, ${columns} FROM usage_day
      WHERE scope = 'key' AND scope_id = ${at(1)} AND day_ms >= ${at(2)} AND day_ms < ${at(3)}
      UNION ALL
      SELECT hour_ms AS at_ms, ${columns} FROM usage_hour
      WHERE key_id = ${at(4)} AND hour_ms >= ${at(5)} AND hour_ms < ${at(6)}
    ) AS used`,
    values: [keyId, fromMs, splitMs, keyId, splitMs, toMs],
  };
}
