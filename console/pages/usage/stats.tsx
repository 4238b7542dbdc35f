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
        value={value(({ requests }) => <Count value={requests} />)}
        note={note(({ requests }) => change(requests, chart?.previous?.requests))}
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

/** The part of the input that was read from the upstream's prompt cache. */
export function cacheShare({ input_tokens: input, cached_tokens: cached }: Totals): number {
  return input === 0 ? 0 : cached / input;
}

export function errorShare({ requests, failed, refused }: Totals): number {
  const all = requests + refused;
  return all === 0 ? 0 : (failed + refused) / all;
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
