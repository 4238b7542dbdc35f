/** One-time links that an administrator creates and passes on. A link is shown once. */

import { useState } from "react";
import type { ResponseBody } from "../../../api.ts";
import { useChange } from "../../../data.ts";
import { useSession } from "../../../session.tsx";
import { useText } from "../../../text/text.tsx";
import { Button } from "../../../ui/button.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { CheckboxField, SelectField, TextField } from "../../../ui/field.tsx";
import { CancelButton, Form, useForm } from "../../../ui/form.tsx";
import { Notice } from "../../../ui/notice.tsx";
import { CodeBlock, Time } from "../../../ui/values.tsx";

export type MadeLink = ResponseBody<"admin.links.create"> & { wantedMail: boolean };
const ROLES = ["user", "auditor", "admin"] as const;

export function InviteDialog({ onClose }: { onClose(): void }) {
  const t = useText("adminUsers");
  return (
    <LinkDialog title={t.link.invite} onClose={onClose} purpose="invite">
      <p className="soft">{t.link.inviteAbout}</p>
    </LinkDialog>
  );
}

interface LinkDialogProps {
  title: string;
  purpose: "invite" | "reset" | "sign_in";
  /** The user of the link; an invitation has a field for the address. */
  email?: string;
  children?: React.ReactNode;
  onClose(): void;
}

export function LinkDialog({ title, purpose, email, children, onClose }: LinkDialogProps) {
  const t = useText("adminUsers");
  const { mail } = useSession();
  const [made, setMade] = useState<MadeLink | null>(null);
  const create = useChange("admin.links.create", { invalidates: ["admin.links."] });
  const form = useForm(
    { email: email ?? "", role: "user" as (typeof ROLES)[number], mail },
    async (values) => {
      const body = { purpose, email: values.email.trim(), role: values.role, mail: values.mail };
      setMade({ ...(await create.mutateAsync({ body })), wantedMail: values.mail });
    },
  );
  if (made !== null) return <ShownLink made={made} email={form.values.email} onClose={onClose} />;
  return (
    <Dialog title={title} onClose={onClose}>
      <Form form={form} submit={t.link.make} atEnd actions={<CancelButton onClick={onClose} />}>
        {children}
        {email === undefined ? (
          <TextField {...form.bind("email")} type="email" label={t.email} />
        ) : (
          <p>{t.link.for(email)}</p>
        )}
        {purpose === "invite" && (
          <SelectField
            {...form.bind("role")}
            label={t.role}
            hint={t.roleHint}
            choices={ROLES.map((value) => ({ value, label: t.roles[value] }))}
          />
        )}
        {mail && <CheckboxField {...form.bind("mail")} label={t.link.mail} />}
      </Form>
    </Dialog>
  );
}

export function ShownLink({ made, email, onClose }: { made: MadeLink; email: string; onClose(): void }) {
  const t = useText("adminUsers").link;
  const kit = useText("kit");
  return (
    <Dialog title={t.shown}>
      <div className="stack">
        <p>{t.for(email)}</p>
        <CodeBlock code={made.url} label={t.shown} wrap />
        <Notice tone="warn">
          <p>{t.once}</p>
        </Notice>
        {made.wantedMail && <p>{made.mailed ? t.mailed : t.notMailed}</p>}
        <p className="soft">
          {t.expires} <Time at={made.expires_at} exact />
        </p>
        <div className="form-actions end">
          <Button tone="primary" onClick={onClose}>
            {kit.done}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
