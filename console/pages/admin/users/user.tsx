import { useState } from "react";
import { useLocation } from "wouter";
import type { Answer } from "../../../api.ts";
import { useApi, useChange } from "../../../data.ts";
import type { PageProps } from "../../../pages.tsx";
import { useUser } from "../../../session.tsx";
import { useText } from "../../../text/text.tsx";
import { Awaited } from "../../../ui/awaited.tsx";
import { ConfirmDialog } from "../../../ui/dialog.tsx";
import { Menu, MenuItem } from "../../../ui/menu.tsx";
import { Page, PageHeader } from "../../../ui/page.tsx";
import { Tabs } from "../../../ui/tabs.tsx";
import { useProblemToast, useToast } from "../../../ui/toast.tsx";
import { Badge } from "../../../ui/values.tsx";
import { Subscriptions } from "../plans/subscriptions.tsx";
import { LinkDialog } from "./link-dialog.tsx";
import { ResetAccessDialog } from "./reset-access.tsx";
import { UserMoney } from "./user-money.tsx";
import { UserOverview } from "./user-overview.tsx";
import { UserSupport } from "./user-support.tsx";

export type WholeUser = Answer<"admin.users.get">;

export default function UserPage({ params: { id = "" } }: PageProps) {
  const t = useText("adminUsers");
  const query = useApi("admin.users.get", { params: { id } });
  const user = query.data;
  const back = { to: "/admin/users", label: t.user.back };
  if (!user) {
    return (
      <Page>
        <PageHeader title={t.title} back={back} />
        <Awaited query={query} height={240} />
      </Page>
    );
  }
  return (
    <Page>
      <PageHeader
        title={user.email}
        back={back}
        actions={
          <>
            <Badge tone={user.role === "admin" ? "accent" : "plain"}>{t.roles[user.role]}</Badge>
            {user.status === "disabled" && <Badge tone="bad">{t.disabled}</Badge>}
            <UserMenu user={user} />
          </>
        }
      />
      <Tabs
        label={t.user.tabs}
        tabs={[
          { key: "overview", label: t.user.overview, content: <UserOverview key={user.id} user={user} /> },
          { key: "money", label: t.user.money, content: <UserMoney user={user} /> },
          {
            key: "subscriptions",
            label: t.user.subscriptions,
            content: <Subscriptions user={user} />,
          },
          { key: "support", label: t.user.support, content: <UserSupport user={user} /> },
        ]}
      />
    </Page>
  );
}

type Deed = "disable" | "role" | "reset" | "sign_in" | "factor" | "access" | "delete";

function UserMenu({ user }: { user: WholeUser }) {
  const t = useText("adminUsers");
  const self = useUser();
  const [deed, setDeed] = useState<Deed | null>(null);
  const [, go] = useLocation();
  const say = useToast();
  const tellProblem = useProblemToast();
  const invalidates = ["admin.users."] as const;
  const change = useChange("admin.users.change", { invalidates });
  const remove = useChange("admin.users.delete", { invalidates: ["admin.users.list"] });
  const removeFactor = useChange("admin.users.remove_second_factor", { invalidates });
  const { id, email } = user;
  const params = { id };
  const isSelf = self.id === id;
  const nextRole = user.role === "admin" ? "user" : "admin";
  const close = () => setDeed(null);
  return (
    <>
      <Menu label={t.user.more} icon="more">
        <MenuItem icon="link" onClick={() => setDeed("reset")}>
          {t.link.reset}
        </MenuItem>
        <MenuItem icon="key" onClick={() => setDeed("sign_in")}>
          {t.link.signIn}
        </MenuItem>
        {user.has_second_factor && (
          <MenuItem icon="shield" onClick={() => setDeed("factor")}>
            {t.user.removeFactor}
          </MenuItem>
        )}
        {!isSelf && (
          <MenuItem icon="user" onClick={() => setDeed("role")}>
            {nextRole === "admin" ? t.user.makeAdmin : t.user.makeUser}
          </MenuItem>
        )}
        {!isSelf && (
          <MenuItem icon="lock" tone="danger" onClick={() => setDeed("access")}>
            {t.user.resetAccess}
          </MenuItem>
        )}
        {!isSelf &&
          (user.status === "active" ? (
            <MenuItem icon="pause" tone="danger" onClick={() => setDeed("disable")}>
              {t.user.disable}
            </MenuItem>
          ) : (
            <MenuItem
              icon="play"
              onClick={() =>
                change.mutate(
                  { params, body: { status: "active" } },
                  { onSuccess: () => say(t.user.enabled(email)), onError: tellProblem },
                )
              }
            >
              {t.user.enable}
            </MenuItem>
          ))}
        {!isSelf && (
          <MenuItem icon="trash" tone="danger" onClick={() => setDeed("delete")}>
            {t.user.delete}
          </MenuItem>
        )}
      </Menu>
      {deed === "reset" && <LinkDialog title={t.link.reset} purpose="reset" email={email} onClose={close} />}
      {deed === "sign_in" && (
        <LinkDialog title={t.link.signIn} purpose="sign_in" email={email} onClose={close} />
      )}
      {deed === "access" && <ResetAccessDialog user={user} onClose={close} />}
      {deed === "disable" && (
        <ConfirmDialog
          title={t.user.disabling.title(email)}
          confirm={t.user.disable}
          onClose={close}
          onConfirm={() => change.mutateAsync({ params, body: { status: "disabled" } })}
        >
          <p>{t.user.disabling.text}</p>
          {user.keys > 0 && <p>{t.user.disabling.keys(user.keys)}</p>}
        </ConfirmDialog>
      )}
      {deed === "role" && (
        <ConfirmDialog
          title={t.user.role.title(email)}
          tone="primary"
          confirm={nextRole === "admin" ? t.user.makeAdmin : t.user.makeUser}
          onClose={close}
          onConfirm={() => change.mutateAsync({ params, body: { role: nextRole } })}
        >
          <p>{t.user.role[nextRole]}</p>
        </ConfirmDialog>
      )}
      {deed === "factor" && (
        <ConfirmDialog
          title={t.user.factor.title(email)}
          confirm={t.user.removeFactor}
          onClose={close}
          onConfirm={() => removeFactor.mutateAsync({ params })}
        >
          <p>{t.user.factor.text}</p>
        </ConfirmDialog>
      )}
      {deed === "delete" && (
        <ConfirmDialog
          title={t.user.deleting.title(email)}
          typed={email}
          confirm={t.user.delete}
          onClose={close}
          onConfirm={async () => {
            await remove.mutateAsync({ params });
            go("/admin/users");
          }}
        >
          <p>{t.user.deleting.text}</p>
          {user.keys > 0 && <p>{t.user.disabling.keys(user.keys)}</p>}
        </ConfirmDialog>
      )}
    </>
  );
}
