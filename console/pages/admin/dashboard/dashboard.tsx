/** The dashboard of administrators: live traffic and recent history. */

import { useList } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Link } from "../../../ui/button.tsx";
import { Notice } from "../../../ui/notice.tsx";
import { Page, PageHeader } from "../../../ui/page.tsx";
import { Badge } from "../../../ui/values.tsx";
import { DashboardChecklist } from "../setup/dashboard-checklist.tsx";
import { AccountHealth } from "./account-health.tsx";
import { Charts } from "./charts.tsx";
import { useLive } from "./live.ts";
import { LiveFigures } from "./live-figures.tsx";

const ALERTS_REFRESH_MS = 10_000;

export default function DashboardPage() {
  const t = useText("adminDashboard");
  const { frame, frames, isConnected } = useLive();
  return (
    <Page>
      <PageHeader
        title={t.title}
        about={t.about}
        actions={
          <Badge tone={isConnected ? "good" : "warn"}>{isConnected ? t.live.connected : t.live.lost}</Badge>
        }
      />
      <DashboardChecklist />
      <OpenAlerts />
      <LiveFigures frame={frame} frames={frames} />
      <AccountHealth frame={frame} />
      <Charts />
      {frame !== null && <p className="small soft">{t.node(frame.node)}</p>}
    </Page>
  );
}

function OpenAlerts() {
  const t = useText("adminDashboard").alerts;
  const alerts = useList("admin.alerts.list", { query: { limit: 20 } }, { refreshMs: ALERTS_REFRESH_MS });
  const open = alerts.rows.filter((alert) => alert.ended_at === null);
  if (open.length === 0) return null;
  return (
    <Notice tone="warn" title={t.open(open.length)}>
      {open.map((alert) => (
        <p key={alert.id}>{alert.message}</p>
      ))}
      <p>
        <Link to="/admin/settings?part=alerts">{t.see}</Link>
      </p>
    </Notice>
  );
}
