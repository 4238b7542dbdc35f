/** Creates or edits a service account. */

import { useChange } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { MultiSelect, TextField } from "../../../ui/field.tsx";
import { CancelButton, Form, useForm } from "../../../ui/form.tsx";
import type { ServiceAccount } from "./service-account.ts";

const SCOPES = ["wallet.read", "wallet.top_up", "config.apply", "keys.write", "scim"] as const;

interface ServiceAccountDialogProps {
  /** Null: a new one. */
  account: ServiceAccount | null;
  onSaved(name: string): void;
  onClose(): void;
}

export function ServiceAccountDialog({ account, onSaved, onClose }: ServiceAccountDialogProps) {
  const t = useText("adminServiceAccounts");
  const kit = useText("kit");
  const save = useChange("admin.service_accounts.save", { invalidates: ["admin.service_accounts."] });
  const form = useForm(readValues(account), async (values) => {
    const name = values.name.trim();
    const scopes = SCOPES.filter((scope) => values.scopes.includes(scope));
    const bounds = scopes.includes("wallet.top_up")
      ? { usd_per_call: values.usdPerCall.trim(), usd_per_day: values.usdPerDay.trim() }
      : null;
    const expires_at = values.expires === "" ? null : Date.parse(`${values.expires}T23:59:59.999Z`);
    await save.mutateAsync({ params: { name }, body: { scopes, bounds, expires_at } });
    onSaved(name);
  });
  return (
    <Dialog title={account === null ? t.create : t.editing(account.name)} onClose={onClose}>
      <Form form={form} submit={kit.save} atEnd actions={<CancelButton onClick={onClose} />}>
        {account === null && (
          <TextField {...form.bind("name")} label={t.name} hint={t.nameHint} maxLength={64} />
        )}
        <MultiSelect
          {...form.bind("scopes")}
          label={t.scopes}
          choices={SCOPES.map((value) => ({ value, label: value, hint: t.scopeHints[value] }))}
        />
        {form.values.scopes.includes("wallet.top_up") && (
          <div className="columns">
            <TextField
              {...form.bind("usdPerCall", "bounds.usd_per_call")}
              label={t.usdPerCall}
              inputMode="decimal"
            />
            <TextField
              {...form.bind("usdPerDay", "bounds.usd_per_day")}
              label={t.usdPerDay}
              inputMode="decimal"
            />
          </div>
        )}
        <TextField
          {...form.bind("expires", "expires_at")}
          type="date"
          label={t.expires}
          hint={t.expiresHint}
          optional
        />
      </Form>
    </Dialog>
  );
}

function readValues(account: ServiceAccount | null) {
  const expiresAt = account?.expires_at ?? null;
  return {
    name: account?.name ?? "",
    scopes: (account?.scopes ?? []) as readonly string[],
    usdPerCall: account?.bounds?.usd_per_call ?? "",
    usdPerDay: account?.bounds?.usd_per_day ?? "",
    expires: expiresAt === null ? "" : new Date(expiresAt).toISOString().slice(0, 10),
  };
}
