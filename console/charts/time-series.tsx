/** Values over time, as lines or as stacked bars. Read by pointer, by arrow keys, or as a table. */

import { type KeyboardEvent, type PointerEvent, useId, useState } from "react";
import { useText } from "../text/text.tsx";
import { classes } from "../ui/class.ts";
import { colourOf, labelledPoints, ticksUpTo } from "./scale.ts";
import { useWidth } from "./width.ts";

export interface Series {
  key: string;
  label: string;
  /** One for each time; null where there is none. */
  values: readonly (number | null)[];
}

interface TimeSeriesProps {
  label: string;
  /** Beginnings of days or hours, in order. */
  times: readonly number[];
  series: readonly Series[];
  kind?: "lines" | "bars";
  show(value: number): string;
  /** Short, for the axis. */
  showTime(ms: number): string;
  /** In full, where one point is read; left out: as on the axis. */
  showMoment?(ms: number): string;
  height?: number;
}

const MARGIN = { top: 8, right: 8, bottom: 22, left: 56 } as const;
const LABEL_PX = 84;

export function TimeSeries({ height = 220, kind = "lines", ...props }: TimeSeriesProps) {
  const t = useText("kit");
  const { label, times, series, show, showTime, showMoment = showTime } = props;
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [at, setAt] = useState<number | null>(null);
  const [frame, width] = useWidth<HTMLDivElement>();
  const coloured = series.map((one, i) => ({ ...one, colour: colourOf(i) }));
  const shown = coloured.filter((one) => !hidden.has(one.key));
  const plot = {
    width: Math.max(0, width - MARGIN.left - MARGIN.right),
    height: height - MARGIN.top - MARGIN.bottom,
  };
  const stacks = kind === "bars" ? stackUp(shown, times.length) : null;
  const ticks = ticksUpTo(
    Math.max(
      0,
      ...(stacks
        ? stacks.map((stack) => stack.at(-1)?.to ?? 0)
        : shown.flatMap((one) => one.values.map((value) => value ?? 0))),
    ),
  );
  const top = ticks.at(-1) ?? 1;
  const slot = plot.width / Math.max(1, times.length);
  const x = (i: number) => MARGIN.left + slot * (i + 0.5);
  const y = (value: number) => MARGIN.top + plot.height * (1 - value / top);
  const point = at === null ? null : Math.min(at, times.length - 1);
  const isEmpty = times.length === 0 || series.length === 0;

  const follow = (event: PointerEvent<HTMLDivElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    const i = Math.floor((event.clientX - box.left - MARGIN.left) / slot);
    setAt(Math.max(0, Math.min(times.length - 1, i)));
  };
  const step = (event: KeyboardEvent<HTMLDivElement>) => {
    const last = times.length - 1;
    const from = point ?? last;
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    setAt(Math.max(0, Math.min(last, to)));
  };

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
              "aria-valuenow": point ?? times.length - 1,
              "aria-valuetext": spoken(point ?? times.length - 1, shown, times, show, showMoment),
              onKeyDown: step,
              onPointerMove: follow,
              onPointerLeave: () => setAt(null),
              onBlur: () => setAt(null),
            })}
      >
        {isEmpty && <p className="chart-empty">{t.chart.noData}</p>}
        {!isEmpty && width > 0 && (
          <svg viewBox={`0 0 ${width} ${height}`} height={height} aria-hidden="true">
            {ticks.map((tick) => (
              <g key={tick}>
                <line
                  className="chart-grid"
                  x1={MARGIN.left}
                  x2={width - MARGIN.right}
                  y1={y(tick)}
                  y2={y(tick)}
                />
                <text x={MARGIN.left - 8} y={y(tick) + 4} textAnchor="end">
                  {show(tick)}
                </text>
              </g>
            ))}
            {labelledPoints(times.length, plot.width / LABEL_PX).map((i) => (
              <text key={times[i]} x={x(i)} y={height - 4} textAnchor="middle">
                {showTime(times[i] ?? 0)}
              </text>
            ))}
            {point !== null && (
              <line className="chart-cursor" x1={x(point)} x2={x(point)} y1={MARGIN.top} y2={y(0)} />
            )}
            {stacks
              ? stacks.map((stack, i) =>
                  stack.map(({ key, colour, from, to }) => (
                    <rect
                      key={`${times[i]} ${key}`}
                      x={x(i) - Math.max(1, slot * 0.36)}
                      width={Math.max(1, slot * 0.72)}
                      y={y(to)}
                      height={Math.max(0, y(from) - y(to))}
                      fill={colour}
                      opacity={point === null || point === i ? 1 : 0.55}
                    />
                  )),
                )
              : shown.map((one) => (
                  <g key={one.key}>
                    <path className="chart-line" stroke={one.colour} d={lineOf(one.values, x, y)} />
                    {dotsOf(one.values, point).map(({ i, value }) => (
                      <circle
                        key={times[i]}
                        cx={x(i)}
                        cy={y(value)}
                        r={point === i ? 3.5 : 2}
                        fill={one.colour}
                      />
                    ))}
                  </g>
                ))}
          </svg>
        )}
        {point !== null && !isEmpty && (
          <Tip
            title={showMoment(times[point] ?? 0)}
            series={shown}
            point={point}
            show={show}
            left={x(point)}
            width={width}
            total={kind === "bars" && shown.length > 1 ? t.chart.total : null}
          />
        )}
      </div>
      {series.length > 1 && (
        <div className="chart-legend">
          {coloured.map(({ key, label, colour }) => (
            <button
              key={key}
              type="button"
              aria-pressed={!hidden.has(key)}
              onClick={() => setHidden(toggled(hidden, key))}
            >
              <span className="swatch" style={{ background: colour }} />
              <span className="breakable">{label}</span>
            </button>
          ))}
        </div>
      )}
      {!isEmpty && <Figures {...props} />}
    </figure>
  );
}

interface Coloured extends Series {
  colour: string;
}

function stackUp(series: readonly Coloured[], count: number) {
  return Array.from({ length: count }, (_, i) => {
    let sum = 0;
    return series.map(({ key, colour, values }) => {
      const from = sum;
      sum += values[i] ?? 0;
      return { key, colour, from, to: sum };
    });
  });
}

/** Broken where there is no value. */
function lineOf(values: Series["values"], x: (i: number) => number, y: (value: number) => number): string {
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

/** The point that is read, and those that have no neighbour: a line would not show them. */
function dotsOf(values: Series["values"], point: number | null): { i: number; value: number }[] {
  return values.flatMap((value, i) => {
    const isAlone = (values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null;
    return value !== null && (i === point || isAlone) ? [{ i, value }] : [];
  });
}

function spoken(
  i: number,
  series: readonly Series[],
  times: readonly number[],
  show: (value: number) => string,
  showTime: (ms: number) => string,
): string {
  const values = series.map((one) => `${one.label} ${show(one.values[i] ?? 0)}`);
  return `${showTime(times[i] ?? 0)}: ${values.join(", ")}`;
}

function toggled(hidden: ReadonlySet<string>, key: string): ReadonlySet<string> {
  const next = new Set(hidden);
  if (!next.delete(key)) next.add(key);
  return next;
}

interface TipProps {
  title: string;
  series: readonly Coloured[];
  point: number;
  show(value: number): string;
  left: number;
  width: number;
  total: string | null;
}

/** On the side where there is room. */
function Tip({ title, series, point, show, left, width, total }: TipProps) {
  const side = left > width / 2 ? { right: width - left + 12 } : { left: left + 12 };
  const sum = series.reduce((all, one) => all + (one.values[point] ?? 0), 0);
  return (
    <div className="chart-tip" style={side}>
      <strong>{title}</strong>
      {series.map(({ key, label, colour, values }) => (
        <div key={key}>
          <span className="swatch" style={{ background: colour }} />
          <span className="breakable">{label}</span>
          <span className="number">{show(values[point] ?? 0)}</span>
        </div>
      ))}
      {total !== null && (
        <div>
          <span>{total}</span>
          <span className="number">{show(sum)}</span>
        </div>
      )}
    </div>
  );
}

/** The same figures for whoever rather reads a table. */
function Figures({ label, times, series, show, showTime, showMoment = showTime }: TimeSeriesProps) {
  const t = useText("kit");
  const id = useId();
  const [isOpen, setOpen] = useState(false);
  return (
    <details className={classes("details", "small")} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="soft">{t.chart.table}</summary>
      {isOpen && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard.
        <section className="table-scroll chart-figures" tabIndex={0} aria-label={label}>
          <table className="table">
            <thead>
              <tr>
                <th scope="col">{t.chart.time}</th>
                {series.map((one) => (
                  <th key={one.key} scope="col" className="end">
                    {one.label}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {times.map((time, i) => (
                <tr key={`${id}${time}`}>
                  <td className="nowrap">{showMoment(time)}</td>
                  {series.map((one) => (
                    <td key={one.key} className="end">
                      {show(one.values[i] ?? 0)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </details>
  );
}
