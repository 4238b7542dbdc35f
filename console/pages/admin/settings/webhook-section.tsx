/** A list of webhooks that can be added, edited, tested and removed: those of alerts, or those of the usage export. */

import { type ReactNode, useState } from "react";
import { useChange } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Button, IconButton } from "../../../ui/button.tsx";
import { ConfirmDialog } from "../../../ui/dialog.tsx";
import { EmptyState } from "../../../ui/notice.tsx";
import { Section } from "../../../ui/page.tsx";
import { type Column, Table } from "../../../ui/table.tsx";
import { useProblemToast, useToast } from "../../../ui/toast.tsx";
import { Badge } from "../../../ui/values.tsx";
import { type Webhook, type WebhookBody, webhooksBody } from "./alerts.ts";
import type { Settings } from "./saving.ts";
import { WebhookDialog } from "./webhook-dialog.tsx";

interface WebhookSectionProps {
  texts: { webhooks: string; webhooksAbout: string; noWebhooks: string; removingText: string };
  webhooks: readonly Webhook[];
  renderState(webhook: Webhook): ReactNode;
  /** Columns after the state. */
  moreColumns?: readonly Column<Webhook>[];
  testOperation: TestOperation;
  /** Saves the whole list. */
  onSave(webhooks: WebhookBody[]): Promise<Settings>;
}

type TestOperation = "admin.settings.test_alert" | "admin.usage_export.test";

export function WebhookSection({ texts, webhooks, onSave, ...columnProps }: WebhookSectionProps) {
  const labels = useText("adminSettings").alerts;
  const kit = useText("kit");
  const [edited, setEdited] = useState<Webhook | "new" | null>(null);
  const [removed, setRemoved] = useState<Webhook | null>(null);
  const columns = useWebhookColumns({ ...columnProps, onEdit: setEdited, onRemove: setRemoved });
  const add = (
    <Button icon="add" isNew onClick={() => setEdited("new")}>
      {labels.add}
    </Button>
  );
  return (
    <Section title={texts.webhooks} about={texts.webhooksAbout} actions={add}>
      <Table
        label={texts.webhooks}
        rows={webhooks}
        rowKey={({ name }) => name}
        columns={columns}
        empty={
          <EmptyState icon="bell" title={texts.noWebhooks} actions={add}>
            <p>{texts.webhooksAbout}</p>
          </EmptyState>
        }
      />
      {edited !== null && (
        <WebhookDialog
          webhooks={webhooks}
          webhook={edited === "new" ? null : edited}
          onSave={onSave}
          onClose={() => setEdited(null)}
        />
      )}
      {removed !== null && (
        <ConfirmDialog
          title={labels.removing(removed.name)}
          confirm={kit.remove}
          onClose={() => setRemoved(null)}
          onConfirm={() => onSave(webhooksBody(webhooks.filter(({ name }) => name !== removed.name)))}
        >
          <p>{texts.removingText}</p>
        </ConfirmDialog>
      )}
    </Section>
  );
}

interface WebhookColumnsInput
  extends Pick<WebhookSectionProps, "renderState" | "moreColumns" | "testOperation"> {
  onEdit(webhook: Webhook): void;
  onRemove(webhook: Webhook): void;
}

function useWebhookColumns(input: WebhookColumnsInput): readonly Column<Webhook>[] {
  const { renderState, moreColumns = [], testOperation, onEdit, onRemove } = input;
  const t = useText("adminSettings").alerts;
  const kit = useText("kit");
  return [
    { key: "name", header: t.name, kind: "primary", cell: ({ name }) => name },
    { key: "url", header: t.url, cell: ({ url }) => <code className="breakable">{url}</code> },
    {
      key: "state",
      header: t.state,
      cell: (webhook) => (
        <span className="row">
          {renderState(webhook)}
          <Badge tone="plain">{webhook.has_secret ? t.signed : t.unsigned}</Badge>
        </span>
      ),
    },
    ...moreColumns,
    {
      key: "tools",
      header: kit.edit,
      kind: "tools",
      cell: (webhook) => (
        <span className="nowrap">
          <TestWebhook name={webhook.name} operation={testOperation} />
          <IconButton small icon="edit" label={t.editNamed(webhook.name)} onClick={() => onEdit(webhook)} />
          <IconButton
            small
            icon="trash"
            label={t.removeNamed(webhook.name)}
            onClick={() => onRemove(webhook)}
          />
        </span>
      ),
    },
  ];
}

function TestWebhook({ name, operation }: { name: string; operation: TestOperation }) {
  const t = useText("adminSettings").alerts;
  const showToast = useToast();
  const showProblem = useProblemToast();
  const test = useChange(operation, {
    onDone: ({ ok, message }) => showToast(ok ? t.took(message) : t.refused(message), ok ? "good" : "bad"),
  });
  return (
    <Button
      small
      isBusy={test.isPending}
      onClick={() => test.mutate({ body: { webhook: name } }, { onError: showProblem })}
    >
      {t.test}
    </Button>
  );
}
