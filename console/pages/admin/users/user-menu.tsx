/** The actions of an administrator on one user: a menu, and a dialog for each action. */

import { useState } from "react";
import { useLocation } from "wouter";
import { useChange } from "../../../data.ts";
import { useUser } from "../../../session.tsx";
import { useText } from "../../../text/text.tsx";
import { ConfirmDialog, Dialog } from "../../../ui/dialog.tsx";
import { SelectField } from "../../../ui/field.tsx";
import { CancelButton, Form, useForm } from "../../../ui/form.tsx";
import { Menu, MenuItem } from "../../../ui/menu.tsx";
import { useProblemToast, useToast } from "../../../ui/toast.tsx";
import { LinkDialog } from "./link-dialog.tsx";
import { ResetAccessDialog } from "./reset-access.tsx";
import type { UserDetail } from "./user-detail.ts";

type Action = "disable" | "role" | "reset" | "sign_in" | "factor" | "access" | "delete";

export function UserMenu({ user }: { user: UserDetail }) {
  const t = useText("adminUsers");
  const self = useUser();
  const [action, setAction] = useState<Action | null>(null);
  const enable = useEnableUser(user);
  return (
    <>
      <Menu label={t.user.more} icon="more">
        <MenuItem icon="link" onClick={() => setAction("reset")}>
          {t.link.reset}
        </MenuItem>
        <MenuItem icon="key" onClick={() => setAction("sign_in")}>
          {t.link.signIn}
        </MenuItem>
        {user.has_second_factor && (
          <MenuItem icon="shield" onClick={() => setAction("factor")}>
            {t.user.removeFactor}
          </MenuItem>
        )}
        {self.id !== user.id && <OtherUserItems user={user} onAction={setAction} onEnable={enable} />}
      </Menu>
      {action !== null && <ActionDialog action={action} user={user} onClose={() => setAction(null)} />}
    </>
  );
}

interface OtherUserItemsProps {
  user: UserDetail;
  onAction(action: Action): void;
  onEnable(): void;
}

/** Items that an administrator cannot use on their own account. */
function OtherUserItems({ user, onAction, onEnable }: OtherUserItemsProps) {
  const t = useText("adminUsers").user;
  return (
    <>
      <MenuItem icon="user" onClick={() => onAction("role")}>
        {t.changeRole}
      </MenuItem>
      <MenuItem icon="lock" tone="danger" onClick={() => onAction("access")}>
        {t.resetAccess}
      </MenuItem>
      {user.status === "active" ? (
        <MenuItem icon="pause" tone="danger" onClick={() => onAction("disable")}>
          {t.disable}
        </MenuItem>
      ) : (
        <MenuItem icon="play" onClick={onEnable}>
          {t.enable}
        </MenuItem>
      )}
      <MenuItem icon="trash" tone="danger" onClick={() => onAction("delete")}>
        {t.delete}
      </MenuItem>
    </>
  );
}

/** Used by the menu, which stays: the item is replaced as soon as the user is enabled. */
function useEnableUser({ id, email }: UserDetail): () => void {
  const t = useText("adminUsers").user;
  const showToast = useToast();
  const showProblem = useProblemToast();
  const change = useChangeUser();
  return () =>
    change.mutate(
      { params: { id }, body: { status: "active" } },
      { onSuccess: () => showToast(t.enabled(email)), onError: showProblem },
    );
}

interface DialogProps {
  user: UserDetail;
  onClose(): void;
}

function ActionDialog({ action, user, onClose }: DialogProps & { action: Action }) {
  const t = useText("adminUsers").link;
  const { email } = user;
  switch (action) {
    case "reset":
      return <LinkDialog title={t.reset} purpose="reset" email={email} onClose={onClose} />;
    case "sign_in":
      return <LinkDialog title={t.signIn} purpose="sign_in" email={email} onClose={onClose} />;
    case "access":
      return <ResetAccessDialog user={user} onClose={onClose} />;
    case "disable":
      return <DisableDialog user={user} onClose={onClose} />;
    case "role":
      return <RoleDialog user={user} onClose={onClose} />;
    case "factor":
      return <RemoveFactorDialog user={user} onClose={onClose} />;
    case "delete":
      return <DeleteDialog user={user} onClose={onClose} />;
  }
}

function DisableDialog({ user: { id, email, keys }, onClose }: DialogProps) {
  const t = useText("adminUsers").user;
  const change = useChangeUser();
  return (
    <ConfirmDialog
      title={t.disabling.title(email)}
      confirm={t.disable}
      onClose={onClose}
      onConfirm={() => change.mutateAsync({ params: { id }, body: { status: "disabled" } })}
    >
      <p>{t.disabling.text}</p>
      {keys > 0 && <p>{t.disabling.keys(keys)}</p>}
    </ConfirmDialog>
  );
}

const ROLES = ["user", "auditor", "admin"] as const;

function RoleDialog({ user: { id, email, local_role: role }, onClose }: DialogProps) {
  const users = useText("adminUsers");
  const t = users.user;
  const change = useChangeUser();
  const form = useForm({ role }, async (body) => {
    await change.mutateAsync({ params: { id }, body });
    onClose();
  });
  return (
    <Dialog title={t.role.title(email)} onClose={onClose}>
      <Form form={form} submit={t.changeRole} atEnd actions={<CancelButton onClick={onClose} />}>
        <SelectField
          {...form.bind("role")}
          label={users.role}
          choices={ROLES.map((value) => ({ value, label: users.roles[value] }))}
        />
        <p>{t.role[form.values.role]}</p>
      </Form>
    </Dialog>
  );
}

function RemoveFactorDialog({ user: { id, email }, onClose }: DialogProps) {
  const t = useText("adminUsers").user;
  const removeFactor = useChange("admin.users.remove_second_factor", { invalidates: ["admin.users."] });
  return (
    <ConfirmDialog
      title={t.factor.title(email)}
      confirm={t.removeFactor}
      onClose={onClose}
      onConfirm={() => removeFactor.mutateAsync({ params: { id } })}
    >
      <p>{t.factor.text}</p>
    </ConfirmDialog>
  );
}

function DeleteDialog({ user: { id, email, keys }, onClose }: DialogProps) {
  const t = useText("adminUsers").user;
  const [, go] = useLocation();
  const remove = useChange("admin.users.delete", { invalidates: ["admin.users.list"] });
  return (
    <ConfirmDialog
      title={t.deleting.title(email)}
      typed={email}
      confirm={t.delete}
      onClose={onClose}
      onConfirm={async () => {
        await remove.mutateAsync({ params: { id } });
        go("/admin/users");
      }}
    >
      <p>{t.deleting.text}</p>
      {keys > 0 && <p>{t.disabling.keys(keys)}</p>}
    </ConfirmDialog>
  );
}

function useChangeUser() {
  return useChange("admin.users.change", { invalidates: ["admin.users."] });
}
