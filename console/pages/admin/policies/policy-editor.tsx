/** The form of a request policy: one section for each group of rules. */

import { EFFORTS, TOOL_KINDS } from "../../../../src/records/request-policy.ts";
import { useText } from "../../../text/text.tsx";
import { Button } from "../../../ui/button.tsx";
import {
  CheckboxField,
  MultiSelect,
  NumberField,
  SelectField,
  TextAreaField,
  TextField,
} from "../../../ui/field.tsx";
import { Form, type FormState } from "../../../ui/form.tsx";
import { Card, Section } from "../../../ui/page.tsx";
import { useUnsaved } from "../../../ui/unsaved.ts";
import type { PolicyValues } from "./policy-values.ts";

type PolicyForm = FormState<PolicyValues>;

export function PolicyEditor({ form, isNew = false }: { form: PolicyForm; isNew?: boolean }) {
  const t = useText("adminPolicies");
  const kit = useText("kit");
  // Saving the form leaves the page without a question.
  useUnsaved(form.isChanged && !form.isSending);
  return (
    <Form form={form}>
      <Section title={t.access.title}>
        <Card>
          <AccessFields form={form} isNew={isNew} />
        </Card>
      </Section>
      <Section title={t.size.title}>
        <Card>
          <SizeFields form={form} />
        </Card>
      </Section>
      <Section title={t.tools.title} about={t.tools.about}>
        <Card>
          <ToolFields form={form} />
        </Card>
      </Section>
      <Section title={t.inputs.title} about={t.inputs.about}>
        <Card>
          <div className="policy-rates">
            {(["images", "files", "urls", "audio"] as const).map((kind) => (
              <NumberField
                key={kind}
                {...form.bind(kind, `inputs.${kind}`)}
                label={t.inputs[kind]}
                min={0}
                placeholder={t.size.unrestricted}
              />
            ))}
          </div>
        </Card>
      </Section>
      <Section title={t.force.title}>
        <Card>
          <ForceFields form={form} />
        </Card>
      </Section>
      <div className="row apart">
        <span className="soft small" role="status">
          {form.isChanged ? t.unsaved : ""}
        </span>
        <span className="row">
          {form.isChanged && !isNew && <Button onClick={() => form.reset()}>{t.discard}</Button>}
          <Button type="submit" tone="primary" isBusy={form.isSending} disabled={!form.isChanged}>
            {isNew ? t.create : kit.save}
          </Button>
        </span>
      </div>
    </Form>
  );
}

function AccessFields({ form, isNew }: { form: PolicyForm; isNew: boolean }) {
  const t = useText("adminPolicies");
  return (
    <>
      {isNew && <TextField {...form.bind("name")} label={t.name} hint={t.nameHint} autoFocus />}
      <TextAreaField {...form.bind("models")} label={t.access.models} hint={t.access.modelsHint} rows={3} />
      <TextAreaField
        {...form.bind("networks")}
        label={t.access.networks}
        hint={t.access.networksHint}
        rows={2}
      />
      <CheckboxField
        {...form.bind("selfService", "self_service")}
        label={t.selfService}
        hint={t.selfServiceHint}
      />
    </>
  );
}

function ForceFields({ form }: { form: PolicyForm }) {
  const t = useText("adminPolicies");
  return (
    <>
      <CheckboxField {...form.bind("store", "force.store")} label={t.force.store} hint={t.force.storeHint} />
      <CheckboxField
        {...form.bind("background", "force.background")}
        label={t.force.background}
        hint={t.force.backgroundHint}
      />
    </>
  );
}

function SizeFields({ form }: { form: PolicyForm }) {
  const t = useText("adminPolicies");
  const overs = (["lower", "reject"] as const).map((over) => ({ value: over, label: t.overs[over] }));
  return (
    <>
      <div className="policy-rates">
        <NumberField
          {...form.bind("inputTokens", "input_tokens")}
          label={t.size.inputTokens}
          min={1}
          placeholder={t.size.unrestricted}
        />
        <NumberField
          {...form.bind("outputTokens", "output_tokens.max")}
          label={t.size.outputTokens}
          hint={t.size.outputHint}
          min={16}
          placeholder={t.size.unrestricted}
        />
        {form.values.outputTokens !== null && (
          <SelectField
            {...form.bind("outputOver", "output_tokens.over")}
            label={t.size.over}
            choices={overs}
          />
        )}
      </div>
      <div className="policy-rates">
        <SelectField
          {...form.bind("effort", "effort.max")}
          label={t.size.effort}
          choices={[
            { value: "", label: t.size.unrestricted },
            ...EFFORTS.map((effort) => ({ value: effort, label: effort })),
          ]}
        />
        {form.values.effort !== "" && (
          <SelectField {...form.bind("effortOver", "effort.over")} label={t.size.over} choices={overs} />
        )}
        <TextField
          {...form.bind("tiers", "service_tiers")}
          label={t.size.tiers}
          hint={t.size.tiersHint}
          isMono
        />
      </div>
    </>
  );
}

function ToolFields({ form }: { form: PolicyForm }) {
  const t = useText("adminPolicies");
  return (
    <>
      <MultiSelect
        {...form.bind("tools", "tools.deny")}
        label={t.tools.deny}
        optional
        choices={TOOL_KINDS.map((kind) => ({ value: kind, label: t.toolKinds[kind] }))}
      />
      {form.values.tools.length > 0 && (
        <SelectField
          {...form.bind("toolsOver", "tools.over")}
          label={t.tools.over}
          choices={(["drop", "reject"] as const).map((over) => ({ value: over, label: t.overs[over] }))}
        />
      )}
    </>
  );
}
