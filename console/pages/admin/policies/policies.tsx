/** The list of request policies. */

import { useState } from "react";
import type { ListRow } from "../../../api.ts";
import { useList } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { LinkButton } from "../../../ui/button.tsx";
import { EmptyState } from "../../../ui/notice.tsx";
import { Page, PageHeader } from "../../../ui/page.tsx";
import { SearchBox } from "../../../ui/search.tsx";
import { type Column, Table } from "../../../ui/table.tsx";
import { Count } from "../../../ui/values.tsx";

type Policy = ListRow<"admin.request_policies.list">;

export default function PoliciesPage() {
  const t = useText("adminPolicies");
  const [search, setSearch] = useState("");
  const policies = useList("admin.request_policies.list", { query: { search } }, { keepPrevious: true });
  const columns = usePolicyColumns();
  const create = (
    <LinkButton to="/admin/policies/-/new" tone="primary" icon="add" isNew>
      {t.create}
    </LinkButton>
  );
  return (
    <Page>
      <PageHeader title={t.title} about={t.about} actions={create} />
      <div className="row">
        <SearchBox label={t.search} onSearch={setSearch} />
      </div>
      <Table
        label={t.title}
        rows={policies}
        rowKey={({ document }) => document.name}
        href={({ document }) => `/admin/policies/${encodeURIComponent(document.name)}`}
        columns={columns}
        empty={
          search === "" ? (
            <EmptyState icon="shield" title={t.noneYet} actions={create}>
              <p>{t.noneText}</p>
            </EmptyState>
          ) : (
            <EmptyState icon="search" title={t.notFound} />
          )
        }
      />
    </Page>
  );
}

function usePolicyColumns(): readonly Column<Policy>[] {
  const t = useText("adminPolicies");
  const kit = useText("kit");
  return [
    { key: "name", header: t.columns.name, kind: "primary", cell: ({ document }) => document.name },
    {
      key: "rules",
      header: t.columns.rules,
      cell: ({ document: { name: _, self_service: __, ...rules } }) => (
        <span className="soft">{Object.keys(rules).join(", ") || t.none}</span>
      ),
    },
    {
      key: "self",
      header: t.columns.selfService,
      cell: ({ document }) => (document.self_service ? kit.yes : kit.no),
    },
    { key: "groups", header: t.columns.groups, kind: "end", cell: ({ groups }) => <Count value={groups} /> },
    { key: "keys", header: t.columns.keys, kind: "end", cell: ({ keys }) => <Count value={keys} /> },
  ];
}
