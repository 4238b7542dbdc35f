/** The dialogs of a key: edit, rotate, revoke. */

import { useState } from "react";
import type { ResponseBody } from "../../api.ts";
import { useApi, useChange } from "../../data.ts";
import { limitsBody, limitsValue } from "../../forms/limits.tsx";
import { useUser } from "../../session.tsx";
import { useFormat, useText } from "../../text/text.tsx";
import { ConfirmDialog, Dialog } from "../../ui/dialog.tsx";
import { CheckboxField, SelectField, TextField } from "../../ui/field.tsx";
import { CancelButton, Form, useForm } from "../../ui/form.tsx";
import { useToast } from "../../ui/toast.tsx";
import { type Expiry, ExpiryFields, useExpiresAt } from "./expiry.tsx";
import { KeyPolicy } from "./key-policy.tsx";
import { NewSecret } from "./new-secret.tsx";
import { OwnLimits } from "./own-limits.tsx";

type KeyDetail = ResponseBody<"keys.get">;

interface KeyDialogProps {
  shown: KeyDetail;
  onClose(): void;
}

export function EditKeyDialog({ shown, onClose }: KeyDialogProps) {
  const t = useText("keys");
  const kit = useText("kit");
  const { key: fallback } = useText("fallback");
  const user = useUser();
  const format = useFormat();
  const showToast = useToast();
  const expiresAt = useExpiresAt();
  const offers = useApi("groups.list");
  const edit = useChange("keys.edit", { invalidates: ["keys.", "models."] });
  const form = useForm(
    {
      name: shown.name,
      expiry: "keep" as Expiry,
      date: "",
      limits: limitsValue(shown.limits),
      requestPolicy: shown.request_policy ?? "",
      allowsFallback: shown.fallback === "allow",
    },
    async (values) => {
      const expires = expiresAt(values);
      await edit.mutateAsync({
        params: { id: shown.id },
        body: {
          name: values.name.trim(),
          limits: limitsBody(values.limits),
          request_policy: values.requestPolicy === "" ? null : values.requestPolicy,
          fallback: values.allowsFallback ? "allow" : "deny",
          ...(expires === undefined ? {} : { expires_at: expires }),
        },
      });
      showToast(t.edit.saved);
      onClose();
    },
  );
  const now = shown.expires_at === null ? t.form.expiry.never : format.dateTime(shown.expires_at);
  return (
    <Dialog wide title={t.edit.title(shown.name)} onClose={onClose}>
      <Form form={form} submit={kit.save} actions={<CancelButton onClick={onClose} />} atEnd>
        <TextField {...form.bind("name")} label={t.form.name} maxLength={64} />
        <ExpiryFields form={form} keep={`${t.edit.keep}: ${now}`} />
        <KeyPolicy binding={form.bind("requestPolicy", "request_policy")} />
        <CheckboxField
          {...form.bind("allowsFallback", "fallback")}
          label={fallback.label}
          hint={fallback.hint}
          disabled={shown.fallback === "deny" && user.role !== "admin"}
        />
        <OwnLimits
          form={form}
          within={offers.data?.data.find(({ name }) => name === shown.group)?.limits}
          isOpen={Object.keys(shown.limits).length > 0}
        />
      </Form>
    </Dialog>
  );
}

const HOUR_MS = 3_600_000;
const OVERLAPS = {
  none: 0,
  hour: HOUR_MS,
  day: 24 * HOUR_MS,
  week: 168 * HOUR_MS,
  month: 720 * HOUR_MS,
} as const;
const OVERLAP_NAMES = ["none", "hour", "day", "week", "month"] as const;

export function RotateKeyDialog({ shown, onClose }: KeyDialogProps) {
  const t = useText("keys");
  const format = useFormat();
  const offers = useApi("models.list", { query: { key: shown.id, limit: 200 } });
  const rotate = useChange("keys.rotate", { invalidates: ["keys."] });
  const [made, setMade] = useState<ResponseBody<"keys.rotate"> | null>(null);
  const form = useForm({ overlap: "day" as keyof typeof OVERLAPS }, async ({ overlap }) => {
    const body = { overlap_ms: OVERLAPS[overlap] };
    setMade(await rotate.mutateAsync({ params: { id: shown.id }, body }));
  });
  if (made !== null) {
    const until = made.old_secret_works_until_at;
    return (
      <Dialog wide title={t.made.rotated}>
        <NewSecret
          secret={made.secret}
          models={offers.data?.data ?? []}
          note={<p>{until > Date.now() ? t.made.oldWorks(format.dateTime(until)) : t.made.oldEnded}</p>}
          onDone={onClose}
        />
      </Dialog>
    );
  }
  return (
    <Dialog title={t.rotate.title(shown.name)} onClose={onClose}>
      <Form form={form} submit={t.rotate.submit} actions={<CancelButton onClick={onClose} />} atEnd>
        <p>{t.rotate.about}</p>
        <SelectField
          {...form.bind("overlap", "overlap_ms")}
          label={t.rotate.overlap}
          choices={OVERLAP_NAMES.map((value) => ({ value, label: t.rotate.choices[value] }))}
        />
      </Form>
    </Dialog>
  );
}

export function RevokeKeyDialog({ shown, onClose }: KeyDialogProps) {
  const t = useText("keys").revoke;
  const showToast = useToast();
  const revoke = useChange("keys.revoke", { invalidates: ["keys.", "models."] });
  return (
    <ConfirmDialog
      title={t.title(shown.name)}
      requestsLastDay={shown.requests_last_day}
      confirm={t.confirm}
      onConfirm={async () => {
        await revoke.mutateAsync({ params: { id: shown.id } });
        showToast(t.done(shown.name));
      }}
      onClose={onClose}
    >
      <p>{t.breaks}</p>
      <p>{t.forGood}</p>
    </ConfirmDialog>
  );
}
