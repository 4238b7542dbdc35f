/** The webhooks that receive the usage feed, with their positions. */

import { useState } from "react";
import type { Answer } from "../../../api.ts";
import { useApi, useChange } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Button, IconButton } from "../../../ui/button.tsx";
import { ConfirmDialog } from "../../../ui/dialog.tsx";
import { EmptyState } from "../../../ui/notice.tsx";
import { Section } from "../../../ui/page.tsx";
import { type Column, Table } from "../../../ui/table.tsx";
import { useProblemToast, useToast } from "../../../ui/toast.tsx";
import { Badge, Count, Time } from "../../../ui/values.tsx";
import { type Webhook, webhooksBody } from "./alerts.ts";
import { type Settings, useSaveSettings } from "./saving.ts";
import { WebhookDialog } from "./webhook-dialog.tsx";

type ExportState = Answer<"admin.usage_export.get">["webhooks"][number];

const REFRESH_MS = 5_000;

export function ExportWebhooks({ usageExport }: { usageExport: Settings["usage_export"] }) {
  const t = useText("adminSettings").usageExport;
  const labels = useText("adminSettings").alerts;
  const save = useSaveSettings();
  const state = useApi("admin.usage_export.get", {}, { refreshMs: REFRESH_MS });
  const [edited, setEdited] = useState<Webhook | "new" | null>(null);
  const [removed, setRemoved] = useState<Webhook | null>(null);
  const states = new Map(state.data?.webhooks.map((one) => [one.name, one]));
  const columns = useColumns({ states, onEdit: setEdited, onRemove: setRemoved });
  const saveWebhooks = (webhooks: ReturnType<typeof webhooksBody>) =>
    save({ usage_export: { enabled: true, webhooks } });
  const add = (
    <Button icon="add" isNew onClick={() => setEdited("new")}>
      {labels.add}
    </Button>
  );
  return (
    <Section title={t.webhooks} about={t.webhooksAbout} actions={add}>
      <Table
        label={t.webhooks}
        rows={usageExport.webhooks}
        rowKey={({ name }) => name}
        columns={columns}
        empty={
          <EmptyState icon="bell" title={t.noWebhooks} actions={add}>
            <p>{t.webhooksAbout}</p>
          </EmptyState>
        }
      />
      {edited !== null && (
        <WebhookDialog
          webhooks={usageExport.webhooks}
          webhook={edited === "new" ? null : edited}
          onSave={saveWebhooks}
          onClose={() => setEdited(null)}
        />
      )}
      {removed !== null && (
        <RemoveWebhook
          name={removed.name}
          onClose={() => setRemoved(null)}
          onConfirm={() =>
            saveWebhooks(webhooksBody(usageExport.webhooks.filter(({ name }) => name !== removed.name)))
          }
        />
      )}
    </Section>
  );
}

interface ColumnsInput {
  states: ReadonlyMap<string, ExportState>;
  onEdit(webhook: Webhook): void;
  onRemove(webhook: Webhook): void;
}

function useColumns({ states, onEdit, onRemove }: ColumnsInput): readonly Column<Webhook>[] {
  const t = useText("adminSettings").usageExport;
  const labels = useText("adminSettings").alerts;
  const kit = useText("kit");
  return [
    { key: "name", header: labels.name, kind: "primary", cell: ({ name }) => name },
    { key: "url", header: labels.url, cell: ({ url }) => <code className="breakable">{url}</code> },
    {
      key: "state",
      header: labels.state,
      cell: (webhook) => (
        <span className="row">
          <StateBadge webhook={webhook} state={states.get(webhook.name)} />
          <Badge tone="plain">{webhook.has_secret ? labels.signed : labels.unsigned}</Badge>
        </span>
      ),
    },
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
    {
      key: "tools",
      header: kit.edit,
      kind: "tools",
      cell: (webhook) => (
        <span className="nowrap">
          <TestWebhook name={webhook.name} />
          <IconButton small icon="edit" label={labels.editOf(webhook.name)} onClick={() => onEdit(webhook)} />
          <IconButton
            small
            icon="trash"
            label={labels.removeOf(webhook.name)}
            onClick={() => onRemove(webhook)}
          />
        </span>
      ),
    },
  ];
}

function StateBadge({ webhook, state }: { webhook: Webhook; state: ExportState | undefined }) {
  const t = useText("adminSettings").usageExport;
  if (webhook.enabled === false) return <Badge tone="soft">{t.status.paused}</Badge>;
  if (state === undefined || state.cursor === null) return <Badge tone="soft">{t.status.waiting}</Badge>;
  if (state.failures > 0) return <Badge tone="bad">{t.failing(state.answer ?? "")}</Badge>;
  return state.backlog === 0 ? (
    <Badge tone="good">{t.status.delivering}</Badge>
  ) : (
    <Badge tone="warn">{t.status.behind}</Badge>
  );
}

function TestWebhook({ name }: { name: string }) {
  const t = useText("adminSettings").alerts;
  const say = useToast();
  const tellProblem = useProblemToast();
  const test = useChange("admin.usage_export.test", {
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
  name: string;
  onConfirm(): Promise<unknown>;
  onClose(): void;
}

function RemoveWebhook({ name, onConfirm, onClose }: RemoveWebhookProps) {
  const t = useText("adminSettings");
  const kit = useText("kit");
  return (
    <ConfirmDialog
      title={t.alerts.removing(name)}
      confirm={kit.remove}
      onClose={onClose}
      onConfirm={async () => {
        await onConfirm();
      }}
    >
      <p>{t.usageExport.removingText}</p>
    </ConfirmDialog>
  );
}
