/** The webhooks that receive alerts. */

import { useState } from "react";
import { useChange } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Button, IconButton } from "../../../ui/button.tsx";
import { ConfirmDialog } from "../../../ui/dialog.tsx";
import { EmptyState } from "../../../ui/notice.tsx";
import { Section } from "../../../ui/page.tsx";
import { type Column, Table } from "../../../ui/table.tsx";
import { useProblemToast, useToast } from "../../../ui/toast.tsx";
import { Badge } from "../../../ui/values.tsx";
import { type Alerts, type Webhook, webhooksBody } from "./alerts.ts";
import { useSaveSettings } from "./saving.ts";
import { WebhookDialog } from "./webhook-dialog.tsx";

export function Webhooks({ alerts }: { alerts: Alerts }) {
  const t = useText("adminSettings").alerts;
  const [edited, setEdited] = useState<Webhook | "new" | null>(null);
  const [removed, setRemoved] = useState<Webhook | null>(null);
  const columns = useWebhookColumns({ onEdit: setEdited, onRemove: setRemoved });
  const save = useSaveSettings();
  const { webhooks: present, ...rules } = alerts;
  const add = (
    <Button icon="add" isNew onClick={() => setEdited("new")}>
      {t.add}
    </Button>
  );
  return (
    <Section title={t.webhooks} about={t.webhooksAbout} actions={add}>
      <Table
        label={t.webhooks}
        rows={alerts.webhooks}
        rowKey={(webhook) => webhook.name}
        columns={columns}
        empty={
          <EmptyState icon="bell" title={t.noWebhooks} actions={add}>
            <p>{t.webhooksAbout}</p>
          </EmptyState>
        }
      />
      {edited !== null && (
        <WebhookDialog
          webhooks={present}
          webhook={edited === "new" ? null : edited}
          onSave={(webhooks) => save({ alerts: { ...rules, webhooks } })}
          onClose={() => setEdited(null)}
        />
      )}
      {removed !== null && (
        <RemoveWebhook alerts={alerts} webhook={removed} onClose={() => setRemoved(null)} />
      )}
    </Section>
  );
}

interface WebhookColumnsInput {
  onEdit(webhook: Webhook): void;
  onRemove(webhook: Webhook): void;
}

function useWebhookColumns({ onEdit, onRemove }: WebhookColumnsInput): readonly Column<Webhook>[] {
  const t = useText("adminSettings").alerts;
  const kit = useText("kit");
  return [
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
          <TestWebhook name={webhook.name} />
          <IconButton small icon="edit" label={t.editOf(webhook.name)} onClick={() => onEdit(webhook)} />
          <IconButton small icon="trash" label={t.removeOf(webhook.name)} onClick={() => onRemove(webhook)} />
        </span>
      ),
    },
  ];
}

function TestWebhook({ name }: { name: string }) {
  const t = useText("adminSettings").alerts;
  const say = useToast();
  const tellProblem = useProblemToast();
  const test = useChange("admin.settings.test_alert", {
    onDone: ({ ok, message }) => say(ok ? t.took(message) : t.refused(message), ok ? "good" : "bad"),
  });
  return (
    <Button
      small
      isBusy={test.isPending}
      onClick={() => test.mutate({ body: { webhook: name } }, { onError: tellProblem })}
    >
      {t.test}
    </Button>
  );
}

interface RemoveWebhookProps {
  alerts: Alerts;
  webhook: Webhook;
  onClose(): void;
}

function RemoveWebhook({ alerts: { webhooks, ...rules }, webhook, onClose }: RemoveWebhookProps) {
  const t = useText("adminSettings").alerts;
  const kit = useText("kit");
  const save = useSaveSettings();
  const others = webhooks.filter(({ name }) => name !== webhook.name);
  return (
    <ConfirmDialog
      title={t.removing(webhook.name)}
      confirm={kit.remove}
      onClose={onClose}
      onConfirm={() => save({ alerts: { ...rules, webhooks: webhooksBody(others) } })}
    >
      <p>{t.removingText}</p>
    </ConfirmDialog>
  );
}
