/** A small drawing of a vector: one bar for each dimension, or for several together. */

import { useText } from "../text/text.tsx";

const BARS_MAX = 128;
const HEIGHT = 48;

export function Vector({ values }: { values: readonly number[] }) {
  const t = useText("explorer");
  const step = Math.max(1, Math.ceil(values.length / BARS_MAX));
  const bars = Array.from({ length: Math.ceil(values.length / step) }, (_, i) => {
    const part = values.slice(i * step, (i + 1) * step);
    return part.reduce((sum, value) => sum + value, 0) / part.length;
  });
  const most = Math.max(...bars.map(Math.abs), Number.MIN_VALUE);
  return (
    <figure className="vector">
      <svg
        viewBox={`0 0 ${bars.length * 3} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={t.dimensions(values.length)}
      >
        {bars.map((value, i) => {
          const height = (Math.abs(value) / most) * (HEIGHT / 2);
          return (
            <rect
              // biome-ignore lint/suspicious/noArrayIndexKey: a bar is identified by its position.
              key={i}
              x={i * 3}
              y={value >= 0 ? HEIGHT / 2 - height : HEIGHT / 2}
              width={2}
              height={Math.max(height, 0.5)}
            />
          );
        })}
      </svg>
      <figcaption className="soft small">{t.dimensions(values.length)}</figcaption>
    </figure>
  );
}
