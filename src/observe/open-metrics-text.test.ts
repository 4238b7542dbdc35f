import { expect, test } from "bun:test";
import { HistogramCounts } from "./histogram.ts";
import { openMetricsText } from "./open-metrics-text.ts";

test("a counter is announced without its suffix, and the text has an end", () => {
  const text = openMetricsText([
    { name: "things_total", help: 'Things "of" all kinds.', type: "counter", samples: [{ value: 3 }] },
    { name: "open", help: "Open.", type: "gauge", samples: [{ labels: { kind: "a" }, value: 1 }] },
  ]);
  expect(text.split("\n")).toEqual([
    "# TYPE things counter",
    String.raw`# HELP things Things \"of\" all kinds.`,
    "things_total 3",
    "# TYPE open gauge",
    "# HELP open Open.",
    'open{kind="a"} 1',
    "# EOF",
    "",
  ]);
});

test("a bucket has the latest trace of its values, and bounds have a decimal point", () => {
  const counts = new HistogramCounts([0.1, 1]);
  counts.add(0.05);
  counts.add(0.5, { traceId: "a".repeat(32), atMs: 1_000 });
  counts.add(0.75, { traceId: "b".repeat(32), atMs: 2_500 });
  counts.add(7, { traceId: "c".repeat(32), atMs: 3_000 });
  counts.add(0.6);
  const text = openMetricsText([
    {
      name: "t",
      help: "h",
      type: "histogram",
      bounds: counts.bounds,
      histograms: [{ labels: {}, counts: counts.counts, sum: counts.sum, exemplars: counts.exemplars }],
    },
  ]);
  expect(text.split("\n").slice(2, -2)).toEqual([
    't_bucket{le="0.1"} 1',
    `t_bucket{le="1.0"} 4 # {trace_id="${"b".repeat(32)}"} 0.75 2.500`,
    `t_bucket{le="+Inf"} 5 # {trace_id="${"c".repeat(32)}"} 7 3.000`,
    "t_count 5",
    "t_sum 8.9",
  ]);
});
