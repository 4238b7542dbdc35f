/** The text format that Prometheus and its like read, version 0.0.4. */

export const METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

export type Labels = Readonly<Record<string, string>>;

export interface MetricSample {
  readonly labels?: Labels;
  readonly value: number;
}

export interface Histogram {
  readonly labels: Labels;
  /** Within each bound and above the one before; one more than there are bounds. */
  readonly counts: readonly number[];
  readonly sum: number;
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
  return families.map(familyText).join("");
}

function familyText(family: MetricFamily): string {
  const { name, type, help } = family;
  const lines = [`# HELP ${name} ${escapeHelp(help)}`, `# TYPE ${name} ${type}`];
  if (family.type === "histogram") {
    for (const histogram of family.histograms) lines.push(...histogramLines(name, family.bounds, histogram));
  } else {
    for (const { labels = {}, value } of family.samples) lines.push(line(name, labels, value));
  }
  return `${lines.join("\n")}\n`;
}

function histogramLines(
  name: string,
  bounds: readonly number[],
  { labels, counts, sum }: Histogram,
): string[] {
  let within = 0;
  const buckets = counts.map((count, index) => {
    within += count;
    return line(
      `${name}_bucket`,
      { ...labels, le: numberText(bounds[index] ?? Number.POSITIVE_INFINITY) },
      within,
    );
  });
  return [...buckets, line(`${name}_sum`, labels, sum), line(`${name}_count`, labels, within)];
}

function line(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escapeValue(text)}"`);
  return `${name}${pairs.length === 0 ? "" : `{${pairs.join(",")}}`} ${numberText(value)}`;
}

function numberText(value: number): string {
  return value === Number.POSITIVE_INFINITY ? "+Inf" : String(value);
}

function escapeHelp(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}

function escapeValue(text: string): string {
  return escapeHelp(text).replaceAll('"', '\\"');
}
