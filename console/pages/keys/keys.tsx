/** The keys of the signed-in user. */

import { useState } from "react";
import { useList } from "../../data.ts";
import { useText } from "../../text/text.tsx";
import { Button } from "../../ui/button.tsx";
import { Segments } from "../../ui/field.tsx";
import { EmptyState } from "../../ui/notice.tsx";
import { Page, PageHeader } from "../../ui/page.tsx";
import { SearchBox } from "../../ui/search.tsx";
import { Table } from "../../ui/table.tsx";
import { CreateKeyDialog } from "./create-key.tsx";
import { useKeyColumns } from "./key-columns.tsx";

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

function Nothing({ title, text }: { title: string; text: string }) {
  return (
    <EmptyState icon="search" title={title}>
      <p>{text}</p>
    </EmptyState>
  );
}
