/**
 * The OpenMetrics text format, version 1.0.0, which Prometheus prefers. Beside the values, histograms have exemplars: the
 * trace of a request in the bucket.
 */

import { escapeHelp, formatLine, type Histogram, type MetricFamily } from "./metrics-text.ts";

export const OPEN_METRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8";

export function openMetricsText(families: readonly MetricFamily[]): string {
  return `${families.map(formatFamily).join("")}# EOF\n`;
}

function formatFamily(family: MetricFamily): string {
  const { type, help } = family;
  // The name of a counter is without the suffix of its samples.
  const name = type === "counter" ? family.name.replace(/_total$/, "") : family.name;
  const lines = [`# TYPE ${name} ${type}`, `# HELP ${name} ${escapeQuotes(escapeHelp(help))}`];
  if (family.type === "histogram") {
    for (const histogram of family.histograms) lines.push(...formatHistogram(name, family.bounds, histogram));
  } else {
    for (const { labels = {}, value } of family.samples) lines.push(formatLine(family.name, labels, value));
  }
  return `${lines.join("\n")}\n`;
}

function escapeQuotes(text: string): string {
  return text.replaceAll('"', '\\"');
}

function formatHistogram(
  name: string,
  bounds: readonly number[],
  { labels, counts, sum, exemplars = [] }: Histogram,
): string[] {
  let cumulative = 0;
  const buckets = counts.map((count, index) => {
    cumulative += count;
    const le = formatBound(bounds[index]);
    const line = formatLine(`${name}_bucket`, { ...labels, le }, cumulative);
    const exemplar = exemplars[index];
    if (exemplar === undefined) return line;
    const { traceId, value, atMs } = exemplar;
    return `${line} # {trace_id="${traceId}"} ${value} ${(atMs / 1_000).toFixed(3)}`;
  });
  return [
    ...buckets,
    formatLine(`${name}_count`, labels, cumulative),
    formatLine(`${name}_sum`, labels, sum),
  ];
}

/** A float always has a decimal point in this format. */
function formatBound(bound: number | undefined): string {
  if (bound === undefined) return "+Inf";
  return Number.isInteger(bound) ? bound.toFixed(1) : String(bound);
}
