/** The fields of an account, with the test call below them. */

import { useApi } from "../../../data.ts";
import { RateFields } from "../../../forms/limits.tsx";
import { SwitchFields } from "../../../forms/switches.tsx";
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
import {
  type AccountValues,
  findKind,
  INTERFACES,
  type KindFacts,
  withKind,
  withListedModels,
  withVendor,
} from "./account-values.ts";
import { ServiceAccountField } from "./service-account-field.tsx";
import { TestCall } from "./test-call.tsx";

interface AccountFieldsProps {
  form: FormState<AccountValues>;
  kinds: readonly KindFacts[];
  isNew: boolean;
  hasCredential: boolean;
}

export function AccountFields({ form, kinds, isNew, hasCredential }: AccountFieldsProps) {
  const t = useText("adminAccounts");
  const policy = useText("policy");
  return (
    <>
      {isNew && <TextField {...form.bind("name")} label={t.form.name} hint={t.form.nameHint} autoFocus />}
      <ConnectionFields form={form} kinds={kinds} hasCredential={hasCredential} />
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
      <SwitchFields {...form.bind("switches")} texts={t.form.switches} problemAt={form.problemAt} />
      <SelectionFields form={form} />
      <div>
        <h3>{t.form.limits}</h3>
        <p className="soft small">{t.form.limitsAbout}</p>
      </div>
      <RateFields
        name="limits"
        value={form.values.limits}
        onChange={(change) => form.set("limits", { ...form.values.limits, ...change })}
        problemAt={form.problemAt}
      />
    </>
  );
}

/** The connection of the account: its kind, its address and its credential. */
function ConnectionFields({ form, kinds, hasCredential }: Omit<AccountFieldsProps, "isNew">) {
  const t = useText("adminAccounts");
  const { kind, privateNetwork } = form.values;
  const texts = t.kindTexts[kind.name];
  const isRegional = kind.address === "region";
  const changeKind = (name: KindFacts["name"]) => {
    const { baseUrl, interfaces, region, kind: chosen } = withKind(form.values, findKind(kinds, name));
    form.set("kind", chosen);
    form.set("baseUrl", baseUrl);
    form.set("region", region);
    form.set("interfaces", interfaces);
  };
  return (
    <>
      <SelectField
        {...form.bind("kind")}
        value={kind.name}
        onChange={changeKind}
        label={t.form.kind}
        hint={texts?.about}
        choices={kinds.map(({ name }) => ({ value: name, label: t.kinds[name] }))}
      />
      {kind.fields.includes("vendor") && <VendorField form={form} />}
      {kind.address !== "process" && (
        <>
          {kind.fields.includes("region") && (
            <TextField {...form.bind("region")} label={t.form.region} hint={texts?.region} />
          )}
          {kind.fields.includes("project") && (
            <TextField {...form.bind("project")} label={t.form.project} hint={t.form.projectHint} optional />
          )}
          <TextField
            {...form.bind("baseUrl", "base_url")}
            type="url"
            label={t.form.baseUrl}
            hint={texts?.baseUrl ?? (isRegional ? t.form.baseUrlByRegion : t.form.baseUrlHint)}
            optional={isRegional}
          />
          {kind.fields.includes("api_version") && (
            <TextField
              {...form.bind("apiVersion", "api_version")}
              label={t.form.apiVersion}
              hint={t.form.apiVersionHint}
              optional
            />
          )}
          {privateNetwork && <Notice tone="warn">{t.form.private}</Notice>}
          {kind.credential === "service_account" ? (
            <ServiceAccountField {...form.bind("credential")} hasCredential={hasCredential} />
          ) : (
            <SecretField
              {...form.bind("credential")}
              label={texts?.credential ?? t.form.credential}
              hint={hasCredential ? t.form.credentialKept : t.form.credentialNew}
            />
          )}
        </>
      )}
    </>
  );
}

/** The vendor of an OpenAI-compatible API sets its address and its interfaces. */
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

/** The fields that decide which of several accounts a request is sent to. */
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
