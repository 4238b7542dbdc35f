/** Resets a user's access: ends sessions and creates a link. */

import { useState } from "react";
import { useChange } from "../../../data.ts";
import { useSession } from "../../../session.tsx";
import { useText } from "../../../text/text.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { CheckboxField } from "../../../ui/field.tsx";
import { CancelButton, Form, useForm } from "../../../ui/form.tsx";
import { type MadeLink, ShownLink } from "./link-dialog.tsx";
import type { UserDetail } from "./user-detail.ts";

/** For a compromised account: ends all access at once, and creates a link for the owner. */
export function ResetAccessDialog({ user, onClose }: { user: UserDetail; onClose(): void }) {
  const t = useText("adminUsers");
  const { mail } = useSession();
  const [made, setMade] = useState<MadeLink | null>(null);
  const reset = useChange("admin.users.reset_access", { invalidates: ["admin.users.", "admin.links."] });
  const form = useForm({ mail }, async (values) => {
    const done = await reset.mutateAsync({ params: { id: user.id }, body: { mail: values.mail } });
    setMade({ ...done, wantedMail: values.mail });
  });
  if (made !== null) return <ShownLink made={made} email={user.email} onClose={onClose} />;
  return (
    <Dialog title={t.user.resetting.title(user.email)} onClose={onClose}>
      <Form
        form={form}
        submit={t.user.resetAccess}
        tone="danger"
        atEnd
        actions={<CancelButton onClick={onClose} />}
      >
        <p>{t.user.resetting.text}</p>
        {user.keys > 0 && <p>{t.user.disabling.keys(user.keys)}</p>}
        {mail && <CheckboxField {...form.bind("mail")} label={t.link.mail} />}
      </Form>
    </Dialog>
  );
}
