/** The wallet of a user. Administrators can also move money. */

import { useState } from "react";
import { useChange, useList } from "../../../data.ts";
import { useUser } from "../../../session.tsx";
import { useFormat, useText } from "../../../text/text.tsx";
import { Button, Link } from "../../../ui/button.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { TextField } from "../../../ui/field.tsx";
import { CancelButton, Form, useForm } from "../../../ui/form.tsx";
import { EmptyState } from "../../../ui/notice.tsx";
import { Section, Stat, Stats } from "../../../ui/page.tsx";
import { Table } from "../../../ui/table.tsx";
import { useToast } from "../../../ui/toast.tsx";
import { Money, Time } from "../../../ui/values.tsx";
import type { UserDetail } from "./user-detail.ts";

type Deed = "adjust" | "top_up" | "refund";

export function UserMoney({ user }: { user: UserDetail }) {
  const users = useText("adminUsers");
  const t = users.money;
  const isAdmin = useUser().role === "admin";
  const [deed, setDeed] = useState<Deed | null>(null);
  const ledger = useList("wallet.ledger", { query: { user: user.id } });
  return (
    <div className="stack wide">
      <Stats>
        <Stat label={users.balance} value={<Money isLeft value={user.balance} />} />
        <Stat label={users.held} value={<Money value={user.held} />} />
        {Number(user.debt) > 0 && <Stat label={users.debt} value={<Money value={user.debt} />} />}
      </Stats>
      <Section title={t.ledger} actions={isAdmin && <MoneyButtons onChoose={setDeed} />}>
        <Table
          label={t.ledger}
          rows={ledger}
          rowKey={(entry) => entry.id}
          columns={[
            { key: "kind", header: t.kind, kind: "primary", cell: (entry) => t.kinds[entry.kind] },
            { key: "at", header: t.at, cell: (entry) => <Time at={entry.at} exact /> },
            { key: "amount", header: t.amount, kind: "end", cell: (entry) => <Money value={entry.amount} /> },
            {
              key: "why",
              header: t.why,
              cell: (entry) => (
                <span className="breakable">
                  {entry.reason}
                  {entry.request_id !== null && (
                    <Link to={`/requests/${encodeURIComponent(entry.request_id)}`}>
                      <code className="small">{entry.request_id}</code>
                    </Link>
                  )}
                  {entry.paid_by === "subscription" && (
                    <span className="small soft"> {t.bySubscription}</span>
                  )}
                </span>
              ),
            },
          ]}
          empty={
            <EmptyState icon="coins" title={t.nothing.title}>
              <p>{t.nothing.text}</p>
            </EmptyState>
          }
        />
      </Section>
      {deed === "refund" && <RefundDialog onClose={() => setDeed(null)} />}
      {(deed === "adjust" || deed === "top_up") && (
        <MoneyDialog key={deed} deed={deed} user={user} onClose={() => setDeed(null)} />
      )}
    </div>
  );
}

function MoneyButtons({ onChoose }: { onChoose(deed: Deed): void }) {
  const t = useText("adminUsers").money;
  return (
    <>
      <Button icon="add" onClick={() => onChoose("top_up")}>
        {t.topUp}
      </Button>
      <Button icon="edit" onClick={() => onChoose("adjust")}>
        {t.adjust}
      </Button>
      <Button icon="refresh" onClick={() => onChoose("refund")}>
        {t.refund}
      </Button>
    </>
  );
}

/** Created when the dialog opens, so that sending twice books once. */
function useIdempotencyKey(): string {
  const [key] = useState(() => crypto.randomUUID());
  return key;
}

function useBooked(onClose: () => void) {
  const t = useText("adminUsers").money;
  const format = useFormat();
  const showToast = useToast();
  return ({ amount, repeated }: { amount: string; repeated: boolean }) => {
    showToast(repeated ? t.repeated : t.booked(format.money(amount)));
    onClose();
  };
}

const CHANGED = ["admin.users.", "wallet."] as const;

function MoneyDialog({
  deed,
  user,
  onClose,
}: {
  deed: "adjust" | "top_up";
  user: UserDetail;
  onClose(): void;
}) {
  const t = useText("adminUsers").money;
  const idempotency_key = useIdempotencyKey();
  const booked = useBooked(onClose);
  const adjust = useChange("admin.money.adjust", { invalidates: CHANGED });
  const topUp = useChange("admin.money.top_up", { invalidates: CHANGED });
  const form = useForm({ amount: "", provider: "invoice", reason: "" }, async ({ provider, ...rest }) => {
    const params = { id: user.id };
    const order = { amount: rest.amount.trim(), reason: rest.reason, idempotency_key };
    booked(
      deed === "adjust"
        ? await adjust.mutateAsync({ params, body: order })
        : await topUp.mutateAsync({ params, body: { ...order, provider: provider.trim() } }),
    );
  });
  const title = deed === "adjust" ? t.adjusting : t.toppingUp;
  return (
    <Dialog title={title} onClose={onClose}>
      <Form form={form} submit={title} atEnd actions={<CancelButton onClick={onClose} />}>
        <p>{user.email}</p>
        <TextField
          {...form.bind("amount")}
          label={deed === "adjust" ? t.signedAmount : t.amount}
          inputMode="decimal"
          placeholder={deed === "adjust" ? "-5.00" : "20.00"}
        />
        {deed === "top_up" && (
          <TextField {...form.bind("provider")} label={t.provider} hint={t.providerHint} />
        )}
        <TextField {...form.bind("reason")} label={t.reason} hint={t.reasonHint} maxLength={500} />
      </Form>
    </Dialog>
  );
}

function RefundDialog({ onClose }: { onClose(): void }) {
  const t = useText("adminUsers").money;
  const idempotency_key = useIdempotencyKey();
  const booked = useBooked(onClose);
  const refund = useChange("admin.money.refund", { invalidates: CHANGED });
  const form = useForm({ requestId: "", amount: "", reason: "" }, async ({ requestId, amount, reason }) => {
    const body = { reason, idempotency_key, ...(amount.trim() === "" ? {} : { amount: amount.trim() }) };
    booked(await refund.mutateAsync({ params: { id: requestId.trim() }, body }));
  });
  return (
    <Dialog title={t.refunding} onClose={onClose}>
      <Form form={form} submit={t.refunding} atEnd actions={<CancelButton onClick={onClose} />}>
        <p className="soft">{t.refundingAbout}</p>
        <TextField {...form.bind("requestId", "id")} label={t.requestId} isMono placeholder="req_…" />
        <TextField
          {...form.bind("amount")}
          label={t.refundAmount}
          hint={t.refundAmountHint}
          inputMode="decimal"
          optional
        />
        <TextField {...form.bind("reason")} label={t.reason} hint={t.reasonHint} maxLength={500} />
      </Form>
    </Dialog>
  );
}
