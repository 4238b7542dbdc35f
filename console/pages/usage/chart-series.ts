/** Converts usage over time, as the API returns it, to the series of a chart. */

import type { ResponseBody } from "../../api.ts";
import type { Series } from "../../charts/series.ts";
import type { Catalogue } from "../../text/catalogue.ts";
import type { Metric } from "./usage-query.ts";

export type Chart = ResponseBody<"usage.chart">;
type Totals = Chart["total"];
type Point = Chart["points"][number];

const UNIT_MS = { day: 86_400_000, hour: 3_600_000 } as const;

/** Every day or hour of the range, with or without requests. */
export function listTimes({ from_at, to_at, granularity }: Chart): number[] {
  const unitMs = UNIT_MS[granularity];
  return Array.from({ length: Math.max(0, (to_at - from_at) / unitMs) }, (_, i) => from_at + i * unitMs);
}

/** Sums can be stacked; means cannot. */
export function isStacked(metric: Metric): boolean {
  return metric !== "latency" && metric !== "firstToken";
}

export function buildSeries(chart: Chart, metric: Metric, t: Catalogue): Series[] {
  const times = listTimes(chart);
  if (chart.series.length === 0) return wholeSeries(chart, times, metric, t);
  const measure = MEASURES[metric];
  const named = chart.series.map(({ id, label, points }) => ({
    key: id,
    label: label === "" ? t.usage.requests.noModel : label,
    values: listValues(points, times, measure),
  }));
  if (!isStacked(metric)) return named;
  const all = listValues(chart.points, times, measure);
  const others = all.map((sum, i) =>
    Math.max(0, (sum ?? 0) - named.reduce((some, { values }) => some + (values[i] ?? 0), 0)),
  );
  const isWorthIt = others.some((value, i) => value > (all[i] ?? 0) * 1e-6);
  return isWorthIt ? [...named, { key: "", label: t.kit.chart.other, values: others }] : named;
}

type Measure = (totals: Totals) => number | null;

const MEASURES: Readonly<Record<Metric, Measure>> = {
  requests: ({ requests, refused }) => requests + refused,
  cost: ({ cost }) => Number(cost),
  tokens: ({ input_tokens, output_tokens }) => input_tokens + output_tokens,
  latency: ({ duration_ms }) => duration_ms,
  firstToken: ({ first_byte_ms }) => first_byte_ms,
  errors: ({ failed, refused }) => failed + refused,
};

/** Without a split, the chart shows the parts of a sum. */
function wholeSeries(
  chart: Chart,
  times: readonly number[],
  metric: Metric,
  { usage: t }: Catalogue,
): Series[] {
  const part = (key: string, label: string, measure: Measure): Series => ({
    key,
    label,
    values: listValues(chart.points, times, measure),
  });
  switch (metric) {
    case "tokens":
      return [
        part("input", t.tokenKinds.input, (one) => one.input_tokens - one.cached_tokens),
        part("cached", t.tokenKinds.cached, (one) => one.cached_tokens),
        part("output", t.tokenKinds.output, (one) => one.output_tokens - one.reasoning_tokens),
        part("reasoning", t.tokenKinds.reasoning, (one) => one.reasoning_tokens),
      ];
    case "errors":
      return [
        { ...part("failed", t.errorKinds.failed, ({ failed }) => failed), tone: "failed" },
        { ...part("refused", t.errorKinds.refused, ({ refused }) => refused), tone: "rejected" },
      ];
    case "latency":
    case "firstToken":
      return [
        part("first", t.latencyKinds.first, MEASURES.firstToken),
        part("whole", t.latencyKinds.whole, MEASURES.latency),
      ];
    default:
      return [part(metric, t.metric[metric], MEASURES[metric])];
  }
}

/** The sum of no requests is zero; their mean is unknown. */
function listValues(points: readonly Point[], times: readonly number[], measure: Measure): (number | null)[] {
  const byTime = new Map(points.map((point) => [point.at, point]));
  return times.map((time) => {
    const point = byTime.get(time);
    if (point !== undefined) return measure(point);
    return measure === MEASURES.latency || measure === MEASURES.firstToken ? null : 0;
  });
}
