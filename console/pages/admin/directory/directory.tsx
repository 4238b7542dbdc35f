/** People who sign in at a provider, and rejected sign-ins with their reason. */

import { useState } from "react";
import type { ResponseBody } from "../../../api.ts";
import { useApi, useChange, useList } from "../../../data.ts";
import { useSession } from "../../../session.tsx";
import { useText } from "../../../text/text.tsx";
import { Button, IconButton } from "../../../ui/button.tsx";
import { ConfirmDialog } from "../../../ui/dialog.tsx";
import { EmptyState, Notice, ProblemNotice } from "../../../ui/notice.tsx";
import { Page, PageHeader, Section } from "../../../ui/page.tsx";
import { type Column, Table } from "../../../ui/table.tsx";
import { useToast } from "../../../ui/toast.tsx";
import { Badge, Time } from "../../../ui/values.tsx";
import { Pushes } from "./pushes.tsx";

type Person = ResponseBody<"admin.directory.list">["data"][number];
type Rejection = ResponseBody<"admin.directory.rejected">["data"][number];

export default function DirectoryPage() {
  const t = useText("adminDirectory");
  const { providers } = useSession();
  return (
    <Page>
      <PageHeader
        title={t.title}
        about={providers.length === 0 ? t.noProvider : t.about(providers.join(", "))}
      />
      <Losses />
      <Pushes />
      <People />
      <Rejections />
    </Page>
  );
}

/** Providers that lost many people at once, with the action that restores them. */
function Losses() {
  const t = useText("adminDirectory").losses;
  const { data } = useApi("admin.directory.losses");
  const showToast = useToast();
  const restore = useChange("admin.directory.restore", {
    invalidates: ["admin.directory."],
    onDone: ({ people, keys }) => showToast(t.done(people, keys)),
  });
  return data?.data.map(({ provider, suspended, people, from_at: at }) => (
    <Notice key={provider} tone="bad" title={t.title(provider)}>
      <p>
        {t.text(suspended, people)} <Time at={at} />
      </p>
      <div>
        <Button isBusy={restore.isPending} onClick={() => restore.mutate({ body: { provider } })}>
          {t.restore(suspended)}
        </Button>
      </div>
      {restore.error !== null && <ProblemNotice error={restore.error} />}
    </Notice>
  ));
}

function People() {
  const t = useText("adminDirectory");
  const people = useList("admin.directory.list");
  const [unlinked, setUnlinked] = useState<Person | null>(null);
  const columns: readonly Column<Person>[] = [
    {
      key: "email",
      header: t.person,
      kind: "primary",
      cell: ({ email }) => <span className="breakable">{email}</span>,
    },
    { key: "provider", header: t.provider, cell: ({ provider }) => provider },
    {
      key: "subject",
      header: t.subject,
      cell: ({ subject }) => <code className="small breakable">{subject}</code>,
    },
    { key: "signedIn", header: t.signedIn, cell: ({ signed_in_at: at }) => <Time at={at} /> },
    { key: "pushed", header: t.origin, isMinor: true, cell: ({ pushed }) => t.origins[pushed] },
    { key: "state", header: t.state, cell: (person) => <PersonState person={person} /> },
    {
      key: "tools",
      header: t.tools,
      kind: "tools",
      cell: (person) => (
        <IconButton small icon="trash" label={t.unlink(person.email)} onClick={() => setUnlinked(person)} />
      ),
    },
  ];
  return (
    <Section title={t.people}>
      <Table
        label={t.people}
        rows={people}
        rowKey={({ id }) => id}
        href={({ id }) => `/admin/users/${id}`}
        columns={columns}
        empty={
          <EmptyState icon="users" title={t.noPeople.title}>
            <p>{t.noPeople.text}</p>
          </EmptyState>
        }
      />
      {unlinked !== null && <UnlinkDialog person={unlinked} onClose={() => setUnlinked(null)} />}
    </Section>
  );
}

function PersonState({ person }: { person: Person }) {
  const t = useText("adminDirectory");
  const { suspended_at: suspendedAt, suspended_keys: keys, pushed } = person;
  if (pushed === "removed" || pushed === "deactivated")
    return <Badge tone="bad">{t.pushedStates[pushed]}</Badge>;
  if (suspendedAt !== null) return <Badge tone="bad">{t.suspended}</Badge>;
  return keys > 0 ? (
    <Badge tone="warn">{t.suspendedKeys(keys)}</Badge>
  ) : (
    <Badge tone="good">{t.active}</Badge>
  );
}

function UnlinkDialog({ person: { id, email }, onClose }: { person: Person; onClose(): void }) {
  const t = useText("adminDirectory");
  const unlink = useChange("admin.directory.unlink", { invalidates: ["admin.directory.", "admin.users."] });
  return (
    <ConfirmDialog
      title={t.unlink(email)}
      confirm={t.unlinking.confirm}
      onClose={onClose}
      onConfirm={() => unlink.mutateAsync({ params: { id } })}
    >
      <p>{t.unlinking.text}</p>
    </ConfirmDialog>
  );
}

function Rejections() {
  const t = useText("adminDirectory");
  const rejections = useList("admin.directory.rejected");
  const columns: readonly Column<Rejection>[] = [
    { key: "at", header: t.at, cell: ({ at }) => <Time at={at} /> },
    {
      key: "person",
      header: t.person,
      kind: "primary",
      cell: ({ email, subject }) => <span className="breakable">{email ?? subject ?? t.unknown}</span>,
    },
    { key: "provider", header: t.provider, cell: ({ provider }) => provider },
    { key: "code", header: t.code, cell: ({ code }) => <code className="small">{code}</code> },
    { key: "reason", header: t.reason, cell: ({ reason }) => <span className="breakable">{reason}</span> },
  ];
  return (
    <Section title={t.rejected} about={t.aboutRejected}>
      <Table
        label={t.rejected}
        rows={rejections}
        rowKey={({ at, address, reason }) => `${at} ${address} ${reason}`}
        columns={columns}
        empty={<EmptyState icon="check" title={t.noRejected} />}
      />
    </Section>
  );
}
