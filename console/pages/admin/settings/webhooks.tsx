/** The webhooks that receive alerts. */

import { useText } from "../../../text/text.tsx";
import { Badge } from "../../../ui/values.tsx";
import type { Alerts } from "./alerts.ts";
import { useSaveSettings } from "./saving.ts";
import { WebhookSection } from "./webhook-section.tsx";

export function Webhooks({ alerts: { webhooks, ...rules } }: { alerts: Alerts }) {
  const t = useText("adminSettings").alerts;
  const save = useSaveSettings();
  return (
    <WebhookSection
      texts={t}
      webhooks={webhooks}
      renderState={({ enabled }) => (
        <Badge tone={enabled === false ? "soft" : "good"}>{enabled === false ? t.paused : t.enabled}</Badge>
      )}
      testOperation="admin.settings.test_alert"
      onSave={(changed) => save({ alerts: { ...rules, webhooks: changed } })}
    />
  );
}
