/** The numbers that the chart of the usage page draws. */

import { expect, test } from "bun:test";
import { en } from "../../text/en.ts";
import { buildSeries, type Chart } from "./chart-series.ts";

const HOUR_MS = 3_600_000;

test("the chart counts the same requests as the tiles, rejected ones included", () => {
  const totals = { requests: 2, failed: 1, refused: 3, duration_ms: null, first_byte_ms: null };
  const points = [{ at: 0, ...totals }];
  const chart = { granularity: "hour", from_at: 0, to_at: HOUR_MS, points, series: [] };
  const draw = (one: object) => buildSeries(one as Chart, "requests", en).map(({ values }) => values);
  expect(draw(chart)).toEqual([[5]]);
  const split = { ...chart, series: [{ id: "m", label: "m", points }] };
  expect(draw(split)).toEqual([[5]]);
});
