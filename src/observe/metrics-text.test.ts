import { expect, test } from "bun:test";
import { metricsText } from "./metrics-text.ts";

test("a metric family has its help, its type and a line for each sample", () => {
  const text = metricsText([
    {
      name: "gateway_things_total",
      help: "Things.",
      type: "counter",
      samples: [{ labels: { kind: "good" }, value: 3 }, { value: 0.5 }],
    },
  ]);
  expect(text).toBe(
    [
      "# HELP gateway_things_total Things.",
      "# TYPE gateway_things_total counter",
      'gateway_things_total{kind="good"} 3',
      "gateway_things_total 0.5",
      "",
    ].join("\n"),
  );
});

test("quotes, backslashes and line breaks in a label are escaped", () => {
  const sample = { labels: { model: 'a"b\\c\nd' }, value: 1 };
  expect(metricsText([{ name: "g", help: "h", type: "gauge", samples: [sample] }])).toContain(
    String.raw`g{model="a\"b\\c\nd"} 1`,
  );
});

test("histogram buckets are cumulative, and the last one contains all", () => {
  const histogram = { labels: { endpoint: "chat" }, counts: [2, 0, 1], sum: 7.5 };
  const text = metricsText([
    { name: "t", help: "h", type: "histogram", bounds: [0.1, 1], histograms: [histogram] },
  ]);
  expect(text.split("\n").slice(2, -1)).toEqual([
    't_bucket{endpoint="chat",le="0.1"} 2',
    't_bucket{endpoint="chat",le="1"} 2',
    't_bucket{endpoint="chat",le="+Inf"} 3',
    't_sum{endpoint="chat"} 7.5',
    't_count{endpoint="chat"} 3',
  ]);
});
