/** One group on one page: everything that a key of it grants, with what such a key sees beside it. */

import { useState } from "react";
import { useLocation } from "wouter";
import type { Answer } from "../../../api.ts";
import { useApi, useChange, useList } from "../../../data.ts";
import { LimitsFields } from "../../../forms/limits.tsx";
import type { PageProps } from "../../../pages.tsx";
import { useText } from "../../../text/text.tsx";
import { Awaited } from "../../../ui/awaited.tsx";
import { Button } from "../../../ui/button.tsx";
import { ConfirmDialog } from "../../../ui/dialog.tsx";
import { CheckboxField, MultiSelect, NumberField, SelectField, TextField } from "../../../ui/field.tsx";
import { Form, type FormState, useForm } from "../../../ui/form.tsx";
import { Card, Page, PageHeader, Section, Stat, Stats } from "../../../ui/page.tsx";
import { useToast } from "../../../ui/toast.tsx";
import { useUnsaved } from "../../../ui/unsaved.ts";
import { Count, Money } from "../../../ui/values.tsx";
import { GroupMembers } from "./group-members.tsx";
import { GroupModels } from "./group-models.tsx";
import { GroupPool } from "./group-pool.tsx";
import { GroupPreview } from "./group-preview.tsx";
import { type GroupValues, groupDocument, groupValues, INTERFACES, NEW_GROUP } from "./group-values.ts";
import "./group.css";

type Group = Answer<"admin.groups.get">;

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
  const say = useToast();
  const [isDeleting, setDeleting] = useState(false);
  // The version that the form began with: what came since is somebody else's.
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
    say(t.saved);
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
        <Stat label={t.columns.keys} value={<Count value={group.keys} />} />
        <Stat
          label={t.columns.requests}
          value={<Count value={group.requests_last_day} />}
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
  const say = useToast();
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
        say(t.deleted(name));
        go("/admin/groups");
      }}
    >
      <p>{t.deleteBreaks(group.keys)}</p>
      <p className="soft">{t.deleteKeeps}</p>
    </ConfirmDialog>
  );
}

function GroupEditor({ form, isNew = false }: { form: FormState<GroupValues>; isNew?: boolean }) {
  const t = useText("adminGroups");
  const policy = useText("policy");
  // What is being sent leads away by itself.
  useUnsaved(form.isChanged && !form.isSending);
  return (
    <div className="group-editor">
      <Form form={form}>
        <Section title={t.general.title}>
          <Card>
            {isNew && (
              <TextField {...form.bind("name")} label={t.general.name} hint={t.general.nameHint} autoFocus />
            )}
            <SelectField
              {...form.bind("access")}
              label={t.general.access}
              hint={t.general.accessHint}
              choices={[
                { value: "everyone", label: policy.everyone },
                { value: "members", label: t.general.members },
              ]}
            />
            <MultiSelect
              {...form.bind("interfaces")}
              label={t.general.interfaces}
              choices={INTERFACES.map((name) => ({ value: name, label: policy.interfaces[name] }))}
            />
            {form.values.interfaces.includes("responses") && (
              <CheckboxField
                {...form.bind("websocket")}
                label={t.general.websocket}
                hint={t.general.websocketHint}
              />
            )}
          </Card>
        </Section>
        <Section title={t.models.title} about={t.models.about}>
          <Card>
            <GroupModels form={form} />
          </Card>
        </Section>
        <Section title={t.pool.title}>
          <Card>
            <GroupPool form={form} />
          </Card>
        </Section>
        <Section title={t.billing.title}>
          <Card>
            <Billing form={form} />
          </Card>
        </Section>
        <Section title={t.limits.each} about={t.limits.eachAbout}>
          <Card>
            <LimitsFields {...form.bind("limits")} problemAt={form.problemAt} />
          </Card>
        </Section>
        <Section title={t.limits.all} about={t.limits.allAbout}>
          <Card>
            <LimitsFields {...form.bind("groupLimits", "group_limits")} problemAt={form.problemAt} />
          </Card>
        </Section>
        <Section title={t.waiting.title} about={t.waiting.about}>
          <Card>
            <div className="policy-rates">
              <NumberField
                {...form.bind("maxWaiting", "queue.max_waiting")}
                label={t.waiting.most}
                min={0}
                placeholder="100"
              />
              <TextField
                {...form.bind("timeout", "queue.timeout")}
                label={t.waiting.timeout}
                hint={t.waiting.timeoutHint}
                placeholder="30s"
              />
            </div>
            <SelectField
              {...form.bind("onDisconnect", "on_disconnect")}
              label={t.waiting.onDisconnect}
              choices={[
                {
                  value: "",
                  label: form.values.charge === "none" ? t.waiting.defaultCancel : t.waiting.defaultDrain,
                },
                { value: "cancel", label: t.waiting.cancel },
                { value: "drain", label: t.waiting.drain },
              ]}
            />
          </Card>
        </Section>
        <SaveBar form={form} isNew={isNew} />
      </Form>
      <GroupPreview document={groupDocument(form.values)} />
    </div>
  );
}

function Billing({ form }: { form: FormState<GroupValues> }) {
  const t = useText("adminGroups").billing;
  const policy = useText("policy");
  const plans = useList(
    "admin.plans.list",
    { query: { limit: 200 } },
    { enabled: form.values.charge === "subscription" },
  );
  return (
    <>
      <SelectField
        {...form.bind("charge", "billing.charge")}
        label={t.charge}
        hint={t.hints[form.values.charge]}
        choices={(["none", "balance", "subscription"] as const).map((charge) => ({
          value: charge,
          label: policy.charges[charge],
        }))}
      />
      {form.values.charge === "subscription" && (
        <MultiSelect
          {...form.bind("plans", "billing.plans")}
          label={t.plans}
          hint={t.plansHint}
          optional
          choices={plans.rows.map(({ name }) => ({ value: name, label: name }))}
          empty={t.noPlans}
        />
      )}
      <TextField
        {...form.bind("multiplier", "billing.multiplier")}
        label={t.multiplier}
        hint={t.multiplierHint}
        inputMode="decimal"
      />
    </>
  );
}

function SaveBar({ form, isNew }: { form: FormState<GroupValues>; isNew: boolean }) {
  const t = useText("adminGroups");
  const kit = useText("kit");
  return (
    <div className="group-save">
      <span className="soft small" role="status">
        {form.isChanged ? t.unsaved : ""}
      </span>
      {form.isChanged && !isNew && <Button onClick={() => form.reset()}>{t.discard}</Button>}
      <Button type="submit" tone="primary" isBusy={form.isSending} disabled={!form.isChanged}>
        {isNew ? t.create : kit.save}
      </Button>
    </div>
  );
}
