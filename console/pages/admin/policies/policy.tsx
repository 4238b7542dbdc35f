/** One request policy on one page: its rules, and what they would do to a request. */

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
import { Notice } from "../../../ui/notice.tsx";
import { Page, PageHeader, Stat, Stats } from "../../../ui/page.tsx";
import { useToast } from "../../../ui/toast.tsx";
import { Count } from "../../../ui/values.tsx";
import { PolicyEditor } from "./policy-editor.tsx";
import { PolicyTrial } from "./policy-trial.tsx";
import { NEW_POLICY, policyDocument, policyValues } from "./policy-values.ts";

type Policy = ResponseBody<"admin.request_policies.get">;

const LIST = "/admin/policies";

export default function PolicyPage({ params: { name } }: PageProps) {
  return name === undefined ? <NewPolicy /> : <PresentPolicy name={name} />;
}

function NewPolicy() {
  const t = useText("adminPolicies");
  const [, go] = useLocation();
  const create = useChange("admin.request_policies.create", { invalidates: ["admin.request_policies."] });
  const form = useForm(NEW_POLICY, async (values) => {
    const { document } = await create.mutateAsync({ body: policyDocument(values) });
    go(`${LIST}/${encodeURIComponent(document.name)}`);
  });
  return (
    <Page>
      <PageHeader title={t.newTitle} about={t.newAbout} back={{ to: LIST, label: t.title }} />
      <PolicyEditor form={form} isNew />
      <PolicyTrial document={policyDocument(form.values)} />
    </Page>
  );
}

function PresentPolicy({ name }: { name: string }) {
  const t = useText("adminPolicies");
  const policy = useApi("admin.request_policies.get", { params: { name } });
  if (policy.data) return <SavedPolicy key={name} policy={policy.data} />;
  return (
    <Page>
      <PageHeader title={name} back={{ to: LIST, label: t.title }} />
      <Awaited query={policy} height={240} />
    </Page>
  );
}

function SavedPolicy({ policy }: { policy: Policy }) {
  const t = useText("adminPolicies");
  const showToast = useToast();
  const [isDeleting, setDeleting] = useState(false);
  // The version that the form was opened with. A later one was saved by another administrator.
  const [version, setVersion] = useState(policy.version);
  const { name } = policy.document;
  const save = useChange("admin.request_policies.save", { invalidates: ["admin.request_policies."] });
  const form = useForm(policyValues(policy.document), async (values) => {
    const saved = await save.mutateAsync({
      params: { name },
      body: { document: policyDocument(values), version },
    });
    setVersion(saved.version);
    form.reset(policyValues(saved.document));
    showToast(t.saved);
  });
  const takeOther = () => {
    setVersion(policy.version);
    form.reset(policyValues(policy.document));
  };
  return (
    <Page>
      <PageHeader
        title={name}
        about={t.one}
        back={{ to: LIST, label: t.title }}
        actions={
          <Button icon="trash" onClick={() => setDeleting(true)}>
            {t.delete}
          </Button>
        }
      />
      <Stats>
        <Stat label={t.columns.groups} value={<Count value={policy.groups} />} />
        <Stat label={t.columns.keys} value={<Count value={policy.keys} />} />
      </Stats>
      {version !== policy.version && !form.isSending && (
        <Notice tone="warn">
          <p>{t.otherVersion}</p>
          <Button small icon="refresh" onClick={takeOther}>
            {t.takeOther}
          </Button>
        </Notice>
      )}
      <PolicyEditor form={form} />
      <PolicyTrial document={policyDocument(form.values)} />
      {isDeleting && <DeletePolicy name={name} onClose={() => setDeleting(false)} />}
    </Page>
  );
}

function DeletePolicy({ name, onClose }: { name: string; onClose(): void }) {
  const t = useText("adminPolicies");
  const showToast = useToast();
  const [, go] = useLocation();
  const remove = useChange("admin.request_policies.delete", {
    invalidates: ["admin.request_policies.list"],
  });
  return (
    <ConfirmDialog
      title={t.deleteTitle(name)}
      confirm={t.delete}
      onClose={onClose}
      onConfirm={async () => {
        await remove.mutateAsync({ params: { name } });
        showToast(t.deleted(name));
        go(LIST);
      }}
    >
      <p>{t.deleteText}</p>
    </ConfirmDialog>
  );
}
