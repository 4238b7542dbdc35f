import { useState } from "react";
import type { ListRow } from "../../api.ts";
import { Spark } from "../../charts/small.tsx";
import { useList } from "../../data.ts";
import { useText } from "../../text/text.tsx";
import { Button } from "../../ui/button.tsx";
import { Segments } from "../../ui/field.tsx";
import { EmptyState } from "../../ui/notice.tsx";
import { Page, PageHeader } from "../../ui/page.tsx";
import { SearchBox } from "../../ui/search.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { Count, Money, Time } from "../../ui/values.tsx";
import { CreateKeyDialog } from "./create-key.tsx";
import { KeyHint, KeyStatus } from "./key-values.tsx";
import "./keys.css";

type Key = ListRow<"keys.list">;

const FILTERS = ["active", "revoked", "all"] as const;

/** New requests appear while the page is open. */
const REFRESH_MS = 10_000;

export default function KeysPage() {
  const t = useText("keys");
  const [search, setSearch] = useState("");
  const [status, setStatus] = useState<(typeof FILTERS)[number]>("active");
  const [isCreating, setCreating] = useState(false);
  const keys = useList(
    "keys.list",
    { query: { status, ...(search === "" ? {} : { search }) } },
    { refreshMs: REFRESH_MS },
  );
  const create = (
    <Button tone="primary" icon="add" isNew onClick={() => setCreating(true)}>
      {t.create}
    </Button>
  );
  const isFirst = search === "" && status !== "revoked";
  const columns = useKeyColumns();
  return (
    <Page>
      <PageHeader title={t.title} about={t.about} actions={create} />
      <div className="row apart">
        <SearchBox label={t.search} onSearch={setSearch} />
        <Segments
          label={t.show}
          value={status}
          choices={FILTERS.map((value) => ({ value, label: t.filter[value] }))}
          onChange={(chosen) => setStatus(chosen)}
        />
      </div>
      <Table
        label={t.title}
        rows={keys}
        rowKey={({ id }) => id}
        href={({ id }) => `/keys/${id}`}
        columns={columns}
        empty={
          isFirst ? (
            <EmptyState
              icon="key"
              title={t.none.title}
              actions={
                <Button tone="primary" icon="add" onClick={() => setCreating(true)}>
                  {t.create}
                </Button>
              }
            >
              <p>{t.none.text}</p>
            </EmptyState>
          ) : (
            <Nothing {...(search === "" ? t.noneRevoked : t.noneFound)} />
          )
        }
      />
      {isCreating && <CreateKeyDialog onClose={() => setCreating(false)} />}
    </Page>
  );
}

function useKeyColumns(): readonly Column<Key>[] {
  const t = useText("keys");
  return [
    {
      key: "name",
      header: t.columns.name,
      kind: "primary",
      cell: (key) => (
        <span className="key-name">
          <span className="breakable">{key.name}</span>
          <KeyHint {...key} />
        </span>
      ),
    },
    {
      key: "group",
      header: t.columns.group,
      cell: ({ group }) => <span className="named">{group}</span>,
    },
    { key: "status", header: t.columns.status, cell: (key) => <KeyStatus status={key.status} /> },
    { key: "used", header: t.columns.lastUsed, cell: (key) => <Time at={key.last_used_at} /> },
    {
      key: "requests",
      header: t.columns.requests,
      kind: "end",
      cell: ({ usage }) => (
        <span className="key-use">
          <Spark values={usage.requests_by_day} label={t.requestsIn30Days(usage.requests)} />
          <Count value={usage.requests} />
        </span>
      ),
    },
    {
      key: "spend",
      header: t.columns.spend,
      kind: "end",
      cell: ({ usage }) => <Money value={usage.charged} />,
    },
    { key: "expires", header: t.columns.expires, cell: (key) => <Time at={key.expires_at} /> },
  ];
}

function Nothing({ title, text }: { title: string; text: string }) {
  return (
    <EmptyState icon="search" title={title}>
      <p>{text}</p>
    </EmptyState>
  );
}
