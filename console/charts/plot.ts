/** The geometry of a chart: where its values, times and bars are drawn. */

import { ticksUpTo } from "./scale.ts";
import type { ColouredSeries, Series } from "./series.ts";

export const MARGIN = { top: 8, right: 8, bottom: 22, left: 56 } as const;

export interface Plot {
  width: number;
  height: number;
  times: readonly number[];
  series: readonly ColouredSeries[];
  /** The stacked bars of each time; null for a chart of lines. */
  stacks: readonly Stack[] | null;
  ticks: readonly number[];
  /** The width that each time has. */
  slotWidth: number;
  /** The width between the axis and the right margin. */
  innerWidth: number;
  x(index: number): number;
  y(value: number): number;
}

type Stack = readonly StackedBar[];

interface StackedBar {
  key: string;
  colour: string;
  from: number;
  to: number;
}

interface PlotInput extends Pick<Plot, "width" | "height" | "times" | "series"> {
  kind: "lines" | "bars";
}

export function layOutPlot({ kind, ...input }: PlotInput): Plot {
  const { width, height, times, series } = input;
  const stacks = kind === "bars" ? stackSeries(series, times.length) : null;
  const ticks = ticksUpTo(largestValue(series, stacks));
  const innerWidth = Math.max(0, width - MARGIN.left - MARGIN.right);
  const innerHeight = height - MARGIN.top - MARGIN.bottom;
  const slotWidth = innerWidth / Math.max(1, times.length);
  const top = ticks.at(-1) ?? 1;
  return {
    ...input,
    stacks,
    ticks,
    slotWidth,
    innerWidth,
    x: (index) => MARGIN.left + slotWidth * (index + 0.5),
    y: (value) => MARGIN.top + innerHeight * (1 - value / top),
  };
}

function largestValue(series: readonly Series[], stacks: readonly Stack[] | null): number {
  const values = stacks
    ? stacks.map((stack) => stack.at(-1)?.to ?? 0)
    : series.flatMap((one) => one.values.map((value) => value ?? 0));
  return Math.max(0, ...values);
}

function stackSeries(series: readonly ColouredSeries[], count: number): Stack[] {
  return Array.from({ length: count }, (_, i) => {
    let sum = 0;
    return series.map(({ key, colour, values }) => {
      const from = sum;
      sum += values[i] ?? 0;
      return { key, colour, from, to: sum };
    });
  });
}

/** The data of an SVG path, interrupted where there is no value. */
export function linePath({ x, y }: Pick<Plot, "x" | "y">, values: Series["values"]): string {
  let isDrawing = false;
  return values
    .map((value, i) => {
      if (value === null) {
        isDrawing = false;
        return "";
      }
      const command = isDrawing ? "L" : "M";
      isDrawing = true;
      return `${command}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
    })
    .join("");
}

/** The selected point, and points without a neighbour, which a line would not show. */
export function dotsToDraw(
  values: Series["values"],
  selected: number | null,
): { i: number; value: number }[] {
  return values.flatMap((value, i) => {
    const isAlone = (values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null;
    return value !== null && (i === selected || isAlone) ? [{ i, value }] : [];
  });
}
