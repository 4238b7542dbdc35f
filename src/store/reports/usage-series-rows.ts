/**
 * The same splits from single requests: no roll-up knows which account served one. Rows are many, and SQLite reads them
 * within this process, so only so many of the last ones of the range are looked at, and the answer says since when.
 */

import { type Db, placeholder, type SqlValue } from "../engine/db.ts";
import { integer, text } from "../engine/row.ts";
import { DAY_MS, HOUR_MS } from "../usage/usage-day.ts";
import { noUse, plus, TOTALS, toTotals, type UsageTotals } from "../usage/usage-hour.ts";
import type { SeriesBounds, SeriesPoint, SeriesRequest, SplitUsage } from "./usage-series.ts";

export interface SeriesRowsRequest extends SeriesRequest {
  accountId: string;
}

export interface SplitRows extends SplitUsage {
  /** The first instant of the range that was looked at. */
  sinceMs: number;
}

export async function splitRows(
  db: Db,
  asked: SeriesRowsRequest,
  bounds: SeriesBounds & { rows: number },
): Promise<SplitRows> {
  const sinceMs = await sinceOf(db, asked, bounds.rows);
  const cells = await cellsOf(db, { ...asked, fromMs: sinceMs });
  const byName = Map.groupBy(cells, ({ name }) => name);
  const ranking = [...byName]
    .map(([id, some]) => ({ id, totals: some.map(({ totals }) => totals).reduce(plus) }))
    .sort((a, b) => byWorth(a.totals, b.totals) || (a.id < b.id ? -1 : 1));
  const ranked = asked.by === "total" ? [] : ranking.slice(0, bounds.ranked);
  return {
    sinceMs,
    total: cells.map(({ totals }) => totals).reduce(plus, noUse()),
    points: pointsOf(cells),
    ranking: ranked,
    series: ranked.slice(0, bounds.drawn).map(({ id }) => ({ id, points: pointsOf(byName.get(id) ?? []) })),
  };
}

function byWorth(a: UsageTotals, b: UsageTotals): number {
  if (a.costNano !== b.costNano) return a.costNano < b.costNano ? 1 : -1;
  return b.requests + b.refused - (a.requests + a.refused);
}

/** The index by time tells how far back so many rows reach, whoever they belong to. */
async function sinceOf(db: Db, { fromMs, toMs }: SeriesRowsRequest, rows: number): Promise<number> {
  const at = (number: number) => placeholder(db.engine, number);
  const [row] = await db.sql.text(
    `SELECT at_ms FROM usage_row WHERE at_ms >= ${at(1)} AND at_ms < ${at(2)}
     ORDER BY at_ms DESC LIMIT 1 OFFSET ${rows}`,
    [fromMs, toMs],
  );
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

/** As `totalsOf` counts one row. */
const COUNTED = `CASE WHEN outcome = 'refused' THEN 0 ELSE request_count END AS requests,
  CASE WHEN outcome = 'refused' THEN request_count ELSE 0 END AS refused,
  CASE WHEN outcome IN ('failed', 'upstream_cut') THEN 1 ELSE 0 END AS failed,
  input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens, images, duration_ms,
  COALESCE(first_byte_ms, 0) AS first_byte_ms,
  CASE WHEN first_byte_ms IS NULL THEN 0 ELSE 1 END AS first_bytes,
  cost_nano, charged_nano, upstream_nano`;

async function cellsOf(
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
  let next = 1;
  const statement = `SELECT name, unit_ms, ${TOTALS} FROM (
      SELECT ${NAMES[by]} AS name, at_ms - at_ms % ${unitMs} AS unit_ms, ${COUNTED}
      FROM usage WHERE ${conditions.join(" AND ")}
    ) AS used GROUP BY name, unit_ms ORDER BY 2, 1`;
  const rows = await db.sql.text(
    statement.replaceAll("?", () => placeholder(db.engine, next++)),
    values,
  );
  return rows.map(
    (row): Cell => ({ name: text(row, "name"), atMs: integer(row, "unit_ms"), totals: toTotals(row) }),
  );
}

/** One for each time, in order. */
function pointsOf(cells: readonly Cell[]): SeriesPoint[] {
  return [...Map.groupBy(cells, ({ atMs }) => atMs)].map(([atMs, some]) => ({
    atMs,
    ...some.map(({ totals }) => totals).reduce(plus),
  }));
}
