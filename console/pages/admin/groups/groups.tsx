/** The list of groups. */

import { useState } from "react";
import type { ListRow } from "../../../api.ts";
import { useList } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Link, LinkButton } from "../../../ui/button.tsx";
import { EmptyState } from "../../../ui/notice.tsx";
import { Page, PageHeader } from "../../../ui/page.tsx";
import { SearchBox } from "../../../ui/search.tsx";
import { type Column, Table } from "../../../ui/table.tsx";
import { Badge, Money } from "../../../ui/values.tsx";
import { groupLink, keysLink, usageLink } from "../list-links.ts";
import { CountLink } from "../name-links.tsx";

type Group = ListRow<"admin.groups.list">;

export default function GroupsPage() {
  const t = useText("adminGroups");
  const [search, setSearch] = useState("");
  const groups = useList("admin.groups.list", { query: { search } }, { keepPrevious: true });
  const create = (
    <LinkButton to="/admin/groups/-/new" tone="primary" icon="add" isNew>
      {t.create}
    </LinkButton>
  );
  const columns = useGroupColumns();
  return (
    <Page>
      <PageHeader title={t.title} about={t.about} actions={create} />
      <div className="row">
        <SearchBox label={t.search} onSearch={setSearch} />
      </div>
      <Table
        label={t.title}
        rows={groups}
        rowKey={(group) => group.name}
        href={(group) => `/admin/groups/${encodeURIComponent(group.name)}`}
        columns={columns}
        empty={
          search === "" ? (
            <EmptyState icon="group" title={t.none} actions={create}>
              <p>{t.noneYet}</p>
            </EmptyState>
          ) : (
            <EmptyState icon="search" title={t.notFound} />
          )
        }
      />
    </Page>
  );
}

function useGroupColumns(): readonly Column<Group>[] {
  const t = useText("adminGroups");
  const policy = useText("policy");
  return [
    {
      key: "name",
      header: t.columns.name,
      kind: "primary",
      cell: (group) => group.name,
    },
    {
      key: "models",
      header: t.columns.models,
      cell: (group) => (
        <span className="row">
          <Link to={groupLink("models", group.name)}>{t.modelCount(group.models)}</Link>
          {group.hidden_models > 0 && <Badge tone="warn">{t.hidden(group.hidden_models)}</Badge>}
        </span>
      ),
    },
    {
      key: "accounts",
      header: t.columns.accounts,
      cell: (group) => <Accounts group={group} />,
    },
    {
      key: "billing",
      header: t.columns.billing,
      cell: (group) => (
        <span className="soft">
          {policy.charges[group.charge]}
          {group.multiplier !== "1" && ` × ${group.multiplier}`}
        </span>
      ),
    },
    {
      key: "keys",
      header: t.columns.keys,
      kind: "end",
      cell: (group) => <CountLink to={keysLink({ group: group.name })} value={group.keys} />,
    },
    {
      key: "members",
      header: t.columns.members,
      kind: "end",
      cell: (group) =>
        group.access === "everyone" ? (
          policy.everyone
        ) : (
          <CountLink to={groupLink("users", group.name)} value={group.members} />
        ),
    },
    {
      key: "requests",
      header: t.columns.requests,
      kind: "end",
      cell: (group) => (
        <CountLink to={usageLink({ group: group.name }, "day")} value={group.requests_last_day} />
      ),
    },
    {
      key: "charged",
      header: t.columns.charged,
      kind: "end",
      cell: (group) => <Money value={group.charged_last_day} />,
    },
  ];
}

function Accounts({ group }: { group: Group }) {
  const t = useText("adminGroups");
  if (group.accounts > 0 && group.enabled_accounts === 0) return <Badge tone="bad">{t.noneEnabled}</Badge>;
  return (
    <Link to={groupLink("accounts", group.name)}>
      {t.accountCount(group.enabled_accounts, group.accounts)}
    </Link>
  );
}
