/** The list of users. */

import { useState } from "react";
import { useSearch } from "wouter";
import type { ListRow } from "../../../api.ts";
import { useList } from "../../../data.ts";
import { useUser } from "../../../session.tsx";
import { useText } from "../../../text/text.tsx";
import { Button, Link } from "../../../ui/button.tsx";
import { Segments } from "../../../ui/field.tsx";
import { EmptyState } from "../../../ui/notice.tsx";
import { Page, PageHeader } from "../../../ui/page.tsx";
import { SearchBox } from "../../../ui/search.tsx";
import { type Column, Table } from "../../../ui/table.tsx";
import { Badge, Count, Money, Time } from "../../../ui/values.tsx";
import { GroupRestriction, useGroupFilter } from "../group-filter.tsx";
import { keysLink, usageLink } from "../list-links.ts";
import { CountLink } from "../name-links.tsx";
import { AddUser } from "./add-user.tsx";
import { InviteDialog } from "./link-dialog.tsx";
import { OpenLinks } from "./open-links.tsx";

type User = ListRow<"admin.users.list">;

const FILTERS = {
  all: {},
  admins: { role: "admin" },
  auditors: { role: "auditor" },
  disabled: { status: "disabled" },
} as const;
type Filter = keyof typeof FILTERS;

export default function UsersPage() {
  const t = useText("adminUsers");
  const [search, setSearch] = useState("");
  const inGroup = useGroupFilter();
  const [filter, setFilter] = useState<Filter>("all");
  const wanted = new URLSearchParams(useSearch()).get("open");
  const [open, setOpen] = useState<"add" | "invite" | null>(wanted === "invite" ? wanted : null);
  const users = useList("admin.users.list", { query: { search, ...inGroup.query, ...FILTERS[filter] } });
  const isFiltered = search !== "" || filter !== "all" || inGroup.group !== "";
  const isAdmin = useUser().role === "admin";
  const columns = useUserColumns({ isAdmin });
  return (
    <Page>
      <PageHeader
        title={t.title}
        about={t.about}
        actions={
          isAdmin && (
            <>
              <Button icon="mail" onClick={() => setOpen("invite")}>
                {t.invite}
              </Button>
              <Button tone="primary" icon="add" isNew onClick={() => setOpen("add")}>
                {t.add}
              </Button>
            </>
          )
        }
      />
      <div className="row">
        <SearchBox label={t.search} onSearch={setSearch} />
        <Segments<Filter>
          label={t.show}
          value={filter}
          onChange={setFilter}
          choices={(["all", "admins", "auditors", "disabled"] as const).map((value) => ({
            value,
            label: t.filter[value],
          }))}
        />
      </div>
      <GroupRestriction filter={inGroup} />
      <Table
        label={t.title}
        rows={users}
        rowKey={(user) => user.id}
        href={(user) => `/admin/users/${encodeURIComponent(user.id)}`}
        columns={columns}
        empty={
          <EmptyState icon="users" title={isFiltered ? t.noneFound.title : t.none.title}>
            <p>{isFiltered ? t.noneFound.text : t.none.text}</p>
          </EmptyState>
        }
      />
      {isAdmin && <OpenLinks />}
      {open === "add" && <AddUser onClose={() => setOpen(null)} />}
      {open === "invite" && <InviteDialog onClose={() => setOpen(null)} />}
    </Page>
  );
}

function useUserColumns({ isAdmin }: { isAdmin: boolean }): readonly Column<User>[] {
  const t = useText("adminUsers");
  return [
    { key: "email", header: t.email, kind: "primary", cell: (user) => user.email },
    {
      key: "role",
      header: t.role,
      cell: (user) => (
        <span className="row">
          <Badge tone={user.role === "user" ? "plain" : "accent"}>{t.roles[user.role]}</Badge>
          {user.status === "disabled" && <Badge tone="bad">{t.disabled}</Badge>}
        </span>
      ),
    },
    {
      key: "balance",
      header: t.balance,
      kind: "end",
      cell: (user) => <Money isLeft value={user.balance} />,
    },
    {
      key: "keys",
      header: t.keys,
      kind: "end",
      cell: ({ id, keys }) =>
        isAdmin ? <CountLink to={keysLink({ user: id })} value={keys} /> : <Count value={keys} />,
    },
    {
      key: "spend",
      header: t.spend,
      kind: "end",
      cell: (user) => (
        <Link to={usageLink({ user: user.id }, "month")}>
          <Money value={user.cost_30d} />
        </Link>
      ),
    },
    { key: "signedIn", header: t.signedIn, cell: (user) => <Time at={user.signed_in_at} /> },
  ];
}
