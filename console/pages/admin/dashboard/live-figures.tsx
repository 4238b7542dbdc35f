/** The live figures of the dashboard, updated once a second. */

import { Spark } from "../../../charts/small.tsx";
import { useFormat, useText } from "../../../text/text.tsx";
import { Section, Skeleton, Stat, Stats } from "../../../ui/page.tsx";
import { Money } from "../../../ui/values.tsx";
import type { Frame } from "./live.ts";

export function LiveFigures({ frame, frames }: { frame: Frame | null; frames: readonly Frame[] }) {
  const t = useText("adminDashboard").live;
  const format = useFormat();
  const figure = (label: string, of: (frame: Frame) => number) => (
    <Stat
      label={label}
      value={frame === null ? <Skeleton width={48} height={24} /> : format.compact(of(frame))}
      note={<Spark label={t.lastMinute(label)} values={frames.map(of)} />}
    />
  );
  return (
    <Section title={t.title}>
      <Stats>
        {figure(t.requests, (now) => now.requests_per_s)}
        {figure(t.tokens, (now) => now.tokens_per_s)}
        {figure(t.errors, (now) => now.errors_per_s)}
        {figure(t.inFlight, (now) => now.in_flight)}
        {figure(t.waiting, (now) => now.waiting)}
        {figure(t.waitingForSlot, (now) => now.waiting_for_slot)}
        <Stat
          label={t.spent}
          value={frame === null ? <Skeleton width={64} height={24} /> : <Spent usd={frame.spent_today} />}
          note={t.spentNote}
        />
      </Stats>
    </Section>
  );
}

/** Unknown in the first seconds of a process. */
function Spent({ usd }: { usd: string | null }) {
  return usd === null ? "–" : <Money value={usd} />;
}
