/** The personal access tokens of the user. */

import { useState } from "react";
import type { ResponseBody } from "../../api.ts";
import { useApi, useChange, wholeList } from "../../data.ts";
import { useGatewayOrigin, useUser } from "../../session.tsx";
import { useText } from "../../text/text.tsx";
import { Button } from "../../ui/button.tsx";
import { ConfirmDialog, Dialog, ShownOnceDialog } from "../../ui/dialog.tsx";
import { SelectField, TextField } from "../../ui/field.tsx";
import { CancelButton, Form, useForm } from "../../ui/form.tsx";
import { EmptyState } from "../../ui/notice.tsx";
import { Section } from "../../ui/page.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { useToast } from "../../ui/toast.tsx";
import { Badge, CodeBlock, Time, useNow } from "../../ui/values.tsx";

type Token = ResponseBody<"tokens.list">["data"][number];

const DAY_MS = 86_400_000;
const EXPIRIES = ["30", "90", "365", "never"] as const;
const SCOPES = ["read", "keys", "admin", "export"] as const;
const ADMIN_SCOPES: readonly string[] = ["admin", "export"];
const TICK_MS = 60_000;

export function TokensSection() {
  const t = useText("profile").tokens;
  const tokens = useApi("tokens.list");
  const [isMaking, setMaking] = useState(false);
  const [revoking, setRevoking] = useState<Token | null>(null);
  const columns = useTokenColumns({ onRevoke: setRevoking });
  const make = (
    <Button icon="add" onClick={() => setMaking(true)}>
      {t.create}
    </Button>
  );
  const rows = tokens.data?.data ?? [];
  return (
    <Section title={t.title} about={t.about} actions={rows.length > 0 && make}>
      <Table
        label={t.title}
        rows={wholeList(tokens)}
        rowKey={({ id }) => id}
        empty={
          <EmptyState icon="code" title={t.none} actions={make}>
            <p>{t.noneText}</p>
          </EmptyState>
        }
        columns={columns}
      />
      {isMaking && <NewToken onClose={() => setMaking(false)} />}
      {revoking !== null && <RevokeToken token={revoking} onClose={() => setRevoking(null)} />}
    </Section>
  );
}

function useTokenColumns({ onRevoke }: { onRevoke(token: Token): void }): readonly Column<Token>[] {
  const t = useText("profile").tokens;
  const nowMs = useNow(TICK_MS);
  return [
    {
      key: "name",
      header: t.name,
      kind: "primary",
      cell: ({ name }) => <span className="breakable">{name}</span>,
    },
    {
      key: "token",
      header: t.token,
      cell: ({ last4 }) => <code className="small nowrap">gwp_…{last4}</code>,
    },
    {
      key: "scope",
      header: t.scope,
      cell: ({ scope }) => <Badge tone="plain">{t.scopes[scope]}</Badge>,
    },
    { key: "used", header: t.used, cell: ({ used_at: at }) => <Time at={at} /> },
    {
      key: "expires",
      header: t.until,
      cell: ({ expires_at: at }) =>
        at !== null && at <= nowMs ? <Badge tone="warn">{t.expired}</Badge> : <Time at={at} />,
    },
    {
      key: "tools",
      header: t.tools,
      kind: "tools",
      cell: (token) => (
        <Button small onClick={() => onRevoke(token)}>
          {t.revoke}
        </Button>
      ),
    },
  ];
}

function RevokeToken({ token, onClose }: { token: Token; onClose(): void }) {
  const t = useText("profile").tokens;
  const showToast = useToast();
  const revoke = useChange("tokens.revoke", { invalidates: ["tokens."] });
  return (
    <ConfirmDialog
      title={t.revokeTitle}
      confirm={t.revoke}
      onClose={onClose}
      onConfirm={async () => {
        await revoke.mutateAsync({ params: { id: token.id } });
        showToast(t.revoked);
      }}
    >
      <p className="breakable">{t.revokeText(token.name)}</p>
    </ConfirmDialog>
  );
}

function NewToken({ onClose }: { onClose: () => void }) {
  const t = useText("profile").tokens;
  const { role } = useUser();
  const scopes = SCOPES.filter((scope) => !ADMIN_SCOPES.includes(scope) || role === "admin");
  const create = useChange("tokens.create", { invalidates: ["tokens."] });
  const [secret, setSecret] = useState<string | null>(null);
  const form = useForm(
    { name: "", scope: "read" as (typeof SCOPES)[number], expires: "90" as (typeof EXPIRIES)[number] },
    async ({ name, scope, expires }) => {
      const expiresAt = expires === "never" ? null : Date.now() + Number(expires) * DAY_MS;
      const made = await create.mutateAsync({ body: { name, scope, expires_at: expiresAt } });
      setSecret(made.secret);
    },
  );
  if (secret !== null) return <ShownToken secret={secret} onClose={onClose} />;
  return (
    <Dialog title={t.create} onClose={onClose}>
      <Form form={form} submit={t.submit} actions={<CancelButton onClick={onClose} />} atEnd>
        <TextField {...form.bind("name")} label={t.name} hint={t.nameHint} maxLength={64} />
        <SelectField
          {...form.bind("scope")}
          label={t.scope}
          hint={t.scopeHint}
          choices={scopes.map((value) => ({ value, label: t.scopeChoices[value] }))}
        />
        <SelectField
          {...form.bind("expires", "expires_at")}
          label={t.expires}
          choices={EXPIRIES.map((value) => ({ value, label: t.expiry[value] }))}
        />
      </Form>
    </Dialog>
  );
}

function ShownToken({ secret, onClose }: { secret: string; onClose: () => void }) {
  const t = useText("profile").tokens.made;
  const origin = useGatewayOrigin();
  return (
    <ShownOnceDialog title={t.title} warning={t.once} done={t.done} onClose={onClose}>
      <CodeBlock code={secret} label={t.secret} wrap />
      <CodeBlock
        code={`curl ${origin}/api/session \\\n  -H "Authorization: Bearer $TOKEN"`}
        label={t.example}
        language="bash"
      />
    </ShownOnceDialog>
  );
}
