/** One user, for administrators: profile, keys, money and usage in tabs. */

import { useApi } from "../../../data.ts";
import type { PageProps } from "../../../page-props.ts";
import { useText } from "../../../text/text.tsx";
import { Awaited } from "../../../ui/awaited.tsx";
import { Page, PageHeader } from "../../../ui/page.tsx";
import { Tabs } from "../../../ui/tabs.tsx";
import { Badge } from "../../../ui/values.tsx";
import { Subscriptions } from "../plans/subscriptions.tsx";
import { UserMenu } from "./user-menu.tsx";
import { UserMoney } from "./user-money.tsx";
import { UserOverview } from "./user-overview.tsx";
import { UserSupport } from "./user-support.tsx";

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
