/** Settings of the whole installation as they are stored: registration, mail, alerts, usage export and SCIM. */

import { ALERT_RULE_FIELDS } from "./alert-rules.ts";
import * as field from "./fields.ts";
import { createRecord, type Field, type FieldMap, type RecordOf, type ValueOf } from "./fields.ts";
import type { PROVIDER_FIELDS } from "./sign-in.ts";
import type { TOOL_SIGN_IN_FIELDS } from "./tool-sign-in.ts";

/** Who may create an account: anyone, invited people only, or no one. */
export const REGISTRATIONS = ["open", "invite", "closed"] as const;
export type Registration = (typeof REGISTRATIONS)[number];

/** TLS from the first byte, STARTTLS before any other command, or no TLS. */
export const SMTP_SECURITY = ["tls", "starttls", "none"] as const;

/** In the order of the file, like the fields below. */
export const SMTP_FIELDS = {
  host: field.text,
  port: field.integer,
  security: field.choice(SMTP_SECURITY),
  user: field.optionalText,
  sealedPassword: field.internal(field.optionalText),
  from: field.text,
  /** Whether a loopback or private address may be dialled. Only the configuration file can allow it. */
  privateNetwork: field.booleanOr(false),
};
export interface SmtpRecord extends RecordOf<typeof SMTP_FIELDS> {}

/** A webhook that alerts or usage are posted to. */
export const WEBHOOK_FIELDS = {
  name: field.identity,
  url: field.text,
  /** Key that signs deliveries; null: unsigned. */
  sealedSecret: field.internal(field.optionalText),
  privateNetwork: field.booleanOr(false),
  enabled: field.booleanOr(true),
};
export interface WebhookRecord extends RecordOf<typeof WEBHOOK_FIELDS> {}

/** The plan compares them by name, so they are not fields of the section. */
const webhooks: field.DefaultField<readonly WebhookRecord[], "webhooks"> & { readonly file: null } = {
  kind: "webhooks",
  default: [],
  file: null,
};

export const ALERTS_FIELDS = { webhooks, ...ALERT_RULE_FIELDS };
export interface AlertsRecord extends RecordOf<typeof ALERTS_FIELDS> {}
export const DEFAULT_ALERTS: AlertsRecord = createRecord(ALERTS_FIELDS, {});

/** The usage export: whether requests are appended to the usage feed, and the webhooks that receive it. */
export const USAGE_EXPORT_FIELDS = { enabled: field.boolean, webhooks };
export interface UsageExportRecord extends RecordOf<typeof USAGE_EXPORT_FIELDS> {}
export const NO_USAGE_EXPORT: UsageExportRecord = createRecord(USAGE_EXPORT_FIELDS, { enabled: false });

/** Where roles and groups of pushed people come from: pushed groups, or the claims of their sign-ins. */
export const GROUP_SOURCES = ["pushed", "claims"] as const;

/** The directory that pushes people and groups by SCIM. */
export const SCIM_FIELDS = {
  /** The name of a provider of `sign_in`. */
  provider: field.text,
  /** In lower case. A local user with an address of these domains becomes the pushed person. */
  adoptDomains: field.textList,
  groups: field.choice(GROUP_SOURCES),
};
export interface ScimRecord extends RecordOf<typeof SCIM_FIELDS> {}

type DeclaredIn<Fields> = Fields extends FieldMap ? Fields[keyof Fields] : never;
type SettingsField =
  | DeclaredIn<typeof SMTP_FIELDS>
  | DeclaredIn<typeof WEBHOOK_FIELDS>
  | DeclaredIn<typeof ALERTS_FIELDS>
  | DeclaredIn<(typeof ALERT_RULE_FIELDS)[keyof typeof ALERT_RULE_FIELDS]["fields"]>
  | DeclaredIn<typeof USAGE_EXPORT_FIELDS>
  | DeclaredIn<typeof SCIM_FIELDS>
  | DeclaredIn<typeof PROVIDER_FIELDS>
  | DeclaredIn<typeof TOOL_SIGN_IN_FIELDS>;

/** The kinds of fields of settings, each with the type of its values. */
export type SettingsFieldTypes = {
  [Kind in SettingsField["kind"]]: ValueOf<Extract<SettingsField, Field<unknown, Kind>>>;
};
