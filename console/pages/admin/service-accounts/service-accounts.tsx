/** The service accounts: programs that call the console API under their own name. */

import { useState } from "react";
import { useChange, useList } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Button, IconButton } from "../../../ui/button.tsx";
import { ConfirmDialog } from "../../../ui/dialog.tsx";
import { EmptyState } from "../../../ui/notice.tsx";
import { Page, PageHeader } from "../../../ui/page.tsx";
import { type Column, Table } from "../../../ui/table.tsx";
import { Badge, Money, Time, useNow } from "../../../ui/values.tsx";
import type { ServiceAccount } from "./service-account.ts";
import { ServiceAccountDialog } from "./service-account-dialog.tsx";
import { TokenDialog } from "./token-dialog.tsx";

type OpenDialog =
  | { kind: "new" }
  | { kind: "edit" | "delete"; account: ServiceAccount }
  | { kind: "token"; name: string };

const TICK_MS = 60_000;

export default function ServiceAccountsPage() {
  const t = useText("adminServiceAccounts");
  const [open, setOpen] = useState<OpenDialog | null>(null);
  const accounts = useList("admin.service_accounts.list");
  const columns = useColumns({ onOpen: setOpen });
  const create = (
    <Button tone="primary" icon="add" isNew onClick={() => setOpen({ kind: "new" })}>
      {t.create}
    </Button>
  );
  return (
    <Page>
      <PageHeader title={t.title} about={t.about} actions={create} />
      <Table
        label={t.title}
        rows={accounts}
        rowKey={({ id }) => id}
        columns={columns}
        empty={
          <EmptyState icon="server" title={t.none.title} actions={create}>
            <p>{t.none.text}</p>
          </EmptyState>
        }
      />
      {open !== null && <OpenedDialog open={open} onOpen={setOpen} onClose={() => setOpen(null)} />}
    </Page>
  );
}

interface OpenedDialogProps {
  open: OpenDialog;
  onOpen(dialog: OpenDialog): void;
  onClose(): void;
}

function OpenedDialog({ open, onOpen, onClose }: OpenedDialogProps) {
  switch (open.kind) {
    case "new":
      return (
        <ServiceAccountDialog
          account={null}
          onClose={onClose}
          // A new account is of no use without a token.
          onSaved={(name) => onOpen({ kind: "token", name })}
        />
      );
    case "edit":
      return <ServiceAccountDialog account={open.account} onClose={onClose} onSaved={onClose} />;
    case "token":
      return <TokenDialog key={open.name} name={open.name} onClose={onClose} />;
    case "delete":
      return <DeleteDialog account={open.account} onClose={onClose} />;
  }
}

function DeleteDialog({ account: { name, tokens }, onClose }: { account: ServiceAccount; onClose(): void }) {
  const t = useText("adminServiceAccounts");
  const kit = useText("kit");
  const remove = useChange("admin.service_accounts.delete", { invalidates: ["admin.service_accounts."] });
  return (
    <ConfirmDialog
      title={t.deleting.title(name)}
      confirm={kit.delete}
      onClose={onClose}
      onConfirm={() => remove.mutateAsync({ params: { name } })}
    >
      <p>{t.deleting.text(tokens.length)}</p>
    </ConfirmDialog>
  );
}

function useColumns({ onOpen }: { onOpen(dialog: OpenDialog): void }): readonly Column<ServiceAccount>[] {
  const t = useText("adminServiceAccounts");
  const nowMs = useNow(TICK_MS);
  return [
    {
      key: "name",
      header: t.name,
      kind: "primary",
      cell: ({ name }) => <span className="breakable">{name}</span>,
    },
    {
      key: "scopes",
      header: t.scopes,
      cell: ({ scopes }) => (
        <span className="row">
          {scopes.map((scope) => (
            <Badge key={scope} tone="plain">
              {scope}
            </Badge>
          ))}
        </span>
      ),
    },
    { key: "today", header: t.today, kind: "end", cell: (account) => <ToppedUp account={account} /> },
    {
      key: "token",
      header: t.token,
      cell: ({ tokens: [newest] }) =>
        newest === undefined ? (
          <Badge tone="warn">{t.noToken}</Badge>
        ) : (
          <code className="small nowrap">gws_…{newest.last4}</code>
        ),
    },
    {
      key: "used",
      header: t.used,
      cell: ({ tokens }) => <Time at={Math.max(0, ...tokens.map(({ used_at }) => used_at ?? 0)) || null} />,
    },
    {
      key: "expires",
      header: t.expires,
      cell: ({ expires_at: at }) =>
        at !== null && at <= nowMs ? <Badge tone="warn">{t.expired}</Badge> : <Time at={at} />,
    },
    {
      key: "tools",
      header: t.tools,
      kind: "tools",
      cell: (account) => <AccountTools account={account} onOpen={onOpen} />,
    },
  ];
}

interface AccountToolsProps {
  account: ServiceAccount;
  onOpen(dialog: OpenDialog): void;
}

function AccountTools({ account, onOpen }: AccountToolsProps) {
  const t = useText("adminServiceAccounts");
  return (
    <span className="nowrap">
      <IconButton
        small
        icon="key"
        label={t.newToken(account.name)}
        onClick={() => onOpen({ kind: "token", name: account.name })}
      />
      <IconButton
        small
        icon="edit"
        label={t.editing(account.name)}
        onClick={() => onOpen({ kind: "edit", account })}
      />
      <IconButton
        small
        icon="trash"
        label={t.deleteOne(account.name)}
        onClick={() => onOpen({ kind: "delete", account })}
      />
    </span>
  );
}

/** What was topped up today, and the bound. */
function ToppedUp({ account: { bounds, topped_up_today } }: { account: ServiceAccount }) {
  if (bounds === null) return "–";
  return (
    <span className="nowrap">
      <Money value={topped_up_today} /> / <Money value={bounds.usd_per_day} />
    </span>
  );
}
