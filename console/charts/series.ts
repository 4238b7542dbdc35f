/** The data of a chart: its lines or bars, and their colours. */

export interface Series {
  key: string;
  label: string;
  /** For failed and rejected requests. Every other series takes the next colour of the palette. */
  tone?: "failed" | "rejected";
  /** One value for each time; null where there is none. */
  values: readonly (number | null)[];
}

export interface ColouredSeries extends Series {
  colour: string;
}

/** How the figures of a chart are written. */
export interface ChartFormat {
  value(value: number): string;
  /** Short, for the axis. */
  time(ms: number): string;
  /** In full, for a single point. */
  moment(ms: number): string;
}
