/** The usage of all users over time, and the top spenders. */

import "./dashboard.css";
import { type ReactNode, useState } from "react";
import type { ResponseBody } from "../../../api.ts";
import { Bars } from "../../../charts/small.tsx";
import { TimeSeries } from "../../../charts/time-series.tsx";
import { useApi } from "../../../data.ts";
import { useFormat, useText } from "../../../text/text.tsx";
import { Link } from "../../../ui/button.tsx";
import { Segments } from "../../../ui/field.tsx";
import { ProblemNotice } from "../../../ui/notice.tsx";
import { Card, Section, Skeleton } from "../../../ui/page.tsx";

type Dashboard = ResponseBody<"admin.dashboard.get">;
type Point = Dashboard["points"][number];
const RANGES = ["day", "week", "month"] as const;
type Range = (typeof RANGES)[number];
const REFRESH_MS = 60_000;
const CHART_PX = 220;
const HOURS_A_DAY = 24;

export function Charts() {
  const t = useText("adminDashboard");
  const [range, setRange] = useState<Range>("day");
  const { data, error } = useApi(
    "admin.dashboard.get",
    { query: { range } },
    { keepPrevious: true, refreshMs: REFRESH_MS },
  );
  return (
    <>
      <Section
        title={t.charts.title}
        actions={
          <Segments<Range>
            label={t.charts.range}
            value={range}
            onChange={setRange}
            choices={RANGES.map((value) => ({ value, label: t.charts.ranges[value] }))}
          />
        }
      >
        {error && <ProblemNotice error={error} />}
        {data ? <Series data={data} /> : !error && <Skeleton width="100%" height={CHART_PX} />}
      </Section>
      {data && <Rankings data={data} />}
    </>
  );
}

function Series({ data }: { data: Dashboard }) {
  const t = useText("adminDashboard").charts;
  const format = useFormat();
  const points = filled(data);
  const times = points.map(({ at }) => at);
  const values = (of: (point: Point) => number) => points.map(of);
  const isHourly = data.granularity === "hour";
  const shown = {
    times,
    showTime: isHourly && times.length <= HOURS_A_DAY ? format.time : format.utcDay,
    showMoment: isHourly ? format.dateTime : format.utcDay,
  };
  return (
    <div className="columns">
      <Card>
        <h3>{t.requests}</h3>
        <TimeSeries
          label={t.requests}
          kind="bars"
          {...shown}
          show={format.compact}
          series={[
            {
              key: "answered",
              label: t.responded,
              values: values(({ requests, failed }) => requests - failed),
            },
            { key: "failed", label: t.failed, tone: "failed", values: values(({ failed }) => failed) },
            { key: "refused", label: t.refused, tone: "rejected", values: values(({ refused }) => refused) },
          ]}
        />
      </Card>
      <Card>
        <h3>{t.money}</h3>
        <TimeSeries
          label={t.money}
          {...shown}
          show={(value) => format.money(String(value))}
          series={[
            { key: "cost", label: t.cost, values: values(({ cost }) => Number(cost)) },
            { key: "charged", label: t.charged, values: values(({ charged }) => Number(charged)) },
            { key: "upstream", label: t.upstream, values: values(({ upstream }) => Number(upstream)) },
          ]}
        />
      </Card>
      <Card>
        <h3>{t.tokens}</h3>
        <TimeSeries
          label={t.tokens}
          kind="bars"
          {...shown}
          show={format.compact}
          series={[
            { key: "input", label: t.input, values: values((point) => point.input_tokens) },
            { key: "output", label: t.output, values: values((point) => point.output_tokens) },
          ]}
        />
      </Card>
    </div>
  );
}

const NOTHING: Omit<Point, "at"> = {
  requests: 0,
  refused: 0,
  failed: 0,
  input_tokens: 0,
  output_tokens: 0,
  cost: "0",
  charged: "0",
  upstream: "0",
  first_byte_ms: null,
};

/** Every hour or day of the range has a point, with or without requests. */
function filled({ points, from, to, granularity }: Dashboard): Point[] {
  const unitMs = granularity === "day" ? 86_400_000 : 3_600_000;
  const known = new Map(points.map((point) => [point.at, point]));
  return Array.from({ length: Math.round((to - from) / unitMs) }, (_, i) => {
    const at = from + i * unitMs;
    return known.get(at) ?? { ...NOTHING, at };
  });
}

function Rankings({ data }: { data: Dashboard }) {
  const t = useText("adminDashboard").top;
  const format = useFormat();
  return (
    <Section title={t.title} about={t.since(format.utcDay(data.top_from))}>
      <div className="rankings">
        <Ranking label={t.models} entries={data.models} />
        <Ranking label={t.groups} entries={data.groups} to={(name) => `/admin/groups/${name}`} />
        <Ranking label={t.users} entries={data.users} to={(_, id) => `/admin/users/${id}`} />
        <Ranking label={t.keys} entries={data.keys} />
      </div>
    </Section>
  );
}

interface RankingProps {
  label: string;
  entries: Dashboard["models"];
  to?(name: string, id: string): string;
}

function Ranking({ label, entries, to }: RankingProps) {
  const t = useText("adminDashboard").top;
  const format = useFormat();
  const renderName = (name: string | null, id: string): ReactNode => {
    if (name === null) return <span className="soft">{t.gone}</span>;
    return to ? <Link to={to(encodeURIComponent(name), encodeURIComponent(id))}>{name}</Link> : name;
  };
  return (
    <Card>
      <h3>{label}</h3>
      {entries.length === 0 ? (
        <p className="soft">{t.none}</p>
      ) : (
        <Bars
          label={label}
          bars={entries.map(({ id, name, requests, cost }) => ({
            key: id,
            label: renderName(name, id),
            value: Number(cost) || requests / 1e9,
            shown: (
              <>
                {format.money(cost)}{" "}
                <span className="soft">{t.requests(requests, format.compact(requests))}</span>
              </>
            ),
          }))}
        />
      )}
    </Card>
  );
}
