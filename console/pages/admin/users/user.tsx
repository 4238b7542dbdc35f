/** One user: profile, keys, money and usage in tabs for administrators, the ledger alone for auditors. */

import { useApi } from "../../../data.ts";
import type { PageProps } from "../../../page-props.ts";
import { useUser } from "../../../session.tsx";
import { useText } from "../../../text/text.tsx";
import { Awaited } from "../../../ui/awaited.tsx";
import { Page, PageHeader } from "../../../ui/page.tsx";
import { Tabs } from "../../../ui/tabs.tsx";
import { Badge } from "../../../ui/values.tsx";
import { Subscriptions } from "../plans/subscriptions.tsx";
import type { UserDetail } from "./user-detail.ts";
import { UserMenu } from "./user-menu.tsx";
import { UserMoney } from "./user-money.tsx";
import { UserOverview } from "./user-overview.tsx";
import { UserSupport } from "./user-support.tsx";

export default function UserPage({ params: { id = "" } }: PageProps) {
  const t = useText("adminUsers");
  const query = useApi("admin.users.get", { params: { id } });
  const user = query.data;
  const isAdmin = useUser().role === "admin";
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
            <Badge tone={user.role === "user" ? "plain" : "accent"}>{t.roles[user.role]}</Badge>
            {user.status === "disabled" && <Badge tone="bad">{t.disabled}</Badge>}
            {isAdmin && <UserMenu user={user} />}
          </>
        }
      />
      {isAdmin ? <UserTabs user={user} /> : <UserMoney user={user} />}
    </Page>
  );
}

function UserTabs({ user }: { user: UserDetail }) {
  const t = useText("adminUsers");
  return (
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
  );
}
