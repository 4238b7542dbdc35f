/** The SVG of a chart. It is hidden from screen readers: the slider around it and the table below have the same figures. */

import { dotsToDraw, linePath, MARGIN, type Plot } from "./plot.ts";
import { labelledPoints } from "./scale.ts";
import type { ChartFormat } from "./series.ts";

const LABEL_PX = 84;

interface PlotDrawingProps {
  plot: Plot;
  /** The index of the selected time; null if none. */
  selected: number | null;
  format: ChartFormat;
}

export function PlotDrawing({ plot, selected, format }: PlotDrawingProps) {
  const { width, height, x, y } = plot;
  return (
    <svg viewBox={`0 0 ${width} ${height}`} height={height} aria-hidden="true">
      <ValueAxis plot={plot} format={format} />
      <TimeAxis plot={plot} format={format} />
      {selected !== null && (
        <line className="chart-cursor" x1={x(selected)} x2={x(selected)} y1={MARGIN.top} y2={y(0)} />
      )}
      {plot.stacks ? (
        <StackedBars plot={plot} stacks={plot.stacks} selected={selected} />
      ) : (
        <Lines plot={plot} selected={selected} />
      )}
    </svg>
  );
}

function ValueAxis({ plot: { ticks, width, y }, format }: Omit<PlotDrawingProps, "selected">) {
  return ticks.map((tick) => (
    <g key={tick}>
      <line className="chart-grid" x1={MARGIN.left} x2={width - MARGIN.right} y1={y(tick)} y2={y(tick)} />
      <text x={MARGIN.left - 8} y={y(tick) + 4} textAnchor="end">
        {format.value(tick)}
      </text>
    </g>
  ));
}

function TimeAxis({ plot: { times, innerWidth, height, x }, format }: Omit<PlotDrawingProps, "selected">) {
  return labelledPoints(times.length, innerWidth / LABEL_PX).map((i) => (
    <text key={times[i]} x={x(i)} y={height - 4} textAnchor="middle">
      {format.time(times[i] ?? 0)}
    </text>
  ));
}

interface StackedBarsProps extends Omit<PlotDrawingProps, "format"> {
  stacks: NonNullable<Plot["stacks"]>;
}

function StackedBars({ plot: { times, slotWidth, x, y }, stacks, selected }: StackedBarsProps) {
  return stacks.map((stack, i) =>
    stack.map(({ key, colour, from, to }) => (
      <rect
        key={`${times[i]} ${key}`}
        x={x(i) - Math.max(1, slotWidth * 0.36)}
        width={Math.max(1, slotWidth * 0.72)}
        y={y(to)}
        height={Math.max(0, y(from) - y(to))}
        fill={colour}
        opacity={selected === null || selected === i ? 1 : 0.55}
      />
    )),
  );
}

function Lines({ plot, selected }: Omit<PlotDrawingProps, "format">) {
  const { times, series, x, y } = plot;
  return series.map(({ key, colour, values }) => (
    <g key={key}>
      <path className="chart-line" stroke={colour} d={linePath(plot, values)} />
      {dotsToDraw(values, selected).map(({ i, value }) => (
        <circle key={times[i]} cx={x(i)} cy={y(value)} r={selected === i ? 3.5 : 2} fill={colour} />
      ))}
    </g>
  ));
}
