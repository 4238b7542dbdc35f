/** The subscriptions of all users, or of one. */

import { useState } from "react";
import type { ResponseBody } from "../../../api.ts";
import { useChange, useList } from "../../../data.ts";
import { useFormat, useText } from "../../../text/text.tsx";
import { Button, IconButton } from "../../../ui/button.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { SelectField } from "../../../ui/field.tsx";
import { CancelButton, Form, useForm } from "../../../ui/form.tsx";
import { EmptyState } from "../../../ui/notice.tsx";
import { Section } from "../../../ui/page.tsx";
import { SearchBox } from "../../../ui/search.tsx";
import { type Column, Table } from "../../../ui/table.tsx";
import { useToast } from "../../../ui/toast.tsx";
import { Badge } from "../../../ui/values.tsx";
import { GrantDialog } from "./grant-dialog.tsx";

type Subscription = ResponseBody<"admin.subscriptions.list">["data"][number];
const TONES = { running: "good", upcoming: "accent", ended: "soft", cancelled: "soft" } as const;

export function Subscriptions({ user }: { user?: { id: string; email: string } }) {
  const t = useText("adminPlans").subscriptions;
  const [search, setSearch] = useState("");
  const [isGranting, setGranting] = useState(false);
  const [cancelled, setCancelled] = useState<Subscription | null>(null);
  const query = user === undefined ? { search } : { user: user.id };
  const subscriptions = useList("admin.subscriptions.list", { query });
  const grant = (
    <Button icon="add" onClick={() => setGranting(true)}>
      {t.grant}
    </Button>
  );
  const columns = useSubscriptionColumns({ onCancel: setCancelled });
  const userColumn: Column<Subscription> = {
    key: "user",
    header: t.user,
    kind: "primary",
    cell: ({ email }) => email,
  };
  return (
    <Section title={t.title} about={t.about} actions={grant}>
      {user === undefined && (
        <div className="row">
          <SearchBox label={t.search} onSearch={setSearch} />
        </div>
      )}
      <Table<Subscription>
        label={t.title}
        rows={subscriptions}
        rowKey={(one) => one.id}
        {...(user === undefined
          ? { href: (one: Subscription) => `/admin/users/${encodeURIComponent(one.user_id)}` }
          : {})}
        columns={user === undefined ? [userColumn, ...columns] : columns}
        empty={
          <EmptyState icon="ticket" title={t.none.title}>
            <p>{t.none.text}</p>
          </EmptyState>
        }
      />
      {isGranting && <GrantDialog email={user?.email ?? null} onClose={() => setGranting(false)} />}
      {cancelled !== null && <CancelDialog one={cancelled} onClose={() => setCancelled(null)} />}
    </Section>
  );
}

interface SubscriptionColumnsInput {
  onCancel(subscription: Subscription): void;
}

function useSubscriptionColumns({ onCancel }: SubscriptionColumnsInput): readonly Column<Subscription>[] {
  const t = useText("adminPlans").subscriptions;
  return [
    { key: "plan", header: t.plan, cell: (one) => one.plan },
    {
      key: "standing",
      header: t.standing,
      cell: (one) => <Badge tone={TONES[one.standing]}>{t.standings[one.standing]}</Badge>,
    },
    { key: "term", header: t.term, cell: (one) => <Term one={one} /> },
    { key: "renews", header: t.renews, cell: (one) => t.renewals[one.renews] },
    { key: "left", header: t.left, cell: (one) => <Left one={one} /> },
    {
      key: "tools",
      header: t.cancel,
      kind: "tools",
      cell: (one) =>
        isOpen(one) && (
          <IconButton
            small
            icon="close"
            label={t.cancelPlan(one.plan, one.email)}
            onClick={() => onCancel(one)}
          />
        ),
    },
  ];
}

function isOpen({ standing }: Subscription): boolean {
  return standing === "running" || standing === "upcoming";
}

function Term({ one }: { one: Subscription }) {
  const t = useText("adminPlans").subscriptions;
  const format = useFormat();
  const until = one.ends_at === null ? t.noEnd : t.until(format.date(one.ends_at));
  return (
    <span>{one.standing === "upcoming" ? `${t.from(format.date(one.starts_at))}, ${until}` : until}</span>
  );
}

function Left({ one }: { one: Subscription }) {
  const plans = useText("adminPlans");
  const format = useFormat();
  if (one.windows.length === 0) return <span className="soft">–</span>;
  return (
    <span>
      {one.windows.map(({ per, remaining, limit }) => (
        <div key={per} className="number">
          {plans.subscriptions.remaining(format.money(remaining), format.money(limit), plans.per[per])}
        </div>
      ))}
    </span>
  );
}

const WHENS = ["now", "term_end"] as const;

function CancelDialog({ one, onClose }: { one: Subscription; onClose(): void }) {
  const t = useText("adminPlans").subscriptions;
  const showToast = useToast();
  const cancel = useChange("admin.subscriptions.cancel", {
    invalidates: ["admin.subscriptions.", "admin.plans."],
  });
  const form = useForm({ when: "now" as (typeof WHENS)[number] }, async ({ when }) => {
    await cancel.mutateAsync({ params: { id: one.id }, body: { when } });
    showToast(t.cancelled);
    onClose();
  });
  return (
    <Dialog title={t.cancelling(one.plan, one.email)} onClose={onClose}>
      <Form
        form={form}
        submit={t.cancelPlan(one.plan, one.email)}
        tone="danger"
        atEnd
        actions={<CancelButton onClick={onClose} />}
      >
        <p>{t.cancelText}</p>
        <SelectField
          {...form.bind("when")}
          label={t.when}
          choices={WHENS.map((value) => ({
            value,
            label: t.whens[value],
            disabled: value === "term_end" && one.ends_at === null,
          }))}
        />
      </Form>
    </Dialog>
  );
}
