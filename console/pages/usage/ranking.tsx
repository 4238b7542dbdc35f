/** The keys, models or users with the highest usage. */

import { useFormat, useText } from "../../text/text.tsx";
import { Section } from "../../ui/page.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { Count, Money } from "../../ui/values.tsx";
import type { Chart } from "./chart-series.ts";
import { cacheShare, countAll, errorShare } from "./stats.tsx";
import type { Split } from "./usage-query.ts";

type Ranked = Chart["ranking"][number];

export function Ranking({ chart, by }: { chart: Chart; by: Split }) {
  const { ranking: t, requests, split } = useText("usage");
  const format = useFormat();
  const columns: Column<Ranked>[] = [
    {
      key: "name",
      header: split[by],
      kind: "primary",
      cell: ({ label }) => (label === "" ? requests.noModel : label),
    },
    { key: "requests", header: t.requests, kind: "end", cell: (one) => <Count value={countAll(one)} /> },
    { key: "errors", header: t.errors, kind: "end", cell: (one) => format.percent(errorShare(one)) },
    {
      key: "tokens",
      header: t.tokens,
      kind: "end",
      cell: (one) => <Count value={one.input_tokens + one.output_tokens} />,
    },
    { key: "cache", header: t.cache, kind: "end", cell: (one) => cacheText(one) },
    {
      key: "first",
      header: t.firstToken,
      kind: "end",
      isMinor: true,
      cell: (one) => duration(one.first_byte_ms),
    },
    {
      key: "duration",
      header: t.duration,
      kind: "end",
      isMinor: true,
      cell: (one) => duration(one.duration_ms),
    },
    { key: "cost", header: t.cost, kind: "end", cell: ({ cost }) => <Money value={cost} /> },
  ];
  const cacheText = (one: Ranked) => (one.input_tokens === 0 ? "–" : format.percent(cacheShare(one)));
  const duration = (ms: number | null) => (ms === null ? "–" : format.duration(ms));
  return (
    <Section title={split[by]}>
      <Table label={split[by]} columns={columns} rows={chart.ranking} rowKey={({ id }) => id} empty={null} />
    </Section>
  );
}
