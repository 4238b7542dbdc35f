/** The usage page: sums, chart, ranking and requests. */

import { buildAddress } from "../../api.ts";
import { TimeSeries } from "../../charts/time-series.tsx";
import { useApi, useList } from "../../data.ts";
import { useGatewayOrigin } from "../../session.tsx";
import { useCatalogue, useFormat, useText } from "../../text/text.tsx";
import { DownloadButton, LinkButton } from "../../ui/button.tsx";
import { Segments } from "../../ui/field.tsx";
import { EmptyState, Notice, ProblemNotice } from "../../ui/notice.tsx";
import { Card, Page, PageHeader, Section, Skeleton } from "../../ui/page.tsx";
import { CodeBlock } from "../../ui/values.tsx";
import { buildSeries, type Chart, isStacked, listTimes } from "./chart-series.ts";
import { FilterBar, RangePicker, SplitPicker, useIsEverybody, useSplits } from "./filters.tsx";
import { Ranking } from "./ranking.tsx";
import { RequestTable } from "./request-table.tsx";
import { UsageStats } from "./stats.tsx";
import "./usage.css";
import { METRICS, type Metric, type UsageQuery, useUsageQuery } from "./usage-query.ts";

const REFRESH_MS = 5_000;

export default function UsagePage() {
  const t = useText("usage");
  const query = useUsageQuery();
  const splits = useSplits(query);
  const hasUsers = useIsEverybody(query.filters);
  const by = splits.includes(query.by) ? query.by : "model";
  const options = { refreshMs: REFRESH_MS, keepPrevious: true };
  const chart = useApi("usage.chart", { query: { ...query.chart, by } }, options);
  const requests = useList("usage.requests", { query: query.requests }, options);
  const isNew = isUnused(chart.data) && requests.rows.length === 0 && !query.hasFilters;
  return (
    <Page>
      <PageHeader
        title={t.title}
        about={query.filters.whose === "everybody" ? t.aboutEverybody : t.about}
        actions={
          <DownloadButton href={buildAddress("usage.export", { query: query.requests })}>
            {t.download}
          </DownloadButton>
        }
      />
      <div className="stack">
        <div className="row apart">
          <RangePicker query={query} />
          <SplitPicker query={query} />
        </div>
        <FilterBar query={query} />
      </div>
      {chart.error && <ProblemNotice error={chart.error} onRetry={() => void chart.refetch()} />}
      <UsageStats chart={chart.data} />
      <Card>{chart.data ? <UsageChart chart={chart.data} query={query} /> : <Skeleton height={300} />}</Card>
      {chart.data && chart.data.ranking.length > 0 && <Ranking chart={chart.data} by={by} />}
      <Section title={t.requests.title} about={t.requests.about}>
        {isNew ? (
          <Card flush>
            <FirstRequest />
          </Card>
        ) : (
          <RequestTable requests={requests} hasUsers={hasUsers} />
        )}
      </Section>
    </Page>
  );
}

function isUnused(chart: Chart | undefined): boolean {
  return chart !== undefined && chart.total.requests === 0 && chart.total.refused === 0;
}

function UsageChart({ chart, query }: { chart: Chart; query: UsageQuery }) {
  const texts = useCatalogue();
  const t = texts.usage;
  const format = useFormat();
  const { metric } = query;
  const isHourly = chart.granularity === "hour";
  const split = chart.series.length === 0 ? t.split.total : t.split[query.by];
  return (
    <>
      <div className="row apart">
        <h2>{t.metric[metric]}</h2>
        <Segments
          label={t.metric.label}
          value={metric}
          choices={METRICS.map((value) => ({ value, label: t.metric[value] }))}
          onChange={(value) => query.set("metric", value)}
        />
      </div>
      {chart.counted_from_at > chart.from_at && (
        <Notice tone="warn">{t.partial(format.dateTime(chart.counted_from_at))}</Notice>
      )}
      <TimeSeries
        label={t.chartLabel(t.metric[metric], split)}
        kind={isStacked(metric) ? "bars" : "lines"}
        times={listTimes(chart)}
        series={buildSeries(chart, metric, texts)}
        show={useShow(metric)}
        showTime={isHourly ? format.time : format.utcDay}
        showMoment={isHourly ? format.dateTime : format.utcDay}
        height={260}
      />
    </>
  );
}

function useShow(metric: Metric): (value: number) => string {
  const format = useFormat();
  switch (metric) {
    case "cost":
      return (value) => format.money(value.toFixed(9));
    case "latency":
    case "firstToken":
      return format.duration;
    default:
      return format.compact;
  }
}

/** The next step when there is no usage yet. */
function FirstRequest() {
  const { empty: t } = useText("usage");
  const origin = useGatewayOrigin();
  const { data: choices } = useApi("usage.choices");
  if (choices?.keys.length === 0) {
    return (
      <EmptyState
        icon="chart"
        title={t.title}
        actions={
          <LinkButton to="/keys" tone="primary" icon="key">
            {t.makeKey}
          </LinkButton>
        }
      >
        <p>{t.noKey}</p>
      </EmptyState>
    );
  }
  const model = choices?.models[0] ?? "MODEL";
  return (
    <EmptyState icon="chart" title={t.title}>
      <p>{t.text}</p>
      <CodeBlock label={t.curl} code={curl(origin, model)} language="bash" />
    </EmptyState>
  );
}

function curl(origin: string, model: string): string {
  const body = JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] });
  return [
    `curl ${origin}/v1/chat/completions`,
    `  -H "authorization: Bearer $API_KEY"`,
    `  -H "content-type: application/json"`,
    `  -d '${body.replaceAll("'", "'\\''")}'`,
  ].join(" \\\n");
}
