/** Creates or edits a webhook. */

import { useText } from "../../../text/text.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { CheckboxField, SecretField, TextField } from "../../../ui/field.tsx";
import { CancelButton, Form, useForm } from "../../../ui/form.tsx";
import { type Webhook, type WebhookBody, webhooksBody } from "./alerts.ts";

interface WebhookDialogProps {
  webhooks: readonly Webhook[];
  /** Null creates a webhook. */
  webhook: Webhook | null;
  /** Saves the whole list. */
  onSave(webhooks: WebhookBody[]): Promise<unknown>;
  onClose(): void;
}

/** Creates or changes a webhook, of alerts or of the usage export. */
export function WebhookDialog({ webhooks, webhook, onSave, onClose }: WebhookDialogProps) {
  const t = useText("adminSettings").alerts;
  const kit = useText("kit");
  const at = webhook === null ? webhooks.length : webhooks.indexOf(webhook);
  const form = useForm(
    {
      name: webhook?.name ?? "",
      url: webhook?.url ?? "",
      secret: "",
      enabled: webhook?.enabled !== false,
    },
    async ({ name, url, secret, enabled }) => {
      const saved = {
        name: name.trim(),
        url: url.trim(),
        enabled,
        ...(secret === "" ? {} : { secret }),
        // An exemption that the configuration file grants to this address stays.
        ...(webhook?.private_network && webhook.url === url.trim() ? { private_network: true } : {}),
      };
      await onSave(webhooksBody(webhooks).toSpliced(at, 1, saved));
      onClose();
    },
  );
  const param = (field: string) => `webhooks[${at}].${field}`;
  return (
    <Dialog title={webhook === null ? t.adding : t.editing(webhook.name)} onClose={onClose}>
      <Form form={form} submit={kit.save} atEnd actions={<CancelButton onClick={onClose} />}>
        {webhook === null && (
          <TextField {...form.bind("name", param("name"))} label={t.name} maxLength={64} />
        )}
        <TextField
          {...form.bind("url", param("url"))}
          type="url"
          label={t.url}
          placeholder="https://hooks.example.com/gateway"
        />
        <SecretField
          {...form.bind("secret", param("secret"))}
          label={t.secret}
          hint={webhook?.has_secret ? t.secretKept : t.secretHint}
          autoComplete="new-password"
          optional
        />
        <CheckboxField {...form.bind("enabled", param("enabled"))} label={t.enabled} />
      </Form>
    </Dialog>
  );
}
