/** The sums of the selected time. */

import { useFormat, useText } from "../../text/text.tsx";
import { Skeleton, Stat, Stats } from "../../ui/page.tsx";
import { Count, Money } from "../../ui/values.tsx";
import type { Chart } from "./chart-series.ts";

type Totals = Chart["total"];

export function UsageStats({ chart }: { chart: Chart | undefined }) {
  const { stats: t } = useText("usage");
  const format = useFormat();
  const change = useChangeText();
  const value = (shown: (total: Totals) => React.ReactNode) =>
    chart === undefined ? <Skeleton width={72} /> : shown(chart.total);
  const note = (shown: (total: Totals) => string | null) => (chart === undefined ? null : shown(chart.total));
  return (
    <Stats>
      <Stat
        label={t.requests}
        value={value((one) => <Count value={countAll(one)} />)}
        note={note((one) => {
          const before = chart?.previous ? countAll(chart.previous) : undefined;
          const rejected = one.refused === 0 ? null : t.rejectedToo(format.number(one.refused));
          return (
            [change(countAll(one), before), rejected].filter((text) => text !== null).join(" · ") || null
          );
        })}
      />
      <Stat
        label={t.cost}
        value={value(({ cost }) => <Money value={cost} />)}
        note={note(({ charged }) => t.charged(format.money(charged)))}
      />
      <Stat
        label={t.tokens}
        value={value((one) => <Count value={one.input_tokens + one.output_tokens} />)}
        note={note((one) =>
          t.inCachedOut(
            format.compact(one.input_tokens),
            format.percent(cacheShare(one)),
            format.compact(one.output_tokens),
          ),
        )}
      />
      <Stat
        label={t.firstToken}
        value={value((one) => (one.first_byte_ms === null ? "–" : format.duration(one.first_byte_ms)))}
        note={note((one) => (one.duration_ms === null ? null : t.whole(format.duration(one.duration_ms))))}
      />
      <Stat
        label={t.errors}
        value={value((one) => format.percent(errorShare(one)))}
        note={note((one) => t.errorParts(format.number(one.failed), format.number(one.refused)))}
      />
    </Stats>
  );
}

/** As the list below has them: requests that were rejected count too. */
export function countAll({ requests, refused }: Pick<Totals, "requests" | "refused">): number {
  return requests + refused;
}

/** The part of the input that was read from the upstream's prompt cache. */
export function cacheShare({ input_tokens: input, cached_tokens: cached }: Totals): number {
  return input === 0 ? 0 : cached / input;
}

export function errorShare(totals: Totals): number {
  const all = countAll(totals);
  return all === 0 ? 0 : (totals.failed + totals.refused) / all;
}

function useChangeText(): (now: number, before: number | undefined) => string | null {
  const { stats: t } = useText("usage");
  const format = useFormat();
  return (now, before) => {
    if (before === undefined || before === 0) return null;
    if (now === before) return t.unchanged;
    const change = (now - before) / before;
    return t.change(`${change > 0 ? "+" : "−"}${format.percent(Math.abs(change))}`);
  };
}
