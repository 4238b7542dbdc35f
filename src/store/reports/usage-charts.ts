/**
 * Series and rankings for dashboards. Days come from the daily roll-up as of its last fold, and so do the hours of
 * all callers together. Other hours come from the hourly roll-up, for ranges of some days. Usage rows are never read
 * here.
 */

import { DAY_MS, HOUR_MS } from "../../base/time.ts";
import { type Db, numberPlaceholders, type SqlValue } from "../engine/db.ts";
import { integer, nano, text } from "../engine/row.ts";
import { rowReader } from "../engine/row-reader.ts";
import { startOfDay, startOfWeek } from "../usage/usage-day.ts";
import { TOTALS, toTotals, type UsageTotals } from "../usage/usage-hour.ts";

export type ChartScope = { kind: "all" } | { kind: "group" | "user" | "key"; id: string };

interface ChartRequest {
  scope: ChartScope;
  /** Rounded down to the start of its day or hour. */
  fromMs: number;
  /** Exclusive. */
  toMs: number;
  granularity: "day" | "hour";
  by: "model" | "total";
}

export interface ChartPoint extends UsageTotals {
  /** Start of the day or hour. */
  atMs: number;
  /** Null for a total. */
  model: string | null;
  durationMsMean: number | null;
  firstByteMsMean: number | null;
}

/** Ordered by time, then by model. A day or hour without usage has no point. */
export async function readUsageSeries(db: Db, request: ChartRequest): Promise<ChartPoint[]> {
  const { from, values, at } =
    request.granularity === "day" ? buildDaySource(request) : buildHourSource(request);
  const by = request.by === "model" ? ", public_model" : "";
  const rows = await db.sql.text(
    numberPlaceholders(
      db.engine,
      `SELECT ${at} AS at_ms${by}, ${TOTALS} FROM ${from} GROUP BY ${at}${by} ORDER BY ${at}${by}`,
    ),
    values,
  );
  return rows.map((row) => {
    const sums = toTotals(row);
    return {
      atMs: integer(row, "at_ms"),
      model: request.by === "model" ? text(row, "public_model") : null,
      ...sums,
      durationMsMean: computeMean(sums.durationMs, sums.firstBytes),
      firstByteMsMean: computeMean(sums.firstByteMs, sums.firstBytes),
    };
  });
}

interface Source {
  at: "day_ms" | "hour_ms";
  from: string;
  values: SqlValue[];
}

function buildDaySource({ scope, fromMs, toMs, by }: ChartRequest): Source {
  const summed = by === "total" && scope.kind !== "all";
  return {
    at: "day_ms",
    from: "usage_day WHERE scope = ? AND scope_id = ? AND day_ms >= ? AND day_ms < ?",
    values: [
      summed ? `${scope.kind}_sum` : scope.kind,
      scope.kind === "all" ? "" : scope.id,
      startOfDay(fromMs),
      toMs,
    ],
  };
}

function buildHourSource({ scope, fromMs, toMs }: ChartRequest): Source {
  const range = "hour_ms >= ? AND hour_ms < ?";
  const times = [Math.floor(fromMs / HOUR_MS) * HOUR_MS, toMs];
  switch (scope.kind) {
    case "all":
      return {
        at: "day_ms",
        from: "usage_day WHERE scope = 'all_hour' AND scope_id = '' AND day_ms >= ? AND day_ms < ?",
        values: times,
      };
    case "group":
      return {
        at: "hour_ms",
        from: `usage_hour WHERE group_id = ? AND ${range}`,
        values: [scope.id, ...times],
      };
    case "key":
      return {
        at: "hour_ms",
        from: `usage_hour WHERE key_id = ? AND ${range}`,
        values: [scope.id, ...times],
      };
    case "user":
      return {
        at: "hour_ms",
        from: `usage_hour WHERE key_id IN (SELECT id FROM api_key WHERE user_id = ?) AND ${range}`,
        values: [scope.id, ...times],
      };
  }
}

export interface RankingRequest {
  rankBy: "key" | "user" | "group" | "model";
  /** Whose keys or models are ranked. A key counts towards the group it belongs to now. */
  within: ChartScope;
  fromMs: number;
  toMs: number;
  limit: number;
}

const toTop = rowReader({
  /** An id, or a model name. */
  id: text,
  /** Admitted ones. */
  requests: integer,
  refused: integer,
  costNano: nano,
  chargedNano: nano,
});
export type TopEntry = ReturnType<typeof toTop>;

/** Counts whole days. Ordered by cost, then by requests. */
export async function readTopUsage(db: Db, request: RankingRequest): Promise<TopEntry[]> {
  const { from, values } =
    request.rankBy === "model" ? buildModelSource(request) : buildOwnerSource(request.rankBy, request);
  const rows = await db.sql.text(
    numberPlaceholders(
      db.engine,
      `SELECT name AS id, CAST(SUM(requests) AS BIGINT) AS requests, CAST(SUM(refused) AS BIGINT) AS refused,
         CAST(SUM(cost_nano) AS TEXT) AS cost_nano, CAST(SUM(charged_nano) AS TEXT) AS charged_nano
       FROM (${from}) AS days GROUP BY name ORDER BY SUM(cost_nano) DESC, SUM(requests) DESC, name LIMIT ?`,
    ),
    [...values, request.limit],
  );
  return rows.map(toTop);
}

function buildModelSource({ within, fromMs, toMs }: RankingRequest): Omit<Source, "at"> {
  return {
    from: `SELECT public_model AS name, requests, refused, cost_nano, charged_nano FROM usage_day
      WHERE scope = ? AND scope_id = ? AND day_ms >= ? AND day_ms < ?`,
    values: [within.kind, within.kind === "all" ? "" : within.id, startOfDay(fromMs), toMs],
  };
}

/** Uses whole weeks within the range, and days at its ends. */
function buildOwnerSource(
  rankBy: "key" | "user" | "group",
  { within, fromMs, toMs }: RankingRequest,
): Omit<Source, "at"> {
  if (within.kind === "key" || (within.kind !== "all" && rankBy !== "key")) {
    throw new Error(`A ranking of ${rankBy}s within one ${within.kind} is not supported.`);
  }
  const ownerCondition =
    within.kind === "all" ? "" : `AND scope_id IN (SELECT id FROM api_key WHERE ${within.kind}_id = ?)`;
  const part = (scope: string, startMs: number, endMs: number) => ({
    from: `SELECT scope_id AS name, requests, refused, cost_nano, charged_nano FROM usage_day
      WHERE scope = '${scope}' AND day_ms >= ? AND day_ms < ? ${ownerCondition}`,
    values: [startMs, endMs, ...(within.kind === "all" ? [] : [within.id])],
  });
  const startMs = startOfDay(fromMs);
  const weeksFromMs = startOfWeek(startMs + 6 * DAY_MS);
  const weeksToMs = startOfWeek(toMs);
  const parts =
    weeksFromMs >= weeksToMs
      ? [part(`${rankBy}_sum`, startMs, toMs)]
      : [
          part(`${rankBy}_sum`, startMs, weeksFromMs),
          part(`${rankBy}_week`, weeksFromMs, weeksToMs),
          part(`${rankBy}_sum`, weeksToMs, toMs),
        ];
  return {
    from: parts.map(({ from }) => from).join(" UNION ALL "),
    values: parts.flatMap(({ values }) => values),
  };
}

function computeMean(sum: number, count: number): number | null {
  return count === 0 ? null : sum / count;
}
