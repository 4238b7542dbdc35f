/** Round steps for an axis, from 0 to a little above the largest value. */
export function ticksUpTo(largest: number, wanted = 4): number[] {
  if (!(largest > 0)) return [0, 1];
  const rough = largest / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((one) => one >= rough) ?? rough;
  const ticks = [0];
  for (let at = step; at < largest + step * 0.999; at += step) ticks.push(Number(at.toPrecision(12)));
  return ticks;
}

/** Which of `count` points get a label, so that the labels do not overlap. */
export function labelledPoints(count: number, room: number): number[] {
  if (count === 0) return [];
  const every = Math.max(1, Math.ceil(count / Math.max(1, room)));
  return Array.from({ length: Math.ceil(count / every) }, (_, i) => i * every);
}

const COLOURS = 8;

/** Failed requests are red, rejected ones amber; every other series has the next colour of the palette. */
export function chooseColour(index: number, tone: "failed" | "rejected" | undefined): string {
  return tone === undefined ? `var(--series-${(index % COLOURS) + 1})` : `var(--${tone})`;
}
