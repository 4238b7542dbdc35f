/** The figures of a chart as a table, for readers who prefer one. */

import { useId, useState } from "react";
import { useText } from "../text/text.tsx";
import { classes } from "../ui/class.ts";
import type { ChartFormat, Series } from "./series.ts";

interface ChartTableProps {
  label: string;
  times: readonly number[];
  series: readonly Series[];
  format: ChartFormat;
}

export function ChartTable({ label, times, series, format }: ChartTableProps) {
  const t = useText("kit");
  const id = useId();
  const [isOpen, setOpen] = useState(false);
  return (
    <details className={classes("details", "small")} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="soft">{t.chart.table}</summary>
      {isOpen && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable element must be reachable by keyboard.
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
                  <td className="nowrap">{format.moment(time)}</td>
                  {series.map((one) => (
                    <td key={one.key} className="end">
                      {format.value(one.values[i] ?? 0)}
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
