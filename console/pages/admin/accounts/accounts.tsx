/** The list of upstream accounts. */

import { useState } from "react";
import { useLocation } from "wouter";
import type { ListRow } from "../../../api.ts";
import { useApi, useChange, useList } from "../../../data.ts";
import { useFormat, useText } from "../../../text/text.tsx";
import { Awaited } from "../../../ui/awaited.tsx";
import { Button } from "../../../ui/button.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { CancelButton, Form, useForm } from "../../../ui/form.tsx";
import { InterfaceNames } from "../../../ui/interface-names.tsx";
import { EmptyState } from "../../../ui/notice.tsx";
import { Page, PageHeader } from "../../../ui/page.tsx";
import { SearchBox } from "../../../ui/search.tsx";
import { type Column, Table } from "../../../ui/table.tsx";
import { Count, Money } from "../../../ui/values.tsx";
import { GroupRestriction, useGroupFilter } from "../group-filter.tsx";
import { usageLink } from "../list-links.ts";
import { CountLink, NameLinks } from "../name-links.tsx";
import { AccountFields } from "./account-form.tsx";
import { AccountState, type Facts } from "./account-state.tsx";
import { accountDocument, buildCredentialField, type KindFacts, newAccount } from "./account-values.ts";

type Account = ListRow<"admin.accounts.list">;

const REFRESH_MS = 3_000;

export default function AccountsPage() {
  const t = useText("adminAccounts");
  const [search, setSearch] = useState("");
  const filter = useGroupFilter();
  const [isAdding, setAdding] = useState(false);
  const accounts = useList(
    "admin.accounts.list",
    { query: { search, ...filter.query } },
    { refreshMs: REFRESH_MS, keepPrevious: true },
  );
  const add = (
    <Button tone="primary" icon="add" isNew onClick={() => setAdding(true)}>
      {t.add}
    </Button>
  );
  const columns = useAccountColumns();
  return (
    <Page>
      <PageHeader title={t.title} about={t.about} actions={add} />
      <div className="row">
        <SearchBox label={t.search} onSearch={setSearch} />
      </div>
      <GroupRestriction filter={filter} />
      <Table
        label={t.title}
        rows={accounts}
        rowKey={({ document }) => document.name}
        href={({ document }) => `/admin/accounts/${encodeURIComponent(document.name)}`}
        columns={columns}
        empty={
          search === "" && filter.group === "" ? (
            <EmptyState icon="plug" title={t.none} actions={add}>
              <p>{t.noneYet}</p>
            </EmptyState>
          ) : (
            <EmptyState icon="search" title={t.notFound} />
          )
        }
      />
      {isAdding && <AddAccount onClose={() => setAdding(false)} />}
    </Page>
  );
}

function useAccountColumns(): readonly Column<Account>[] {
  const t = useText("adminAccounts");
  const format = useFormat();
  return [
    { key: "name", header: t.columns.name, kind: "primary", cell: ({ document }) => document.name },
    { key: "state", header: t.columns.state, cell: ({ facts }) => <AccountState facts={facts} /> },
    {
      key: "interfaces",
      header: t.columns.interfaces,
      cell: ({ interfaces }) => <InterfaceNames {...interfaces} isShort />,
    },
    {
      key: "groups",
      header: t.columns.groups,
      cell: ({ groups }) => <NameLinks names={groups} under="/admin/groups" none={t.inNoGroup} />,
    },
    {
      key: "inFlight",
      header: t.columns.inFlight,
      kind: "end",
      cell: ({ facts }) => <Count value={facts.in_flight} />,
    },
    {
      key: "latency",
      header: t.columns.latency,
      kind: "end",
      cell: ({ facts }) => {
        const ms = worstLatency(facts);
        return ms === null ? "" : format.duration(ms);
      },
    },
    {
      key: "errors",
      header: t.columns.errors,
      kind: "end",
      cell: ({ facts }) => (facts.models.length === 0 ? "" : format.percent(worstErrors(facts))),
    },
    {
      key: "requests",
      header: t.columns.requests,
      kind: "end",
      cell: (row) => (
        <CountLink to={usageLink({ account: row.document.name }, "day")} value={day(row).requests} />
      ),
    },
    {
      key: "cost",
      header: t.columns.cost,
      kind: "end",
      cell: (row) => <Money value={day(row).upstream} />,
    },
    {
      key: "charged",
      header: t.columns.charged,
      kind: "end",
      cell: (row) => <Money value={day(row).charged} />,
    },
  ];
}

function AddAccount({ onClose }: { onClose(): void }) {
  const t = useText("adminAccounts");
  const vendors = useApi("admin.vendors.list");
  return (
    <Dialog title={t.add} wide onClose={onClose}>
      {vendors.data ? (
        <NewAccountForm kinds={vendors.data.kinds} onClose={onClose} />
      ) : (
        <Awaited query={vendors} height={480} />
      )}
    </Dialog>
  );
}

function NewAccountForm({ kinds, onClose }: { kinds: readonly KindFacts[]; onClose(): void }) {
  const t = useText("adminAccounts");
  const [, go] = useLocation();
  const create = useChange("admin.accounts.create", { invalidates: ["admin."] });
  const form = useForm(newAccount(kinds), async (values) => {
    const { document } = await create.mutateAsync({
      body: { document: accountDocument(values), ...buildCredentialField(values) },
    });
    onClose();
    go(`/admin/accounts/${encodeURIComponent(document.name)}`);
  });
  return (
    <Form form={form} submit={t.add} atEnd actions={<CancelButton onClick={onClose} />}>
      <AccountFields form={form} kinds={kinds} isNew hasCredential={false} />
    </Form>
  );
}

const NOTHING = { requests: 0, upstream: "0", charged: "0" };

function day({ usage }: Account) {
  return usage.find(({ days }) => days === 1) ?? NOTHING;
}

/** The latency of the slowest model. */
function worstLatency({ models }: Facts): number | null {
  const known = models.flatMap(({ latency_ms: ms }) => ms ?? []);
  return known.length === 0 ? null : Math.max(...known);
}

function worstErrors({ models }: Facts): number {
  return Math.max(...models.map(({ error_share: share }) => share));
}
