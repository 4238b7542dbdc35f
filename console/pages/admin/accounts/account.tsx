/** One account: its health, its cost and revenue, and its settings. */

import { useState } from "react";
import type { ResponseBody } from "../../../api.ts";
import { useApi, useChange } from "../../../data.ts";
import type { PageProps } from "../../../page-props.ts";
import { useFormat, useText } from "../../../text/text.tsx";
import { Awaited } from "../../../ui/awaited.tsx";
import { Link } from "../../../ui/button.tsx";
import { Form, useForm } from "../../../ui/form.tsx";
import { InterfaceNames } from "../../../ui/interface-names.tsx";
import { Notice } from "../../../ui/notice.tsx";
import { Card, Facts, Page, PageHeader, Section } from "../../../ui/page.tsx";
import { Table } from "../../../ui/table.tsx";
import { useToast } from "../../../ui/toast.tsx";
import { Count, Money, Time } from "../../../ui/values.tsx";
import { AccountActions } from "./account-actions.tsx";
import { AccountFields } from "./account-form.tsx";
import { AccountModels } from "./account-models.tsx";
import { AccountState } from "./account-state.tsx";
import {
  accountDocument,
  accountValues,
  buildCredentialField,
  findKind,
  type KindFacts,
} from "./account-values.ts";

type Account = ResponseBody<"admin.accounts.get">;

const REFRESH_MS = 2_000;

export default function AccountPage({ params }: PageProps) {
  const t = useText("adminAccounts");
  const { name = "" } = params;
  const account = useApi("admin.accounts.get", { params: { name } }, { refreshMs: REFRESH_MS });
  const vendors = useApi("admin.vendors.list");
  const kinds = vendors.data?.kinds;
  return (
    <Page>
      <PageHeader
        title={name}
        about={t.one}
        back={{ to: "/admin/accounts", label: t.title }}
        actions={
          account.data &&
          kinds && (
            <AccountActions account={account.data} kind={findKind(kinds, account.data.document.kind)} />
          )
        }
      />
      {account.data ? (
        <>
          <Now account={account.data} />
          <CostAgainstCharges account={account.data} />
          {kinds ? (
            <Settings key={name} account={account.data} kinds={kinds} />
          ) : (
            <Awaited query={vendors} height={240} />
          )}
        </>
      ) : (
        <Awaited query={account} height={240} />
      )}
    </Page>
  );
}

function Now({ account }: { account: Account }) {
  const { facts, groups, document, interfaces, created_at: createdAt } = account;
  const t = useText("adminAccounts");
  return (
    <Section title={t.facts.title}>
      <Card>
        <Facts
          facts={[
            [t.columns.state, <AccountState key="state" facts={facts} />],
            [t.columns.inFlight, <Count key="inFlight" value={facts.in_flight} />],
            [t.form.kind, t.kinds[document.kind]],
            [t.columns.interfaces, <InterfaceNames key="interfaces" {...interfaces} />],
            ...(document.base_url === undefined
              ? []
              : [
                  [
                    t.form.baseUrl,
                    <code key="url" className="breakable">
                      {document.base_url}
                    </code>,
                  ] as const,
                ]),
            [
              t.columns.groups,
              groups.length === 0 ? (
                t.inNoGroup
              ) : (
                <span key="groups" className="row">
                  {groups.map((group) => (
                    <Link key={group} to={`/admin/groups/${encodeURIComponent(group)}`}>
                      {group}
                    </Link>
                  ))}
                </span>
              ),
            ],
            [t.since, <Time key="since" at={createdAt} />],
          ]}
        />
      </Card>
      <AccountModels models={facts.models} />
    </Section>
  );
}

function CostAgainstCharges({ account: { usage, usage_since: since } }: { account: Account }) {
  const t = useText("adminAccounts").usage;
  const format = useFormat();
  const longest = Math.max(...usage.map(({ days }) => days));
  const isCut = since > Date.now() - (longest - 1) * 86_400_000;
  return (
    <Section title={t.title} about={t.about}>
      <Table
        label={t.title}
        rows={usage}
        rowKey={({ days }) => String(days)}
        columns={[
          { key: "days", header: t.span, kind: "primary", cell: ({ days }) => t.days(days) },
          { key: "requests", header: t.requests, kind: "end", cell: (row) => <Count value={row.requests} /> },
          { key: "failed", header: t.failed, kind: "end", cell: (row) => <Count value={row.failed} /> },
          { key: "upstream", header: t.upstream, kind: "end", cell: (row) => <Money value={row.upstream} /> },
          { key: "cost", header: t.cost, kind: "end", cell: (row) => <Money value={row.cost} /> },
          { key: "charged", header: t.charged, kind: "end", cell: (row) => <Money value={row.charged} /> },
          {
            key: "margin",
            header: t.margin,
            kind: "end",
            cell: (row) => <Money value={row.margin} />,
          },
        ]}
        empty={null}
      />
      {isCut && <Notice>{t.since(format.dateTime(since))}</Notice>}
    </Section>
  );
}

function Settings({ account, kinds }: { account: Account; kinds: readonly KindFacts[] }) {
  const t = useText("adminAccounts");
  const showToast = useToast();
  const [version, setVersion] = useState(account.version);
  const { name } = account.document;
  const save = useChange("admin.accounts.save", { invalidates: ["admin."] });
  const form = useForm(accountValues(account.document, kinds), async (values) => {
    const saved = await save.mutateAsync({
      params: { name },
      body: {
        // Enabling is done by the buttons above, and may have happened since.
        document: accountDocument({ ...values, enabled: account.document.enabled ?? true }),
        ...buildCredentialField(values),
        version,
      },
    });
    setVersion(saved.version);
    form.reset(accountValues(saved.document, kinds));
    showToast(t.form.saved);
  });
  return (
    <Section title={t.settings}>
      <Card>
        <Form form={form} submit={t.form.save}>
          <AccountFields form={form} kinds={kinds} isNew={false} hasCredential={account.has_credential} />
        </Form>
      </Card>
    </Section>
  );
}
