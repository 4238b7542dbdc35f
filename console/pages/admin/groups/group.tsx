/** One group on one page: everything that its keys are granted, with a preview beside it. */

import { useState } from "react";
import { useLocation } from "wouter";
import type { ResponseBody } from "../../../api.ts";
import { useApi, useChange } from "../../../data.ts";
import type { PageProps } from "../../../page-props.ts";
import { useText } from "../../../text/text.tsx";
import { Awaited } from "../../../ui/awaited.tsx";
import { Button } from "../../../ui/button.tsx";
import { ConfirmDialog } from "../../../ui/dialog.tsx";
import { useForm } from "../../../ui/form.tsx";
import { Page, PageHeader, Stat, Stats } from "../../../ui/page.tsx";
import { useToast } from "../../../ui/toast.tsx";
import { Money } from "../../../ui/values.tsx";
import { keysLink, usageLink } from "../list-links.ts";
import { CountLink } from "../name-links.tsx";
import { GroupEditor } from "./group-editor.tsx";
import { GroupMembers } from "./group-members.tsx";
import { groupDocument, groupValues, NEW_GROUP } from "./group-values.ts";
import "./group.css";

type Group = ResponseBody<"admin.groups.get">;

export default function GroupPage({ params: { name } }: PageProps) {
  return name === undefined ? <NewGroup /> : <PresentGroup name={name} />;
}

function NewGroup() {
  const t = useText("adminGroups");
  const [, go] = useLocation();
  const create = useChange("admin.groups.create", { invalidates: ["admin.", "groups."] });
  const form = useForm(NEW_GROUP, async (values) => {
    const { document } = await create.mutateAsync({ body: groupDocument(values) });
    go(`/admin/groups/${encodeURIComponent(document.name)}`);
  });
  return (
    <Page>
      <PageHeader title={t.newTitle} about={t.newAbout} back={{ to: "/admin/groups", label: t.title }} />
      <GroupEditor form={form} isNew />
    </Page>
  );
}

function PresentGroup({ name }: { name: string }) {
  const t = useText("adminGroups");
  const group = useApi("admin.groups.get", { params: { name } });
  if (group.data) return <SavedGroup key={name} group={group.data} />;
  return (
    <Page>
      <PageHeader title={name} back={{ to: "/admin/groups", label: t.title }} />
      <Awaited query={group} height={240} />
    </Page>
  );
}

function SavedGroup({ group }: { group: Group }) {
  const t = useText("adminGroups");
  const showToast = useToast();
  const [isDeleting, setDeleting] = useState(false);
  // The version that the form was opened with. A later one was saved by another administrator.
  const [version, setVersion] = useState(group.version);
  const { name } = group.document;
  const save = useChange("admin.groups.save", { invalidates: ["admin.", "groups."] });
  const form = useForm(groupValues(group.document), async (values) => {
    const saved = await save.mutateAsync({
      params: { name },
      body: { document: groupDocument(values), version },
    });
    setVersion(saved.version);
    form.reset(groupValues(saved.document));
    showToast(t.saved);
  });
  return (
    <Page>
      <PageHeader
        title={name}
        about={t.one}
        back={{ to: "/admin/groups", label: t.title }}
        actions={
          <Button icon="trash" onClick={() => setDeleting(true)}>
            {t.delete}
          </Button>
        }
      />
      <Stats>
        <Stat
          label={t.columns.keys}
          value={<CountLink to={keysLink({ group: name })} value={group.keys} />}
        />
        <Stat
          label={t.columns.requests}
          value={<CountLink to={usageLink({ group: name }, "day")} value={group.requests_last_day} />}
          note={group.failed_last_day > 0 ? t.failed(group.failed_last_day) : null}
        />
        <Stat label={t.columns.charged} value={<Money value={group.charged_last_day} />} />
      </Stats>
      {version !== group.version && !form.isSending && (
        <OtherVersion
          onTake={() => {
            setVersion(group.version);
            form.reset(groupValues(group.document));
          }}
        />
      )}
      <GroupEditor form={form} />
      {form.values.access === "members" && <GroupMembers name={name} />}
      {isDeleting && <DeleteGroup group={group} onClose={() => setDeleting(false)} />}
    </Page>
  );
}

function OtherVersion({ onTake }: { onTake(): void }) {
  const t = useText("adminGroups");
  return (
    <div className="notice warn" role="status">
      <div>
        <p>{t.otherVersion}</p>
        <div>
          <Button small icon="refresh" onClick={onTake}>
            {t.takeOther}
          </Button>
        </div>
      </div>
    </div>
  );
}

function DeleteGroup({ group, onClose }: { group: Group; onClose(): void }) {
  const t = useText("adminGroups");
  const showToast = useToast();
  const [, go] = useLocation();
  const { name } = group.document;
  const remove = useChange("admin.groups.delete", { invalidates: ["admin.groups.list", "groups.", "keys."] });
  return (
    <ConfirmDialog
      title={t.deleteTitle(name)}
      confirm={t.delete}
      typed={name}
      requestsLastDay={group.requests_last_day}
      onClose={onClose}
      onConfirm={async () => {
        await remove.mutateAsync({ params: { name } });
        showToast(t.deleted(name));
        go("/admin/groups");
      }}
    >
      <p>{t.deleteBreaks(group.keys)}</p>
      <p className="soft">{t.deleteKeeps}</p>
    </ConfirmDialog>
  );
}
