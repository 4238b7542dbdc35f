/** The fields of an account, with the test call below them. */

import { useText } from "../../../text/text.tsx";
import {
  CheckboxField,
  MultiSelect,
  NumberField,
  SecretField,
  SelectField,
  TextAreaField,
  TextField,
} from "../../../ui/field.tsx";
import type { FormState } from "../../../ui/form.tsx";
import { Notice } from "../../../ui/notice.tsx";
import { RateFields } from "../policy/rate-fields.tsx";
import { type AccountValues, INTERFACES } from "./account-values.ts";
import { TestCall } from "./test-call.tsx";

interface AccountFieldsProps {
  form: FormState<AccountValues>;
  isNew: boolean;
  hasCredential: boolean;
}

export function AccountFields({ form, isNew, hasCredential }: AccountFieldsProps) {
  const t = useText("adminAccounts");
  const policy = useText("policy");
  const { kind, privateNetwork } = form.values;
  return (
    <>
      {isNew && <TextField {...form.bind("name")} label={t.form.name} hint={t.form.nameHint} autoFocus />}
      <SelectField
        {...form.bind("kind")}
        label={t.form.kind}
        hint={kind === "simulator" ? t.form.simulator : undefined}
        choices={(["openai", "azure", "simulator"] as const).map((value) => ({
          value,
          label: t.kinds[value],
        }))}
      />
      {kind !== "simulator" && (
        <>
          <TextField
            {...form.bind("baseUrl", "base_url")}
            type="url"
            label={t.form.baseUrl}
            hint={t.form.baseUrlHint}
          />
          {kind === "azure" && (
            <TextField
              {...form.bind("apiVersion", "api_version")}
              label={t.form.apiVersion}
              hint={t.form.apiVersionHint}
              optional
            />
          )}
          {privateNetwork && <Notice tone="warn">{t.form.private}</Notice>}
          <SecretField
            {...form.bind("credential")}
            label={t.form.credential}
            hint={hasCredential ? t.form.credentialKept : t.form.credentialNew}
          />
        </>
      )}
      <TestCall values={form.values} />
      <TextAreaField
        {...form.bind("models")}
        label={t.form.models}
        hint={t.form.modelsAbout}
        isCode
        rows={4}
      />
      <MultiSelect
        {...form.bind("interfaces")}
        label={t.form.interfaces}
        choices={INTERFACES.map((name) => ({ value: name, label: policy.interfaces[name] }))}
      />
      {form.values.interfaces.includes("responses") && (
        <CheckboxField {...form.bind("websocket")} label={t.form.websocket} hint={t.form.websocketHint} />
      )}
      <div className="policy-rates">
        <NumberField
          {...form.bind("priority")}
          label={t.form.priority}
          hint={t.form.priorityHint}
          min={0}
          max={1000}
        />
        <NumberField
          {...form.bind("weight")}
          label={t.form.weight}
          hint={t.form.weightHint}
          min={1}
          max={1000}
        />
      </div>
      <div>
        <h3>{t.form.limits}</h3>
        <p className="soft small">{t.form.limitsAbout}</p>
      </div>
      <RateFields
        name="limits"
        value={form.values.limits}
        onChange={(limits) => form.set("limits", limits)}
        problemAt={form.problemAt}
      />
    </>
  );
}
