/**
 * Usage series of one account, computed from usage rows, because no roll-up is split by account. SQLite reads the
 * rows within this process, so only a limited number of the latest rows of the range is read, and the result states
 * since when.
 */

import { DAY_MS, HOUR_MS } from "../../base/time.ts";
import { type Db, numberPlaceholders, type SqlValue } from "../engine/db.ts";
import { integer, text } from "../engine/row.ts";
import {
  buildEmptyTotals,
  plus,
  ROW_VALUES,
  SUM_COLUMNS,
  TOTALS,
  toTotals,
  type UsageTotals,
} from "../usage/usage-hour.ts";
import type { SeriesBounds, SeriesPoint, SeriesRequest, SplitUsage } from "./usage-series.ts";

interface SeriesRowsRequest extends SeriesRequest {
  accountId: string;
}

interface SplitRows extends SplitUsage {
  /** Start of the part of the range that was read. */
  sinceMs: number;
}

export async function readSplitRows(
  db: Db,
  request: SeriesRowsRequest,
  bounds: SeriesBounds & { rows: number },
): Promise<SplitRows> {
  const sinceMs = await findStart(db, request, bounds.rows);
  const cells = await readCells(db, { ...request, fromMs: sinceMs });
  const byName = Map.groupBy(cells, ({ name }) => name);
  const ranking = [...byName]
    .map(([id, some]) => ({ id, totals: some.map(({ totals }) => totals).reduce(plus) }))
    .sort((a, b) => compareByCost(a.totals, b.totals) || (a.id < b.id ? -1 : 1));
  const ranked = request.by === "total" ? [] : ranking.slice(0, bounds.ranked);
  return {
    sinceMs,
    total: cells.map(({ totals }) => totals).reduce(plus, buildEmptyTotals()),
    points: sumByTime(cells),
    ranking: ranked,
    series: ranked.slice(0, bounds.drawn).map(({ id }) => ({ id, points: sumByTime(byName.get(id) ?? []) })),
  };
}

function compareByCost(a: UsageTotals, b: UsageTotals): number {
  if (a.costNano !== b.costNano) return a.costNano < b.costNano ? 1 : -1;
  return b.requests + b.refused - (a.requests + a.refused);
}

/** Finds how far back the allowed number of rows reaches, by the time index over all accounts. */
async function findStart(db: Db, { fromMs, toMs }: SeriesRowsRequest, rows: number): Promise<number> {
  const [row] = await db.sql`
    SELECT at_ms FROM usage_row WHERE at_ms >= ${fromMs} AND at_ms < ${toMs}
    ORDER BY at_ms DESC LIMIT 1 OFFSET ${rows}`;
  return row === undefined ? fromMs : integer(row, "at_ms") + 1;
}

interface Cell {
  name: string;
  atMs: number;
  totals: UsageTotals;
}

const NAMES = {
  total: "''",
  model: "public_model",
  key: "key_id",
  user: "COALESCE(user_id, '')",
  group: "group_id",
} as const;

/** What one row adds to each sum, as columns named like those of the roll-ups. */
const ROW_TOTALS = SUM_COLUMNS.map((column, index) => `${ROW_VALUES[index]} AS ${column}`).join(", ");

async function readCells(
  db: Db,
  { scope, accountId, model, by, granularity, fromMs, toMs }: SeriesRowsRequest,
) {
  const conditions = ["at_ms >= ?", "at_ms < ?", "account_id = ?"];
  const values: SqlValue[] = [fromMs, toMs, accountId];
  for (const [column, value] of [
    ["key_id", scope.keyId],
    ["user_id", scope.userId],
    ["group_id", scope.groupId],
    ["public_model", model],
  ] as const) {
    if (value === undefined) continue;
    conditions.push(`${column} = ?`);
    values.push(value);
  }
  const unitMs = granularity === "day" ? DAY_MS : HOUR_MS;
  const statement = `SELECT name, unit_ms, ${TOTALS} FROM (
      SELECT ${NAMES[by]} AS name, at_ms - at_ms % ${unitMs} AS unit_ms, ${ROW_TOTALS}
      FROM usage WHERE ${conditions.join(" AND ")}
    ) AS used GROUP BY name, unit_ms ORDER BY 2, 1`;
  const rows = await db.sql.text(numberPlaceholders(db.engine, statement), values);
  return rows.map(
    (row): Cell => ({ name: text(row, "name"), atMs: integer(row, "unit_ms"), totals: toTotals(row) }),
  );
}

/** One point for each time, in order. */
function sumByTime(cells: readonly Cell[]): SeriesPoint[] {
  return [...Map.groupBy(cells, ({ atMs }) => atMs)].map(([atMs, some]) => ({
    atMs,
    ...some.map(({ totals }) => totals).reduce(plus),
  }));
}
