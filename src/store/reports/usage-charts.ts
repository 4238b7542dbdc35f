/**
 * What dashboards draw: series and rankings. Days come from the roll-up by day, as it was last folded, as do the hours
 * of everybody together; other hours from the hours themselves, for ranges of some days. The rows of single requests are
 * never read here.
 */

import { type Db, placeholder, type SqlValue } from "../engine/db.ts";
import { integer, nano, text } from "../engine/row.ts";
import { DAY_MS, HOUR_MS, startOfDay, startOfWeek } from "../usage/usage-day.ts";
import { TOTALS, toTotals, type UsageTotals } from "../usage/usage-hour.ts";

export type ChartScope = { kind: "all" } | { kind: "group" | "user" | "key"; id: string };

export interface ChartRequest {
  scope: ChartScope;
  /** From the day or hour that it falls in. */
  fromMs: number;
  /** Before it. */
  toMs: number;
  granularity: "day" | "hour";
  by: "model" | "total";
}

export interface ChartPoint extends UsageTotals {
  /** The beginning of the day or hour. */
  atMs: number;
  /** Null for a total. */
  model: string | null;
  durationMsMean: number | null;
  firstByteMsMean: number | null;
}

/** In the order of time, then of model. A day or hour without use has no point. */
export async function usageSeries(db: Db, asked: ChartRequest): Promise<ChartPoint[]> {
  const { from, values, at } = asked.granularity === "day" ? daysOf(asked) : hoursOf(asked);
  const by = asked.by === "model" ? ", public_model" : "";
  const rows = await db.sql.text(
    numbered(
      db,
      `SELECT ${at} AS at_ms${by}, ${TOTALS} FROM ${from} GROUP BY ${at}${by} ORDER BY ${at}${by}`,
    ),
    values,
  );
  return rows.map((row) => {
    const sums = toTotals(row);
    return {
      atMs: integer(row, "at_ms"),
      model: asked.by === "model" ? text(row, "public_model") : null,
      ...sums,
      durationMsMean: mean(sums.durationMs, sums.requests + sums.refused),
      firstByteMsMean: mean(sums.firstByteMs, sums.firstBytes),
    };
  });
}

interface Source {
  at: "day_ms" | "hour_ms";
  from: string;
  values: SqlValue[];
}

function daysOf({ scope, fromMs, toMs, by }: ChartRequest): Source {
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

function hoursOf({ scope, fromMs, toMs }: ChartRequest): Source {
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
  of: "key" | "user" | "group" | "model";
  /** Whose keys or models. Keys are a group's by what they belong to now. */
  within: ChartScope;
  fromMs: number;
  toMs: number;
  limit: number;
}

export interface TopEntry {
  /** An id, or a model's name. */
  id: string;
  requests: number;
  costNano: bigint;
  chargedNano: bigint;
}

/** Whole days. By what it cost, then by requests. */
export async function topUsage(db: Db, asked: RankingRequest): Promise<TopEntry[]> {
  const { from, values } = asked.of === "model" ? modelDays(asked) : ownerDays(asked.of, asked);
  const rows = await db.sql.text(
    numbered(
      db,
      `SELECT name, CAST(SUM(requests) AS BIGINT) AS requests, CAST(SUM(cost_nano) AS TEXT) AS cost_nano,
         CAST(SUM(charged_nano) AS TEXT) AS charged_nano
       FROM (${from}) AS days GROUP BY name ORDER BY SUM(cost_nano) DESC, SUM(requests) DESC, name LIMIT ?`,
    ),
    [...values, asked.limit],
  );
  return rows.map((row) => ({
    id: text(row, "name"),
    requests: integer(row, "requests"),
    costNano: nano(row, "cost_nano"),
    chargedNano: nano(row, "charged_nano"),
  }));
}

function modelDays({ within, fromMs, toMs }: RankingRequest): Omit<Source, "at"> {
  return {
    from: `SELECT public_model AS name, requests, cost_nano, charged_nano FROM usage_day
      WHERE scope = ? AND scope_id = ? AND day_ms >= ? AND day_ms < ?`,
    values: [within.kind, within.kind === "all" ? "" : within.id, startOfDay(fromMs), toMs],
  };
}

/** Whole weeks where the range holds them, and days at its ends. */
function ownerDays(
  of: "key" | "user" | "group",
  { within, fromMs, toMs }: RankingRequest,
): Omit<Source, "at"> {
  if (within.kind === "key" || (within.kind !== "all" && of !== "key")) {
    throw new Error(`There is no ranking of ${of}s within one ${within.kind}.`);
  }
  const whose =
    within.kind === "all" ? "" : `AND scope_id IN (SELECT id FROM api_key WHERE ${within.kind}_id = ?)`;
  const part = (scope: string, startMs: number, endMs: number) => ({
    from: `SELECT scope_id AS name, requests, cost_nano, charged_nano FROM usage_day
      WHERE scope = '${scope}' AND day_ms >= ? AND day_ms < ? ${whose}`,
    values: [startMs, endMs, ...(within.kind === "all" ? [] : [within.id])],
  });
  const startMs = startOfDay(fromMs);
  const weeksFromMs = startOfWeek(startMs + 6 * DAY_MS);
  const weeksToMs = startOfWeek(toMs);
  const parts =
    weeksFromMs >= weeksToMs
      ? [part(`${of}_sum`, startMs, toMs)]
      : [
          part(`${of}_sum`, startMs, weeksFromMs),
          part(`${of}_week`, weeksFromMs, weeksToMs),
          part(`${of}_sum`, weeksToMs, toMs),
        ];
  return {
    from: parts.map(({ from }) => from).join(" UNION ALL "),
    values: parts.flatMap(({ values }) => values),
  };
}

function mean(sum: number, count: number): number | null {
  return count === 0 ? null : sum / count;
}

function numbered(db: Db, statement: string): string {
  let next = 1;
  return statement.replaceAll("?", () => placeholder(db.engine, next++));
}
