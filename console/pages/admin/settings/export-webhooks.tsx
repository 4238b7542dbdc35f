/** The webhooks that receive the usage feed, with their positions. */

import type { ResponseBody } from "../../../api.ts";
import { useApi } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Badge, Count, Time } from "../../../ui/values.tsx";
import type { Webhook } from "./alerts.ts";
import { type Settings, useSaveSettings } from "./saving.ts";
import { WebhookSection } from "./webhook-section.tsx";

type ExportState = ResponseBody<"admin.usage_export.get">["webhooks"][number];

const REFRESH_MS = 5_000;

export function ExportWebhooks({ usageExport }: { usageExport: Settings["usage_export"] }) {
  const t = useText("adminSettings").usageExport;
  const save = useSaveSettings();
  const state = useApi("admin.usage_export.get", {}, { refreshMs: REFRESH_MS });
  const states = new Map(state.data?.webhooks.map((one) => [one.name, one]));
  return (
    <WebhookSection
      texts={t}
      webhooks={usageExport.webhooks}
      renderState={(webhook) => <StateBadge webhook={webhook} state={states.get(webhook.name)} />}
      moreColumns={[
        {
          key: "backlog",
          header: t.backlog,
          cell: ({ name }) => <Count value={states.get(name)?.backlog ?? 0} />,
        },
        {
          key: "delivered",
          header: t.delivered,
          cell: ({ name }) => <Time at={states.get(name)?.delivered_at ?? null} />,
        },
      ]}
      testOperation="admin.usage_export.test"
      onSave={(webhooks) => save({ usage_export: { enabled: true, webhooks } })}
    />
  );
}

function StateBadge({ webhook, state }: { webhook: Webhook; state: ExportState | undefined }) {
  const t = useText("adminSettings").usageExport;
  if (webhook.enabled === false) return <Badge tone="soft">{t.status.paused}</Badge>;
  if (state === undefined || state.cursor === null) return <Badge tone="soft">{t.status.waiting}</Badge>;
  if (state.failures > 0) return <Badge tone="bad">{t.failing(state.response ?? "")}</Badge>;
  return state.backlog === 0 ? (
    <Badge tone="good">{t.status.delivering}</Badge>
  ) : (
    <Badge tone="warn">{t.status.behind}</Badge>
  );
}
