/** The form of a group: general settings, models, accounts, billing, limits and the queue, with a preview beside it. */

import { useList } from "../../../data.ts";
import { FallbackFields } from "../../../forms/fallback.tsx";
import { LimitsFields } from "../../../forms/limits.tsx";
import { SwitchFields } from "../../../forms/switches.tsx";
import { useText } from "../../../text/text.tsx";
import { Button } from "../../../ui/button.tsx";
import { CheckboxField, MultiSelect, NumberField, SelectField, TextField } from "../../../ui/field.tsx";
import { Form, type FormState } from "../../../ui/form.tsx";
import { Card, Section } from "../../../ui/page.tsx";
import { useUnsaved } from "../../../ui/unsaved.ts";
import { GroupModels } from "./group-models.tsx";
import { GroupPool } from "./group-pool.tsx";
import { GroupPreview } from "./group-preview.tsx";
import { type GroupValues, groupDocument, INTERFACES } from "./group-values.ts";

type GroupForm = FormState<GroupValues>;

export function GroupEditor({ form, isNew = false }: { form: GroupForm; isNew?: boolean }) {
  const t = useText("adminGroups");
  // Saving the form leaves the page without a question.
  useUnsaved(form.isChanged && !form.isSending);
  return (
    <div className="group-editor">
      <Form form={form}>
        <Section title={t.general.title}>
          <Card>
            <GeneralFields form={form} isNew={isNew} />
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
            <BillingFields form={form} />
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
            <QueueFields form={form} />
          </Card>
        </Section>
        <GroupFallback form={form} />
        <SaveBar form={form} isNew={isNew} />
      </Form>
      <GroupPreview document={groupDocument(form.values)} />
    </div>
  );
}

function GeneralFields({ form, isNew }: { form: GroupForm; isNew: boolean }) {
  const t = useText("adminGroups").general;
  const captures = useText("adminCaptures");
  const policies = useText("adminPolicies");
  const known = useList("admin.request_policies.list", { query: { limit: 200 } });
  const policy = useText("policy");
  return (
    <>
      {isNew && <TextField {...form.bind("name")} label={t.name} hint={t.nameHint} autoFocus />}
      <SelectField
        {...form.bind("access")}
        label={t.access}
        hint={t.accessHint}
        choices={[
          { value: "everyone", label: policy.everyone },
          { value: "members", label: t.members },
        ]}
      />
      <MultiSelect
        {...form.bind("interfaces")}
        label={t.interfaces}
        choices={INTERFACES.map((name) => ({ value: name, label: policy.interfaces[name] }))}
      />
      {form.values.interfaces.includes("responses") && (
        <CheckboxField {...form.bind("websocket")} label={t.websocket} hint={t.websocketHint} />
      )}
      <SwitchFields {...form.bind("switches")} texts={t.switches} problemAt={form.problemAt} />
      <SelectField
        {...form.bind("capture")}
        label={captures.group.label}
        hint={captures.group.hint}
        choices={(["off", "errors", "all"] as const).map((mode) => ({
          value: mode,
          label: captures.modes[mode],
        }))}
      />
      <SelectField
        {...form.bind("requestPolicy", "request_policy")}
        label={policies.ofGroup}
        hint={policies.ofGroupHint}
        choices={[
          { value: "", label: policies.none },
          ...known.rows.map(({ document: { name } }) => ({ value: name, label: name })),
        ]}
      />
    </>
  );
}

function BillingFields({ form }: { form: GroupForm }) {
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
      <NumberField
        {...form.bind("webSearchesMax", "web_searches_max")}
        label={t.webSearches}
        hint={t.webSearchesHint}
        optional
        min={1}
        placeholder="10"
      />
    </>
  );
}

function GroupFallback({ form }: { form: GroupForm }) {
  const t = useText("fallback");
  const groups = useList("admin.groups.list", { query: { limit: 200 } });
  return (
    <Section title={t.title} about={t.ofGroup}>
      <Card>
        <FallbackFields
          target="group"
          choices={groups.rows.map(({ name }) => name).filter((name) => name !== form.values.name)}
          value={form.values.fallback}
          onChange={(steps) => form.set("fallback", steps)}
          problemAt={form.problemAt}
        />
      </Card>
    </Section>
  );
}

function QueueFields({ form }: { form: GroupForm }) {
  const t = useText("adminGroups").waiting;
  const isFree = form.values.charge === "none";
  return (
    <>
      <div className="policy-rates">
        <NumberField
          {...form.bind("maxWaiting", "queue.max_waiting")}
          label={t.most}
          min={0}
          placeholder="100"
        />
        <TextField
          {...form.bind("timeout", "queue.timeout")}
          label={t.timeout}
          hint={t.timeoutHint}
          placeholder="30s"
        />
      </div>
      <SelectField
        {...form.bind("onDisconnect", "on_disconnect")}
        label={t.onDisconnect}
        choices={[
          { value: "", label: isFree ? t.defaultCancel : t.defaultDrain },
          { value: "cancel", label: t.cancel },
          { value: "drain", label: t.drain },
        ]}
      />
    </>
  );
}

function SaveBar({ form, isNew }: { form: GroupForm; isNew: boolean }) {
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
