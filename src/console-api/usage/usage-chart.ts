/** Usage over time, split by a chosen dimension, with the ranking below the chart. */

import { z } from "zod";
import { mapKinds } from "../../base/map-kinds.ts";
import { usdText } from "../../money/nano.ts";
import { toUsageCounts, USAGE_COUNT_NAMES } from "../../records/usage-counts.ts";
import type { Db } from "../../store/engine/db.ts";
import { lookUpNames } from "../../store/reports/names.ts";
import {
  canSplit,
  readSplitUsage,
  readTotalUsage,
  type SeriesPoint,
  type SeriesRequest,
  type SeriesSplit,
  type SplitUsage,
} from "../../store/reports/usage-series.ts";
import { readSplitRows } from "../../store/reports/usage-series-rows.ts";
import type { UsageTotals } from "../../store/usage/usage-hour.ts";
import { fieldError } from "../http/field-error.ts";
import { type Actor, seesEverything } from "../http/route.ts";
import type { ChartRange, UsageScope } from "./usage-scope.ts";

/** Clients choose the model names of rejected requests, so there may be many. */
const BOUNDS = { ranked: 50, drawn: 7, rows: 50_000 };

const totalsResponse = z.object({
  /** Admitted requests; those of them that the upstream failed or interrupted; and rejected requests. */
  requests: z.number(),
  failed: z.number(),
  refused: z.number(),
  /** Cached tokens are part of the input, reasoning tokens part of the output. */
  ...mapKinds(USAGE_COUNT_NAMES, () => z.number()),
  /** In USD: at list price, and the part that was paid. */
  cost: z.string(),
  charged: z.string(),
  /** The upstream cost in USD, for administrators. */
  upstream_cost: z.string().optional(),
  /** Averages in milliseconds: of the whole request, and until the first byte of the response. */
  duration_ms: z.number().nullable(),
  first_byte_ms: z.number().nullable(),
});
type ChartTotals = z.input<typeof totalsResponse>;

const pointResponse = totalsResponse.extend({ at: z.number() });

export const chartResponse = z.object({
  granularity: z.enum(["day", "hour"]),
  from_at: z.number(),
  to_at: z.number(),
  /** Later than `from_at` if there was too much to count: usage before it is omitted. */
  counted_from_at: z.number(),
  total: totalsResponse,
  /** The preceding period of the same length; null if its usage is no longer stored. */
  previous: totalsResponse.nullable(),
  /** A day or hour without usage has no point. */
  points: z.array(pointResponse),
  /** One series for each of the top entries of the ranking. */
  series: z.array(z.object({ id: z.string(), label: z.string(), points: z.array(pointResponse) })),
  /** By cost, then by number of requests, in descending order. */
  ranking: z.array(totalsResponse.extend({ id: z.string(), label: z.string() })),
});

export async function buildChart(
  db: Db,
  actor: Actor,
  { accountId, model, ...scope }: UsageScope,
  range: ChartRange,
  by: SeriesSplit,
): Promise<z.input<typeof chartResponse>> {
  const seriesRequest = { scope, ...(model === undefined ? {} : { model }), by, ...range };
  const split = await readSplit(db, seriesRequest, accountId);
  const ids = split.ranking.map(({ id }) => id);
  const names = by === "total" || by === "model" ? null : await lookUpNames(db, by, ids);
  const totals = (totalsRow: UsageTotals) => totalsObject(totalsRow, actor);
  const point = ({ atMs, ...one }: SeriesPoint) => ({ at: atMs, ...totals(one) });
  const label = (id: string) => (names === null ? id : (names.get(id) ?? id));
  return {
    granularity: range.granularity,
    from_at: range.fromMs,
    to_at: range.toMs,
    counted_from_at: split.sinceMs,
    total: totals(split.total),
    previous: split.previous === null ? null : totals(split.previous),
    points: split.points.map(point),
    series: split.series.map(({ id, points }) => ({ id, label: label(id), points: points.map(point) })),
    ranking: split.ranking.map(({ id, totals: totalsRow }) => ({
      id,
      label: label(id),
      ...totals(totalsRow),
    })),
  };
}

interface Split extends SplitUsage {
  sinceMs: number;
  previous: UsageTotals | null;
}

async function readSplit(
  db: Db,
  seriesRequest: SeriesRequest,
  accountId: string | undefined,
): Promise<Split> {
  if (accountId !== undefined) {
    return { ...(await readSplitRows(db, { ...seriesRequest, accountId }, BOUNDS)), previous: null };
  }
  if (!canSplit(seriesRequest)) {
    throw fieldError(
      "by",
      "invalid_value",
      `usage cannot be grouped by ${seriesRequest.by} with these filters. Remove the filters, or choose another grouping.`,
    );
  }
  const { fromMs, toMs } = seriesRequest;
  const split = await readSplitUsage(db, seriesRequest, BOUNDS);
  const previous = await readTotalUsage(db, {
    ...seriesRequest,
    fromMs: fromMs - (toMs - fromMs),
    toMs: fromMs,
  });
  return { ...split, sinceMs: fromMs, previous };
}

function totalsObject(totals: UsageTotals, actor: Actor): ChartTotals {
  return {
    requests: totals.requests,
    failed: totals.failed,
    refused: totals.refused,
    ...toUsageCounts(totals),
    cost: usdText(totals.costNano),
    charged: usdText(totals.chargedNano),
    ...(seesEverything(actor) ? { upstream_cost: usdText(totals.upstreamNano) } : {}),
    duration_ms: mean(totals.durationMs, totals.firstBytes),
    first_byte_ms: mean(totals.firstByteMs, totals.firstBytes),
  };
}

function mean(sum: number, count: number): number | null {
  return count === 0 ? null : Math.round(sum / count);
}
