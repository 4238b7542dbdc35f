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
  INTERFACES,
  isRegional,
  withKind,
  withListedModels,
  withVendor,
} from "./account-values.ts";
import { ServiceAccountField } from "./service-account-field.tsx";
import { TestCall } from "./test-call.tsx";

const KINDS = ["openai", "azure", "anthropic", "bedrock", "gemini", "vertex", "simulator"] as const;

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
function ConnectionFields({ form, hasCredential }: Omit<AccountFieldsProps, "isNew">) {
  const t = useText("adminAccounts");
  const { kind, privateNetwork } = form.values;
  const changeKind = (chosen: AccountValues["kind"]) => {
    const { baseUrl, interfaces, region } = withKind(form.values, chosen);
    form.set("kind", chosen);
    form.set("baseUrl", baseUrl);
    form.set("region", region);
    form.set("interfaces", interfaces);
  };
  return (
    <>
      <SelectField
        {...form.bind("kind")}
        onChange={changeKind}
        label={t.form.kind}
        hint={kind === "simulator" ? t.form.simulator : undefined}
        choices={KINDS.map((value) => ({ value, label: t.kinds[value] }))}
      />
      {kind === "openai" && <VendorField form={form} />}
      {kind !== "simulator" && (
        <>
          {isRegional(kind) && <RegionFields form={form} />}
          <TextField
            {...form.bind("baseUrl", "base_url")}
            type="url"
            label={t.form.baseUrl}
            hint={baseUrlHint(kind, t.form)}
            optional={isRegional(kind)}
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
          {kind === "vertex" ? (
            <ServiceAccountField {...form.bind("credential")} hasCredential={hasCredential} />
          ) : (
            <SecretField
              {...form.bind("credential")}
              label={kind === "bedrock" ? t.form.bedrockKey : t.form.credential}
              hint={hasCredential ? t.form.credentialKept : t.form.credentialNew}
            />
          )}
        </>
      )}
    </>
  );
}

function baseUrlHint(
  kind: AccountValues["kind"],
  t: Readonly<Record<"baseUrlByRegion" | "baseUrlNoVersion" | "baseUrlHint", string>>,
): string {
  if (isRegional(kind)) return t.baseUrlByRegion;
  return kind === "gemini" ? t.baseUrlNoVersion : t.baseUrlHint;
}

/** Where the models of a cloud vendor run, and which project pays for them. */
function RegionFields({ form }: Pick<AccountFieldsProps, "form">) {
  const t = useText("adminAccounts").form;
  const isVertex = form.values.kind === "vertex";
  return (
    <>
      <TextField
        {...form.bind("region")}
        label={t.region}
        hint={isVertex ? t.regionVertex : t.regionBedrock}
      />
      {isVertex && <TextField {...form.bind("project")} label={t.project} hint={t.projectHint} optional />}
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
