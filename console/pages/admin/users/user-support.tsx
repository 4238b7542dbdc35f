/** What the user sees, for support. Nothing is fetched before the button is pressed, because access is audited. */

import { useState } from "react";
import type { ResponseBody } from "../../../api.ts";
import { TimeSeries } from "../../../charts/time-series.tsx";
import { useApi, useChange, useList } from "../../../data.ts";
import { useFormat, useText } from "../../../text/text.tsx";
import { Awaited } from "../../../ui/awaited.tsx";
import { Button, Link } from "../../../ui/button.tsx";
import { EmptyState, ProblemNotice } from "../../../ui/notice.tsx";
import { Card, Section, Stat, Stats } from "../../../ui/page.tsx";
import { Table } from "../../../ui/table.tsx";
import { Badge, Money, Time } from "../../../ui/values.tsx";
import type { UserDetail } from "./user-detail.ts";

type View = ResponseBody<"admin.users.support">;
const HOUR_MS = 3_600_000;
const KEY_TONES = { active: "good", expired: "warn", suspended: "warn", revoked: "soft" } as const;

export function UserSupport({ user }: { user: UserDetail }) {
  const t = useText("adminUsers").support;
  const [view, setView] = useState<View | null>(null);
  const look = useChange("admin.users.support", { onDone: setView });
  if (view !== null) return <Seen user={user} view={view} />;
  return (
    <Card>
      <EmptyState
        icon="eye"
        title={t.about}
        actions={
          <Button
            tone="primary"
            icon="eye"
            isBusy={look.isPending}
            onClick={() => look.mutate({ params: { id: user.id } })}
          >
            {t.look}
          </Button>
        }
      >
        <p>{t.audited}</p>
        {look.error && <ProblemNotice error={look.error} />}
      </EmptyState>
    </Card>
  );
}

function Seen({ user, view }: { user: UserDetail; view: View }) {
  const t = useText("adminUsers").support;
  return (
    <div className="stack wide">
      <Rejections view={view} />
      <Usage user={user} view={view} />
      <Section title={t.keys}>
        <Keys user={user} />
      </Section>
      <Section title={t.wallet}>
        <Wallet user={user} />
      </Section>
    </div>
  );
}

function Rejections({ view }: { view: View }) {
  const t = useText("adminUsers").support;
  return (
    <Section title={t.rejections}>
      <Table
        label={t.rejections}
        rows={view.rejections}
        rowKey={(rejection) => rejection.request_id}
        columns={[
          {
            key: "code",
            header: t.code,
            kind: "primary",
            cell: (rejection) => <code>{rejection.code ?? rejection.status}</code>,
          },
          { key: "at", header: t.at, cell: (rejection) => <Time at={rejection.at} exact /> },
          {
            key: "outcome",
            header: t.outcome,
            cell: (rejection) => (
              <Badge tone={rejection.outcome === "refused" ? "warn" : "bad"}>
                {rejection.outcome === "refused" || rejection.outcome === "failed"
                  ? t.outcomes[rejection.outcome]
                  : t.outcomes.upstream_cut}
              </Badge>
            ),
          },
          {
            key: "model",
            header: t.model,
            cell: (rejection) => <span className="breakable">{rejection.model || "–"}</span>,
          },
          { key: "key", header: t.key, cell: (rejection) => rejection.key ?? rejection.key_id },
          {
            key: "request",
            header: t.request,
            cell: (rejection) => (
              <Link to={`/requests/${encodeURIComponent(rejection.request_id)}`}>
                <code>{rejection.request_id.slice(-8)}</code>
              </Link>
            ),
          },
        ]}
        empty={<EmptyState icon="check" title={t.noRejections} />}
      />
    </Section>
  );
}

function Usage({ user, view }: { user: UserDetail; view: View }) {
  const t = useText("adminUsers").support;
  const charts = useText("adminDashboard").charts;
  const format = useFormat();
  const firstMs = Math.floor(view.since / HOUR_MS) * HOUR_MS;
  const times = Array.from({ length: 25 }, (_, i) => firstMs + i * HOUR_MS);
  const known = new Map(view.hours.map((hour) => [hour.at, hour]));
  const values = (of: (hour: View["hours"][number]) => number) =>
    times.map((at) => {
      const hour = known.get(at);
      return hour === undefined ? 0 : of(hour);
    });
  return (
    <Section
      title={t.usage}
      actions={<Link to={`/usage?user=${encodeURIComponent(user.email)}`}>{t.allUsage}</Link>}
    >
      <Card>
        <TimeSeries
          label={t.usage}
          kind="bars"
          times={times}
          show={format.compact}
          showTime={format.time}
          showMoment={format.dateTime}
          series={[
            {
              key: "answered",
              label: charts.responded,
              values: values((hour) => hour.requests - hour.failed),
            },
            { key: "failed", label: charts.failed, values: values((hour) => hour.failed) },
            { key: "refused", label: charts.refused, values: values((hour) => hour.refused) },
          ]}
        />
      </Card>
    </Section>
  );
}

function Keys({ user }: { user: UserDetail }) {
  const users = useText("adminUsers");
  const t = users.support;
  const keys = useList("keys.list", { query: { user: user.id } });
  return (
    <Table
      label={t.keys}
      rows={keys}
      rowKey={(key) => key.id}
      columns={[
        { key: "name", header: t.key, kind: "primary", cell: (key) => key.name },
        { key: "group", header: t.group, cell: (key) => key.group },
        {
          key: "status",
          header: users.status,
          cell: (key) => <Badge tone={KEY_TONES[key.status]}>{t.keyStatuses[key.status]}</Badge>,
        },
        { key: "used", header: t.lastUsed, cell: (key) => <Time at={key.last_used_at} /> },
        { key: "cost", header: users.spend, kind: "end", cell: (key) => <Money value={key.usage.cost} /> },
      ]}
      empty={<EmptyState icon="key" title={t.noKeys} />}
    />
  );
}

function Wallet({ user }: { user: UserDetail }) {
  const users = useText("adminUsers");
  const wallet = useApi("wallet.get", { query: { user: user.id } });
  const { data } = wallet;
  if (data === undefined) return <Awaited query={wallet} height={80} />;
  return (
    <Stats>
      <Stat label={users.balance} value={<Money isLeft value={data.balance} />} />
      <Stat label={users.held} value={<Money value={data.held} />} />
      {Number(data.debt) > 0 && <Stat label={users.debt} value={<Money value={data.debt} />} />}
      {data.subscriptions.map((subscription) => (
        <Stat
          key={subscription.id}
          label={subscription.plan}
          value={<Money value={subscription.windows[0]?.remaining ?? "0"} />}
        />
      ))}
    </Stats>
  );
}
