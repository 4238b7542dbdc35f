/** The fields of an account, with the test call below them. */

import { useApi } from "../../../data.ts";
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
import { type AccountValues, INTERFACES, withKind, withListedModels, withVendor } from "./account-values.ts";
import { TestCall } from "./test-call.tsx";

interface AccountFieldsProps {
  form: FormState<AccountValues>;
  isNew: boolean;
  hasCredential: boolean;
}

export function AccountFields({ form, isNew, hasCredential }: AccountFieldsProps) {
  const t = useText("adminAccounts");
  const policy = useText("policy");
  return (
    <>
      {isNew && <TextField {...form.bind("name")} label={t.form.name} hint={t.form.nameHint} autoFocus />}
      <ConnectionFields form={form} hasCredential={hasCredential} />
      <TestCall
        values={form.values}
        onUseModels={(listed) => form.set("models", withListedModels(form.values.models, listed))}
      />
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
      <CheckboxField
        {...form.bind("propagateTrace", "propagate_trace")}
        label={t.form.propagateTrace}
        hint={t.form.propagateTraceHint}
      />
      <SelectionFields form={form} />
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

/** How the account is reached: its kind, its address and its credential. */
function ConnectionFields({ form, hasCredential }: Omit<AccountFieldsProps, "isNew">) {
  const t = useText("adminAccounts");
  const { kind, privateNetwork } = form.values;
  const changeKind = (chosen: AccountValues["kind"]) => {
    const { baseUrl, interfaces } = withKind(form.values, chosen);
    form.set("kind", chosen);
    form.set("baseUrl", baseUrl);
    form.set("interfaces", interfaces);
  };
  return (
    <>
      <SelectField
        {...form.bind("kind")}
        onChange={changeKind}
        label={t.form.kind}
        hint={kind === "simulator" ? t.form.simulator : undefined}
        choices={(["openai", "azure", "anthropic", "gemini", "simulator"] as const).map((value) => ({
          value,
          label: t.kinds[value],
        }))}
      />
      {kind === "openai" && <VendorField form={form} />}
      {kind !== "simulator" && (
        <>
          <TextField
            {...form.bind("baseUrl", "base_url")}
            type="url"
            label={t.form.baseUrl}
            hint={kind === "gemini" ? t.form.baseUrlNoVersion : t.form.baseUrlHint}
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
    </>
  );
}

/** The vendor of an OpenAI-compatible API brings its address and its interfaces. */
function VendorField({ form }: Pick<AccountFieldsProps, "form">) {
  const t = useText("adminAccounts").form;
  const presets = useApi("admin.vendors.list").data?.data ?? [];
  const chosen = presets.find(({ vendor }) => vendor === form.values.vendor) ?? null;
  const change = (vendor: string) => {
    const next = withVendor(form.values, presets.find((preset) => preset.vendor === vendor) ?? null);
    form.set("vendor", next.vendor);
    form.set("baseUrl", next.baseUrl);
    form.set("interfaces", next.interfaces);
  };
  return (
    <>
      <SelectField
        {...form.bind("vendor")}
        onChange={change}
        label={t.vendor}
        hint={t.vendorHint}
        choices={[
          { value: "", label: t.noVendor },
          ...presets.map(({ vendor, label }) => ({ value: vendor, label })),
        ]}
      />
      {chosen?.is_local && !form.values.privateNetwork && <Notice tone="info">{t.localVendor}</Notice>}
    </>
  );
}

/** Which of several accounts a request is sent to. */
function SelectionFields({ form }: Pick<AccountFieldsProps, "form">) {
  const t = useText("adminAccounts");
  return (
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
  );
}
