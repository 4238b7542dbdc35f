/** Charts without axes: a line of the height of a word, a ranking, and the timeline of one request. */

import type { ReactNode } from "react";
import { classes } from "../ui/class.ts";

const SPARK = { width: 120, height: 26, pad: 2 } as const;

/** A line of the values; the label has their sum. */
export function Spark({ values, label }: { values: readonly number[]; label: string }) {
  const largest = Math.max(...values, 0) || 1;
  const step = (SPARK.width - 2 * SPARK.pad) / Math.max(1, values.length - 1);
  const points = values.map((value, i) => {
    const y = SPARK.height - SPARK.pad - (value / largest) * (SPARK.height - 2 * SPARK.pad);
    return `${(SPARK.pad + i * step).toFixed(1)},${y.toFixed(1)}`;
  });
  return (
    <svg
      className="spark"
      viewBox={`0 0 ${SPARK.width} ${SPARK.height}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <polyline
        points={points.join(" ")}
        fill="none"
        stroke="var(--accent)"
        strokeWidth={1.5}
        strokeLinejoin="round"
        vectorEffect="non-scaling-stroke"
      />
    </svg>
  );
}

interface Bar {
  key: string;
  label: ReactNode;
  value: number;
  /** Formatted for display. */
  shown: ReactNode;
}

/** A ranking: the length of each bar is its share of the largest value. */
export function Bars({ label, bars }: { label: string; bars: readonly Bar[] }) {
  const largest = Math.max(...bars.map(({ value }) => value), 0) || 1;
  return (
    <ol className="bars" aria-label={label}>
      {bars.map((bar) => (
        <li key={bar.key}>
          <div className="meter-label">
            <span className="breakable">{bar.label}</span>
            <span className="number">{bar.shown}</span>
          </div>
          <div className="meter-track">
            <div className="meter-fill" style={{ width: `${(bar.value / largest) * 100}%` }} />
          </div>
        </li>
      ))}
    </ol>
  );
}

export interface TimelineSpan {
  key: string;
  label: ReactNode;
  fromMs: number;
  toMs: number;
  tone?: "soft" | "good" | "warn" | "bad";
  note?: ReactNode;
}

interface TimelineProps {
  label: string;
  /** The duration of the whole request: spans are drawn in proportion to it. */
  durationMs: number;
  spans: readonly TimelineSpan[];
  show(ms: number): string;
}

/** The spans of a request with their durations, one below the other. */
export function Timeline({ label, durationMs, spans, show }: TimelineProps) {
  const whole = Math.max(1, durationMs);
  return (
    <ol className="timeline" aria-label={label}>
      {spans.map(({ key, label, fromMs, toMs, tone, note }) => (
        <li key={key}>
          <div className="timeline-row">
            <span>{label}</span>
            <span className="timeline-track">
              <span
                className={classes("timeline-span", tone)}
                style={{
                  left: `min(${(fromMs / whole) * 100}%, calc(100% - 3px))`,
                  width: `${((toMs - fromMs) / whole) * 100}%`,
                }}
              />
            </span>
            <span className="number nowrap">{show(toMs - fromMs)}</span>
          </div>
          {note && <div className="timeline-note">{note}</div>}
        </li>
      ))}
    </ol>
  );
}
