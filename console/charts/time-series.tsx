/** Values over time, as lines or as stacked bars, readable by pointer, by arrow keys, or as a table. */

import { type KeyboardEvent, type PointerEvent, useState } from "react";
import { useText } from "../text/text.tsx";
import { ChartTable } from "./chart-table.tsx";
import { ChartTip } from "./chart-tip.tsx";
import { layOutPlot, MARGIN, type Plot } from "./plot.ts";
import { PlotDrawing } from "./plot-drawing.tsx";
import { chooseColour } from "./scale.ts";
import type { ChartFormat, ColouredSeries, Series } from "./series.ts";
import { useWidth } from "./width.ts";

interface TimeSeriesProps {
  label: string;
  /** Beginnings of days or hours, in order. */
  times: readonly number[];
  series: readonly Series[];
  kind?: "lines" | "bars";
  show(value: number): string;
  /** Short, for the axis. */
  showTime(ms: number): string;
  /** In full, for a single point; omitted: as on the axis. */
  showMoment?(ms: number): string;
  height?: number;
}

export function TimeSeries({ height = 220, kind = "lines", ...props }: TimeSeriesProps) {
  const t = useText("kit");
  const { label, times, series, show, showTime, showMoment = showTime } = props;
  const format: ChartFormat = { value: show, time: showTime, moment: showMoment };
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [frame, width] = useWidth<HTMLDivElement>();
  const coloured = series.map((one, i) => ({ ...one, colour: chooseColour(i, one.tone) }));
  const visible = coloured.filter((one) => !hidden.has(one.key));
  const plot = layOutPlot({ width, height, times, series: visible, kind });
  const { selected, handlers } = useSelectedTime(plot);
  const isEmpty = times.length === 0 || series.length === 0;
  return (
    <figure className="chart" aria-label={label}>
      <div
        ref={frame}
        className="chart-plot"
        style={{ height }}
        {...(isEmpty
          ? {}
          : {
              role: "slider",
              tabIndex: 0,
              "aria-label": `${label}. ${t.chart.useArrows}`,
              "aria-valuemin": 0,
              "aria-valuemax": times.length - 1,
              "aria-valuenow": selected ?? times.length - 1,
              "aria-valuetext": describeTime(plot, selected ?? times.length - 1, format),
              ...handlers,
            })}
      >
        {isEmpty && <p className="chart-empty">{t.chart.noData}</p>}
        {!isEmpty && width > 0 && <PlotDrawing plot={plot} selected={selected} format={format} />}
        {!isEmpty && selected !== null && <ChartTip plot={plot} selected={selected} format={format} />}
      </div>
      {series.length > 1 && <Legend series={coloured} hidden={hidden} onChange={setHidden} />}
      {!isEmpty && <ChartTable label={label} times={times} series={series} format={format} />}
    </figure>
  );
}

/** The time that the pointer or the arrow keys select; null if none. */
function useSelectedTime({ times, slotWidth }: Plot) {
  const [chosen, setChosen] = useState<number | null>(null);
  const last = times.length - 1;
  const selected = chosen === null ? null : Math.min(chosen, last);
  const select = (index: number) => setChosen(Math.max(0, Math.min(last, index)));
  const clear = () => setChosen(null);
  const handlers = {
    onKeyDown(event: KeyboardEvent<HTMLDivElement>) {
      const from = selected ?? last;
      const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      select(to);
    },
    onPointerMove(event: PointerEvent<HTMLDivElement>) {
      const box = event.currentTarget.getBoundingClientRect();
      select(Math.floor((event.clientX - box.left - MARGIN.left) / slotWidth));
    },
    onPointerLeave: clear,
    onBlur: clear,
  };
  return { selected, handlers };
}

/** The values at one time, for screen readers. */
function describeTime({ times, series }: Plot, index: number, format: ChartFormat): string {
  const values = series.map(({ label, values }) => `${label} ${format.value(values[index] ?? 0)}`);
  return `${format.moment(times[index] ?? 0)}: ${values.join(", ")}`;
}

interface LegendProps {
  series: readonly ColouredSeries[];
  hidden: ReadonlySet<string>;
  onChange(hidden: ReadonlySet<string>): void;
}

function Legend({ series, hidden, onChange }: LegendProps) {
  return (
    <div className="chart-legend">
      {series.map(({ key, label, colour }) => (
        <button
          key={key}
          type="button"
          aria-pressed={!hidden.has(key)}
          onClick={() => onChange(toggle(hidden, key))}
        >
          <span className="swatch" style={{ background: colour }} />
          <span className="breakable">{label}</span>
        </button>
      ))}
    </div>
  );
}

function toggle(hidden: ReadonlySet<string>, key: string): ReadonlySet<string> {
  const next = new Set(hidden);
  if (!next.delete(key)) next.add(key);
  return next;
}
