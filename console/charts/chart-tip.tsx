/** The values at the selected time, beside it. */

import { useText } from "../text/text.tsx";
import type { Plot } from "./plot.ts";
import type { ChartFormat } from "./series.ts";

interface ChartTipProps {
  plot: Plot;
  selected: number;
  format: ChartFormat;
}

export function ChartTip({ plot: { width, times, series, stacks, x }, selected, format }: ChartTipProps) {
  const t = useText("kit");
  const left = x(selected);
  // On the side that has more room.
  const side = left > width / 2 ? { right: width - left + 12 } : { left: left + 12 };
  const total = series.reduce((sum, { values }) => sum + (values[selected] ?? 0), 0);
  return (
    <div className="chart-tip" style={side}>
      <strong>{format.moment(times[selected] ?? 0)}</strong>
      {series.map(({ key, label, colour, values }) => (
        <div key={key}>
          <span className="swatch" style={{ background: colour }} />
          <span className="breakable">{label}</span>
          <span className="number">{format.value(values[selected] ?? 0)}</span>
        </div>
      ))}
      {stacks !== null && series.length > 1 && (
        <div>
          <span>{t.chart.total}</span>
          <span className="number">{format.value(total)}</span>
        </div>
      )}
    </div>
  );
}
