/** Creates a token of a service account, which is shown once. */

import { useState } from "react";
import { useChange } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Dialog, ShownOnceDialog } from "../../../ui/dialog.tsx";
import { SelectField } from "../../../ui/field.tsx";
import { CancelButton, Form, useForm } from "../../../ui/form.tsx";
import { CodeBlock } from "../../../ui/values.tsx";

const HOUR_MS = 3_600_000;
const OVERLAPS = { none: 0, hour: HOUR_MS, day: 24 * HOUR_MS, week: 168 * HOUR_MS } as const;
type Overlap = keyof typeof OVERLAPS;

export function TokenDialog({ name, onClose }: { name: string; onClose(): void }) {
  const t = useText("adminServiceAccounts").newTokenDialog;
  const create = useChange("admin.service_accounts.create_token", {
    invalidates: ["admin.service_accounts."],
  });
  const [secret, setSecret] = useState<string | null>(null);
  const form = useForm({ overlap: "day" as Overlap }, async ({ overlap }) => {
    const made = await create.mutateAsync({ params: { name }, body: { overlap_ms: OVERLAPS[overlap] } });
    setSecret(made.secret);
  });
  if (secret !== null) {
    return (
      <ShownOnceDialog title={t.made} warning={t.once} done={t.done} onClose={onClose}>
        <CodeBlock code={secret} label={t.secret} wrap />
      </ShownOnceDialog>
    );
  }
  return (
    <Dialog title={t.title(name)} onClose={onClose}>
      <Form form={form} submit={t.submit} atEnd actions={<CancelButton onClick={onClose} />}>
        <p>{t.text}</p>
        <SelectField
          {...form.bind("overlap", "overlap_ms")}
          label={t.overlap}
          choices={(["none", "hour", "day", "week"] as const).map((value) => ({
            value,
            label: t.overlaps[value],
          }))}
        />
      </Form>
    </Dialog>
  );
}
