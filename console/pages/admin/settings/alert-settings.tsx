/** The tab with alert rules, webhooks, and recent alerts. */

import { AlertRules } from "./alert-rules.tsx";
import { RecentAlerts } from "./recent-alerts.tsx";
import type { Settings } from "./saving.ts";
import { Webhooks } from "./webhooks.tsx";

export function AlertSettings({ settings: { alerts } }: { settings: Settings }) {
  return (
    <div className="stack wide">
      <Webhooks alerts={alerts} />
      <AlertRules alerts={alerts} />
      <RecentAlerts />
    </div>
  );
}
