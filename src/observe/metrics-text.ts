/** The Prometheus text format, version 0.0.4. */

import type { Exemplar } from "./histogram.ts";

export const METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

export type Labels = Readonly<Record<string, string>>;

export interface MetricSample {
  readonly labels?: Labels;
  readonly value: number;
}

export interface Histogram {
  readonly labels: Labels;
  /** Number of values within each bound and above the previous one; one more entry than bounds. */
  readonly counts: readonly number[];
  readonly sum: number;
  /** By bucket. Only OpenMetrics has them. */
  readonly exemplars?: readonly (Exemplar | undefined)[] | undefined;
}

export type MetricFamily = { readonly name: string; readonly help: string } & (
  | { readonly type: "counter" | "gauge"; readonly samples: readonly MetricSample[] }
  | {
      readonly type: "histogram";
      readonly bounds: readonly number[];
      readonly histograms: readonly Histogram[];
    }
);

export function metricsText(families: readonly MetricFamily[]): string {
  return families.map(formatFamily).join("");
}

function formatFamily(family: MetricFamily): string {
  const { name, type, help } = family;
  const lines = [`# HELP ${name} ${escapeHelp(help)}`, `# TYPE ${name} ${type}`];
  if (family.type === "histogram") {
    for (const histogram of family.histograms) lines.push(...formatHistogram(name, family.bounds, histogram));
  } else {
    for (const { labels = {}, value } of family.samples) lines.push(formatLine(name, labels, value));
  }
  return `${lines.join("\n")}\n`;
}

function formatHistogram(
  name: string,
  bounds: readonly number[],
  { labels, counts, sum }: Histogram,
): string[] {
  let cumulative = 0;
  const buckets = counts.map((count, index) => {
    cumulative += count;
    return formatLine(
      `${name}_bucket`,
      { ...labels, le: formatNumber(bounds[index] ?? Number.POSITIVE_INFINITY) },
      cumulative,
    );
  });
  return [
    ...buckets,
    formatLine(`${name}_sum`, labels, sum),
    formatLine(`${name}_count`, labels, cumulative),
  ];
}

export function formatLine(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escapeValue(text)}"`);
  return `${name}${pairs.length === 0 ? "" : `{${pairs.join(",")}}`} ${formatNumber(value)}`;
}

function formatNumber(value: number): string {
  return value === Number.POSITIVE_INFINITY ? "+Inf" : String(value);
}

export function escapeHelp(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}

function escapeValue(text: string): string {
  return escapeHelp(text).replaceAll('"', '\\"');
}
