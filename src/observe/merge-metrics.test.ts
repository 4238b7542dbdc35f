import { expect, test } from "bun:test";
import { mergeMetrics } from "./merge-metrics.ts";
import { type MetricFamily, metricsText } from "./metrics-text.ts";
import { openMetricsText } from "./open-metrics-text.ts";

const count = (value: number): MetricFamily => ({
  name: "requests_total",
  help: "Requests.",
  type: "counter",
  samples: [{ labels: { model: "m" }, value }],
});

const seconds = (bounds: readonly number[]): MetricFamily => ({
  name: "seconds",
  help: "Seconds.",
  type: "histogram",
  bounds,
  histograms: [{ labels: {}, counts: [1, 2], sum: 3, exemplars: [undefined, undefined] }],
});

const fromJson = (families: MetricFamily[]): MetricFamily[] => JSON.parse(JSON.stringify(families));

test("values of several processes are one family with the label process", () => {
  const merged = mergeMetrics([
    { process: 1, families: [count(5)] },
    { process: 2, families: fromJson([count(7)]) },
  ]);
  expect(metricsText(merged)).toBe(
    [
      "# HELP requests_total Requests.",
      "# TYPE requests_total counter",
      'requests_total{model="m",process="1"} 5',
      'requests_total{model="m",process="2"} 7',
      "",
    ].join("\n"),
  );
});

test("a histogram from JSON keeps its buckets without exemplars", () => {
  const merged = mergeMetrics([{ process: 2, families: fromJson([seconds([1])]) }]);
  expect(openMetricsText(merged)).toContain('seconds_bucket{process="2",le="1.0"} 1\n');
});

test("a histogram of another version with other bounds is left out", () => {
  const merged = mergeMetrics([
    { process: 1, families: [seconds([1])] },
    { process: 2, families: [seconds([2])] },
  ]);
  expect(metricsText(merged)).not.toContain('process="2"');
});
