/** The wallet: balance, payers and ledger entries. */

import type { ResponseBody } from "../../api.ts";
import { useApi, useChange, useList } from "../../data.ts";
import { useFormat, useText } from "../../text/text.tsx";
import { Awaited } from "../../ui/awaited.tsx";
import { Link } from "../../ui/button.tsx";
import { TextField } from "../../ui/field.tsx";
import { Form, useForm } from "../../ui/form.tsx";
import { EmptyState, Notice } from "../../ui/notice.tsx";
import { Card, Page, PageHeader, Section, Stat, Stats } from "../../ui/page.tsx";
import { Table } from "../../ui/table.tsx";
import { useToast } from "../../ui/toast.tsx";
import { Count, Money, Time } from "../../ui/values.tsx";
import { Subscriptions } from "./subscriptions.tsx";
import "./wallet.css";

type Wallet = ResponseBody<"wallet.get">;

const REFRESH_MS = 5_000;

export default function WalletPage() {
  const t = useText("wallet");
  const wallet = useApi("wallet.get", {}, { refreshMs: REFRESH_MS });
  return (
    <Page>
      <PageHeader title={t.title} about={t.about} />
      {wallet.data === undefined ? (
        <Awaited query={wallet} height={240} />
      ) : (
        <>
          <Stats>
            <Stat label={t.available} value={<Money isLeft value={wallet.data.available} />} />
            <Stat label={t.balance} value={<Money isLeft value={wallet.data.balance} />} />
            <Stat label={t.held} value={<Money value={wallet.data.held} />} note={t.heldNote} />
          </Stats>
          {Number(wallet.data.debt) > 0 && <Debt amount={wallet.data.debt} />}
          <Redeem />
          <Section title={t.subscriptions.title} about={t.subscriptions.about}>
            {wallet.data.subscriptions.length === 0 ? (
              <Notice tone="info">{t.subscriptions.none}</Notice>
            ) : (
              <Subscriptions subscriptions={wallet.data.subscriptions} />
            )}
          </Section>
          <Payers payers={wallet.data.payers} />
        </>
      )}
      <Holds />
      <Ledger />
    </Page>
  );
}

/** Shown above everything else: paid requests are rejected until the debt is covered. */
function Debt({ amount }: { amount: string }) {
  const t = useText("wallet");
  const format = useFormat();
  return <Notice tone="bad">{t.debt(format.money(amount))}</Notice>;
}

function Redeem() {
  const t = useText("wallet").redeem;
  const format = useFormat();
  const showToast = useToast();
  const redeem = useChange("wallet.redeem", { invalidates: ["wallet."] });
  const form = useForm({ code: "" }, async ({ code }) => {
    const { amount, plan } = await redeem.mutateAsync({ body: { code } });
    form.reset({ code: "" });
    showToast(plan === null ? t.money(format.money(amount ?? "0")) : t.plan(plan));
  });
  return (
    <Section title={t.title} about={t.about}>
      <Card>
        <div className="redeem">
          <Form form={form} submit={t.submit}>
            <TextField {...form.bind("code")} label={t.code} isMono maxLength={100} />
          </Form>
        </div>
      </Card>
    </Section>
  );
}

function Payers({ payers }: Pick<Wallet, "payers">) {
  const t = useText("wallet").payers;
  const describePayer = ({ charge, plans }: Wallet["payers"][number]) => {
    if (charge !== "subscription") return t[charge];
    return plans.length === 0 ? t.noPlan : t.subscription(plans.join(t.followedBy));
  };
  return (
    <Section title={t.title} about={t.about}>
      <Table
        label={t.title}
        rows={payers}
        rowKey={({ group }) => group}
        empty={
          <EmptyState icon="group" title={t.empty}>
            {null}
          </EmptyState>
        }
        columns={[
          {
            key: "group",
            header: t.group,
            kind: "primary",
            cell: ({ group }) => <span className="breakable">{group}</span>,
          },
          {
            key: "payer",
            header: t.payer,
            cell: (payer) => <span className="breakable">{describePayer(payer)}</span>,
          },
          { key: "keys", header: t.keys, kind: "end", cell: ({ keys }) => <Count value={keys} /> },
        ]}
      />
    </Section>
  );
}

/** Shown only while requests are in flight. */
function Holds() {
  const t = useText("wallet").holds;
  const { paidBy } = useText("wallet");
  const holds = useApi("wallet.holds", {}, { refreshMs: REFRESH_MS });
  if (holds.data === undefined || holds.data.data.length === 0) return null;
  return (
    <Section title={t.title} about={t.about}>
      <Table
        label={t.title}
        rows={holds.data.data}
        rowKey={({ request_id: id }) => id}
        empty={null}
        columns={[
          {
            key: "request",
            header: t.request,
            kind: "primary",
            cell: ({ request_id: id }) => <code className="small breakable">{id}</code>,
          },
          {
            key: "model",
            header: t.model,
            cell: ({ model }) => <span className="mono breakable">{model}</span>,
          },
          { key: "since", header: t.since, cell: ({ at }) => <Time at={at} /> },
          { key: "paid", header: t.paidBy, cell: (hold) => paidBy[hold.paid_by] },
          { key: "amount", header: t.amount, kind: "end", cell: ({ amount }) => <Money value={amount} /> },
        ]}
      />
    </Section>
  );
}

function Ledger() {
  const t = useText("wallet").ledger;
  const { paidBy } = useText("wallet");
  const entries = useList("wallet.ledger", {}, { refreshMs: REFRESH_MS });
  return (
    <Section title={t.title} about={t.about}>
      <Table
        label={t.title}
        rows={entries}
        rowKey={({ id }) => id}
        empty={
          <EmptyState icon="coins" title={t.none.title}>
            <p>{t.none.text}</p>
          </EmptyState>
        }
        columns={[
          { key: "at", header: t.time, cell: ({ at }) => <Time at={at} exact /> },
          {
            key: "kind",
            header: t.kind,
            kind: "primary",
            cell: ({ kind, request_id: id }) =>
              id === null ? (
                t.kinds[kind]
              ) : (
                <Link to={`/requests/${encodeURIComponent(id)}`}>{t.kinds[kind]}</Link>
              ),
          },
          {
            key: "reason",
            header: t.reason,
            cell: ({ reason, request_id: id }) => (
              <span className="breakable">{reason ?? <code className="small soft">{id}</code>}</span>
            ),
          },
          { key: "paid", header: t.paidBy, cell: (entry) => paidBy[entry.paid_by] },
          { key: "amount", header: t.amount, kind: "end", cell: ({ amount }) => <Money value={amount} /> },
        ]}
      />
    </Section>
  );
}
