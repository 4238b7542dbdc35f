/** Creates or invites a user. */

import { useLocation } from "wouter";
import { useChange } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { SelectField, TextField } from "../../../ui/field.tsx";
import { CancelButton, Form, useForm } from "../../../ui/form.tsx";
import { GroupsField } from "./groups-field.tsx";

const ROLES = ["user", "auditor", "admin"] as const;

export function AddUser({ onClose }: { onClose(): void }) {
  const t = useText("adminUsers");
  const kit = useText("kit");
  const [, go] = useLocation();
  const create = useChange("admin.users.create", { invalidates: ["admin.users."] });
  const form = useForm(
    { email: "", role: "user" as (typeof ROLES)[number], groups: [] as readonly string[] },
    async ({ email, role, groups }) => {
      const made = await create.mutateAsync({ body: { email: email.trim(), role, groups: [...groups] } });
      go(`/admin/users/${encodeURIComponent(made.id)}`);
    },
  );
  return (
    <Dialog title={t.adding.title} onClose={onClose}>
      <Form form={form} submit={kit.add} atEnd actions={<CancelButton onClick={onClose} />}>
        <p className="soft">{t.adding.about}</p>
        <TextField {...form.bind("email")} type="email" label={t.email} />
        <SelectField
          {...form.bind("role")}
          label={t.role}
          hint={t.roleHint}
          choices={ROLES.map((value) => ({ value, label: t.roles[value] }))}
        />
        <GroupsField {...form.bind("groups")} />
      </Form>
    </Dialog>
  );
}
