/** What is watched, who is told, and what was told lately. */

import { useState } from "react";
import { useChange } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Button, IconButton } from "../../../ui/button.tsx";
import { ConfirmDialog } from "../../../ui/dialog.tsx";
import { EmptyState } from "../../../ui/notice.tsx";
import { Section } from "../../../ui/page.tsx";
import { Table } from "../../../ui/table.tsx";
import { useProblemToast, useToast } from "../../../ui/toast.tsx";
import { Badge } from "../../../ui/values.tsx";
import { AlertRules } from "./alert-rules.tsx";
import { RecentAlerts } from "./recent-alerts.tsx";
import { type Settings, useSaveSettings } from "./saving.ts";
import { WebhookDialog } from "./webhook-dialog.tsx";

export type Alerts = Settings["alerts"];
export type Webhook = Alerts["webhooks"][number];

export function AlertSettings({ settings: { alerts } }: { settings: Settings }) {
  return (
    <div className="stack wide">
      <Webhooks alerts={alerts} />
      <AlertRules alerts={alerts} />
      <RecentAlerts />
    </div>
  );
}

/** As the API takes it back: whether there is a secret is only told. */
export function sentWebhooks(webhooks: readonly Webhook[]) {
  return webhooks.map(({ has_secret: _, ...webhook }) => webhook);
}

function Webhooks({ alerts }: { alerts: Alerts }) {
  const t = useText("adminSettings").alerts;
  const kit = useText("kit");
  const save = useSaveSettings();
  const say = useToast();
  const tellProblem = useProblemToast();
  const [edited, setEdited] = useState<Webhook | "new" | null>(null);
  const [removed, setRemoved] = useState<Webhook | null>(null);
  const test = useChange("admin.settings.test_alert", {
    onDone: ({ ok, message }) => say(ok ? t.took(message) : t.refused(message), ok ? "good" : "bad"),
  });
  const { webhooks, ...rules } = alerts;
  const add = (
    <Button icon="add" isNew onClick={() => setEdited("new")}>
      {t.add}
    </Button>
  );
  return (
    <Section title={t.webhooks} about={t.webhooksAbout} actions={add}>
      <Table
        label={t.webhooks}
        rows={webhooks}
        rowKey={(webhook) => webhook.name}
        columns={[
          { key: "name", header: t.name, kind: "primary", cell: (webhook) => webhook.name },
          {
            key: "url",
            header: t.url,
            cell: (webhook) => <code className="breakable">{webhook.url}</code>,
          },
          {
            key: "state",
            header: t.state,
            cell: (webhook) => (
              <span className="row">
                <Badge tone={webhook.enabled === false ? "soft" : "good"}>
                  {webhook.enabled === false ? t.paused : t.enabled}
                </Badge>
                <Badge tone="plain">{webhook.has_secret ? t.signed : t.unsigned}</Badge>
              </span>
            ),
          },
          {
            key: "tools",
            header: kit.edit,
            kind: "tools",
            cell: (webhook) => (
              <span className="nowrap">
                <Button
                  small
                  isBusy={test.isPending && test.variables?.body.webhook === webhook.name}
                  onClick={() => test.mutate({ body: { webhook: webhook.name } }, { onError: tellProblem })}
                >
                  {t.test}
                </Button>
                <IconButton
                  small
                  icon="edit"
                  label={t.editOf(webhook.name)}
                  onClick={() => setEdited(webhook)}
                />
                <IconButton
                  small
                  icon="trash"
                  label={t.removeOf(webhook.name)}
                  onClick={() => setRemoved(webhook)}
                />
              </span>
            ),
          },
        ]}
        empty={
          <EmptyState icon="bell" title={t.noWebhooks} actions={add}>
            <p>{t.webhooksAbout}</p>
          </EmptyState>
        }
      />
      {edited !== null && (
        <WebhookDialog
          alerts={alerts}
          webhook={edited === "new" ? null : edited}
          onClose={() => setEdited(null)}
        />
      )}
      {removed !== null && (
        <ConfirmDialog
          title={t.removing(removed.name)}
          confirm={kit.remove}
          onClose={() => setRemoved(null)}
          onConfirm={() =>
            save({
              alerts: {
                ...rules,
                webhooks: sentWebhooks(webhooks.filter(({ name }) => name !== removed.name)),
              },
            })
          }
        >
          <p>{t.removingText}</p>
        </ConfirmDialog>
      )}
    </Section>
  );
}
