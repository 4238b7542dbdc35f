/** Creates a key in a group. */

import { useState } from "react";
import { useApi, useChange } from "../../data.ts";
import { limitsBody, limitsValue } from "../../forms/limits.tsx";
import { useText } from "../../text/text.tsx";
import { Awaited } from "../../ui/awaited.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { CheckboxField, TextField } from "../../ui/field.tsx";
import { CancelButton, Form, useForm } from "../../ui/form.tsx";
import { EmptyState, Notice } from "../../ui/notice.tsx";
import { type Expiry, ExpiryFields, useExpiresAt } from "./expiry.tsx";
import { GroupCards, type Offer } from "./group-cards.tsx";
import { KeyPolicy } from "./key-policy.tsx";
import { NewSecret } from "./new-secret.tsx";
import { OwnLimits } from "./own-limits.tsx";
import { callableFirst, isPaid, type Wallet } from "./paid.ts";

/** The form of a new key, then its secret, shown once. */
export function CreateKeyDialog({ onClose }: { onClose(): void }) {
  const t = useText("keys");
  const offers = useApi("groups.list");
  const wallet = useApi("wallet.get");
  const [made, setMade] = useState<{ secret: string; offer: Offer | undefined } | null>(null);
  if (made !== null) {
    return (
      <Dialog wide title={t.made.title}>
        <NewSecret secret={made.secret} models={made.offer?.models ?? []} onDone={onClose} />
      </Dialog>
    );
  }
  return (
    <Dialog wide title={t.form.title} onClose={onClose}>
      {offers.data === undefined ? (
        <Awaited query={offers} height={240} />
      ) : wallet.data === undefined ? (
        <Awaited query={wallet} height={240} />
      ) : offers.data.data.length === 0 ? (
        <EmptyState icon="group" title={t.noGroup.title}>
          <p>{t.noGroup.text}</p>
        </EmptyState>
      ) : (
        <KeyForm
          offers={callableFirst(offers.data.data, wallet.data)}
          wallet={wallet.data}
          onCancel={onClose}
          onMade={(secret, offer) => setMade({ secret, offer })}
        />
      )}
    </Dialog>
  );
}

interface KeyFormProps {
  offers: readonly Offer[];
  wallet: Wallet;
  onCancel(): void;
  onMade(secret: string, offer: Offer | undefined): void;
}

function KeyForm({ offers, wallet, onCancel, onMade }: KeyFormProps) {
  const t = useText("keys").form;
  const { key: fallback } = useText("fallback");
  const expiresAt = useExpiresAt();
  const create = useChange("keys.create", { invalidates: ["keys.", "models."] });
  const form = useForm(
    {
      name: "",
      group: offers[0]?.name ?? "",
      expiry: "never" as Expiry,
      date: "",
      limits: limitsValue(),
      requestPolicy: "",
      allowsFallback: true,
    },
    async (values) => {
      const { secret } = await create.mutateAsync({
        body: {
          name: values.name.trim(),
          group: values.group,
          expires_at: expiresAt(values) ?? null,
          limits: limitsBody(values.limits),
          request_policy: values.requestPolicy === "" ? null : values.requestPolicy,
          fallback: values.allowsFallback ? "allow" : "deny",
        },
      });
      onMade(secret, chosen);
    },
  );
  const chosen = offers.find(({ name }) => name === form.values.group);
  return (
    <Form form={form} submit={t.submit} actions={<CancelButton onClick={onCancel} />} atEnd>
      <TextField {...form.bind("name")} label={t.name} hint={t.nameHint} maxLength={64} autoFocus />
      <GroupCards {...form.bind("group")} offers={offers} />
      {chosen && chosen.charge !== "none" && !isPaid(chosen, wallet) && (
        <Notice tone="warn">{t.unpaid[chosen.charge]}</Notice>
      )}
      <ExpiryFields form={form} />
      <KeyPolicy binding={form.bind("requestPolicy", "request_policy")} />
      <CheckboxField
        {...form.bind("allowsFallback", "fallback")}
        label={fallback.label}
        hint={fallback.hint}
      />
      <OwnLimits form={form} within={chosen?.limits} />
    </Form>
  );
}
