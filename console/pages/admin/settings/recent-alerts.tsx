/** The alerts of the last days, with their delivery status. */

import type { ResponseBody } from "../../../api.ts";
import { useList } from "../../../data.ts";
import { useFormat, useText } from "../../../text/text.tsx";
import { EmptyState } from "../../../ui/notice.tsx";
import { Section } from "../../../ui/page.tsx";
import { Table } from "../../../ui/table.tsx";
import { Badge, Time } from "../../../ui/values.tsx";

type Alert = ResponseBody<"admin.alerts.list">["data"][number];
const REFRESH_MS = 5_000;
const TONES = { pending: "warn", delivered: "good", failed: "bad" } as const;

export function RecentAlerts() {
  const t = useText("adminSettings").alerts;
  const format = useFormat();
  const alerts = useList("admin.alerts.list", {}, { refreshMs: REFRESH_MS });
  return (
    <Section title={t.recent} about={t.recentAbout}>
      <Table<Alert>
        label={t.recent}
        rows={alerts}
        rowKey={(alert) => alert.id}
        columns={[
          {
            key: "message",
            header: t.message,
            kind: "primary",
            cell: (alert) => (
              <span className="breakable">
                {alert.message}
                {alert.node !== null && <span className="small soft"> {alert.node}</span>}
              </span>
            ),
          },
          { key: "rule", header: t.rule, cell: (alert) => t.names[alert.rule] },
          { key: "began", header: t.began, cell: (alert) => <Time at={alert.started_at} /> },
          {
            key: "state",
            header: t.state,
            cell: (alert) =>
              alert.ended_at === null ? (
                <Badge tone="bad">{t.open}</Badge>
              ) : (
                <span>
                  <Badge tone="soft">{t.over}</Badge>
                  <span className="small soft">
                    {" "}
                    {t.lasted(format.duration(alert.ended_at - alert.started_at))}
                  </span>
                </span>
              ),
          },
          { key: "deliveries", header: t.deliveries, cell: (alert) => <Deliveries alert={alert} /> },
        ]}
        empty={
          <EmptyState icon="bell" title={t.none.title}>
            <p>{t.none.text}</p>
          </EmptyState>
        }
      />
    </Section>
  );
}

function Deliveries({ alert: { deliveries } }: { alert: Alert }) {
  const t = useText("adminSettings").alerts;
  if (deliveries.length === 0) return <span className="soft">{t.noWebhook}</span>;
  return (
    <div className="stack">
      {deliveries.map((delivery) => (
        <div key={delivery.id}>
          <div className="small">{t.delivery(delivery.webhook, delivery.event)}</div>
          <span className="row">
            <Badge tone={TONES[delivery.state]}>{t.states[delivery.state]}</Badge>
            <span className="small soft">
              {delivery.response} {delivery.attempts > 1 && t.attempts(delivery.attempts)}
            </span>
          </span>
        </div>
      ))}
    </div>
  );
}
