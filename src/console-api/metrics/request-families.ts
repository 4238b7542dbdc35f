/** Metrics of finished requests: traffic, latency, limits and money. */

import type { MetricFamily } from "../../observe/metrics-text.ts";
import {
  DURATION_BOUNDS,
  type EndpointTimes,
  type RequestCounts,
  type RequestSeries,
} from "../../observe/request-counts.ts";
import type { RequestMetrics } from "../../observe/request-metrics.ts";
import { histogram, labelledHistogram, type SampleOf, samples, single } from "./families.ts";

const NANO = 1e-9;

export function requestFamilies(counts: RequestCounts): MetricFamily[] {
  const all = [...counts.series.values()].flat();
  const byModel = (field: SummedField) => sumByModel(all, field);
  const tokens = (kind: string, field: SummedField) =>
    byModel(field).map(([model, sum]) => [{ model, kind }, sum] as const);
  const cost = (of: string, field: SummedField) =>
    byModel(field).map(([model, sum]) => [{ model, of }, sum * NANO] as const);
  return [
    samples(
      "gateway_requests_total",
      all.map(({ endpoint, model, outcome, status, requests }) => [
        { endpoint, model, outcome, status: String(status) },
        requests,
      ]),
    ),
    samples(
      "gateway_errors_total",
      [...counts.errors].flatMap(([endpoint, codes]) =>
        [...codes].map(([code, value]) => [{ endpoint, code }, value] as const),
      ),
    ),
    samples(
      "gateway_retries_total",
      byModel("retries").map(([model, sum]) => [{ model }, sum]),
    ),
    samples("gateway_tokens_total", [
      ...tokens("input", "inputTokens"),
      ...tokens("cached", "cachedTokens"),
      ...tokens("cache_write", "cacheWriteTokens"),
      ...tokens("output", "outputTokens"),
      ...tokens("reasoning", "reasoningTokens"),
    ]),
    samples("gateway_cache_hit_ratio", cacheHitRatios(byModel("inputTokens"), byModel("cachedTokens"))),
    samples(
      "gateway_images_total",
      byModel("images").map(([model, sum]) => [{ model }, sum]),
    ),
    samples("gateway_cost_usd_total", [
      ...cost("price", "costNano"),
      ...cost("charged", "chargedNano"),
      ...cost("upstream", "upstreamNano"),
    ]),
    timeFamily("gateway_request_duration_seconds", counts, "whole"),
    timeFamily("gateway_first_byte_seconds", counts, "firstByte"),
  ];
}

type SummedField = Exclude<keyof RequestSeries, "endpoint" | "model" | "outcome" | "status">;

function sumByModel(all: readonly RequestSeries[], field: SummedField): [model: string, sum: number][] {
  const sums = new Map<string, number>();
  for (const series of all) {
    if (series.model !== "") sums.set(series.model, (sums.get(series.model) ?? 0) + series[field]);
  }
  return [...sums];
}

function timeFamily(
  name: "gateway_request_duration_seconds" | "gateway_first_byte_seconds",
  counts: RequestCounts,
  timing: keyof EndpointTimes,
): MetricFamily {
  const list = [...counts.times].map(([endpoint, times]) => [{ endpoint }, times[timing]] as const);
  return histogram(name, DURATION_BOUNDS, list);
}

export function measuredFamilies(metrics: RequestMetrics): MetricFamily[] {
  return [
    labelledHistogram("gateway_first_token_seconds", metrics.firstToken, (model) => ({ model })),
    labelledHistogram("gateway_output_tokens_per_second", metrics.outputSpeed, (model) => ({ model })),
    labelledHistogram("gateway_queue_wait_seconds", metrics.queueWait, (group) => ({ group })),
    samples(
      "gateway_queue_rejected_total",
      [...metrics.queueRejections].map(([group, count]) => [{ group }, count]),
    ),
    samples(
      "gateway_limit_rejections_total",
      metrics.limitRejections.list().map(([scope, kind, count]) => [{ scope, kind }, count]),
    ),
    samples(
      "gateway_failovers_total",
      metrics.failovers.list().map(([model, reason, count]) => [{ model, reason }, count]),
    ),
    samples(
      "gateway_fallbacks_total",
      [...metrics.fallbacks.values()].map(({ from, to, reason, count }) => [{ from, to, reason }, count]),
    ),
    histogram("gateway_settlement_seconds", metrics.settlements.bounds, [[{}, metrics.settlements]]),
    histogram("gateway_limit_share_wait_seconds", metrics.shareWait.bounds, [[{}, metrics.shareWait]]),
    single("gateway_sockets_open", metrics.socketsOpen),
    single("gateway_socket_turns_total", metrics.socketTurns),
    single("gateway_held_usd", metrics.heldNano * NANO),
  ];
}

type ModelSums = readonly (readonly [model: string, sum: number])[];

function cacheHitRatios(inputs: ModelSums, cached: ModelSums): SampleOf<"gateway_cache_hit_ratio">[] {
  const inputByModel = new Map(inputs);
  return cached.flatMap(([model, sum]) => {
    const input = inputByModel.get(model) ?? 0;
    return input === 0 ? [] : [[{ model }, sum / input] as const];
  });
}
