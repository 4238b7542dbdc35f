/** Plans the settings of the installation: registration, sign-in, SCIM, retention, mail, alerts and usage export. Omitted secrets are kept. */

import { type AlertsRecord, DEFAULT_ALERTS, type SmtpRecord } from "../../records/settings.ts";
import { SMTP_PASSWORD_BINDING } from "../../secrets/seal.ts";
import { RESPONSES_KEPT_MS } from "../../store/responses/response-retention.ts";
import { writeRegistration } from "../../store/settings/registration.ts";
import { writeAlertSettings, writeSmtp } from "../../store/settings/sections.ts";
import type { GatewayFile } from "../schema/schema.ts";
import { changedFields, type FormattedFields, recordChanges } from "../state/difference.ts";
import { ALERT_RULES_SHAPE, SMTP_SHAPE } from "../state/file-shape.ts";
import type { FieldProblem } from "../state/problem.ts";
import { type ConfigState, changeStep, type PlanStep, type Secrets } from "../state/step.ts";
import { planScim, scimSection } from "./plan-scim.ts";
import { planSignIn, signInFileOnlyProblems, signInSection } from "./plan-sign-in.ts";
import { toolSignInSection } from "./plan-tool-sign-in.ts";
import { planUsageExport, usageExportSection } from "./plan-usage-export.ts";
import { buildWebhooks, diffWebhooks, webhookFileOnlyProblems, webhooksToFile } from "./plan-webhooks.ts";
import { planRetention, retentionTexts } from "./retention.ts";
import { FILE_ONLY, sealIfChanged, secretDifference } from "./stored-secrets.ts";

type FileSmtp = NonNullable<GatewayFile["smtp"]>;

export function planSettings(state: ConfigState, file: GatewayFile, secrets: Secrets): PlanStep[] {
  return [
    ...planRegistration(state, file),
    ...planSignIn(state.signIn, file.sign_in, secrets),
    ...planScim(state.scim, file.scim),
    ...planRetention(state, file),
    ...planSmtp(state.smtp, file.smtp, secrets),
    ...planAlerts(state.alerts, file.alerts, secrets),
    ...planUsageExport(state.usageExport, file.usage_export, secrets),
  ];
}

function planRegistration(
  { registration: from }: ConfigState,
  { registration: to }: GatewayFile,
): PlanStep[] {
  if (to === undefined || to === from) return [];
  return changeStep("registration", [{ field: "registration", from, to }], (tx) => writeRegistration(tx, to));
}

function planSmtp(before: SmtpRecord | null, wanted: FileSmtp | undefined, secrets: Secrets): PlanStep[] {
  if (wanted === undefined) return [];
  const after = buildSmtp(before, wanted, secrets);
  const fields = [
    ...changedFields(formatSmtp(before), formatSmtp(after)),
    ...secretDifference("password", before?.sealedPassword ?? null, after?.sealedPassword ?? null),
  ];
  return changeStep("smtp", fields, (tx) => writeSmtp(tx, after));
}

function buildSmtp(before: SmtpRecord | null, wanted: FileSmtp, secrets: Secrets): SmtpRecord | null {
  const { enabled, host, from, password } = wanted;
  if (!enabled || host === undefined || from === undefined) return null;
  const present = storedPassword(before, wanted);
  return {
    ...SMTP_SHAPE.parse({ ...wanted, host, from }),
    sealedPassword: sealIfChanged(SMTP_PASSWORD_BINDING, present, password, secrets),
  };
}

/** A stored password belongs to one user at one server and is never sent to another. */
function storedPassword(present: SmtpRecord | null, { host, user }: FileSmtp): string | null {
  const isSame = present !== null && present.host === host && present.user === (user ?? null);
  return isSame ? present.sealedPassword : null;
}

/** An exported file contains the SMTP user but not the password. */
export function mailProblems({ smtp }: GatewayFile, { smtp: present }: ConfigState): FieldProblem[] {
  if (!smtp?.enabled || smtp.user === undefined || smtp.password !== undefined) return [];
  if (storedPassword(present, smtp) !== null) return [];
  const message = present?.sealedPassword
    ? "must be entered again: the stored password belongs to another server or user."
    : "is missing, and no password is stored. Set the password of smtp.user, or remove smtp.user.";
  return [{ path: ["smtp", "password"], message }];
}

function planAlerts(before: AlertsRecord, wanted: GatewayFile["alerts"], secrets: Secrets): PlanStep[] {
  if (wanted === undefined) return [];
  const webhooks = { before: before.webhooks, wanted: wanted.webhooks };
  const after = {
    webhooks: buildWebhooks("alerts", webhooks, secrets),
    ...ALERT_RULES_SHAPE.parse(wanted),
  };
  const fields = [
    ...recordChanges(before, after, (alerts) => ALERT_RULES_SHAPE.format(alerts)),
    ...diffWebhooks(before.webhooks, after.webhooks),
  ];
  return changeStep("alerts", fields, (tx) => writeAlertSettings(tx, after));
}

function formatSmtp(smtp: SmtpRecord | null): FormattedFields {
  return smtp === null ? { enabled: "false" } : { enabled: "true", ...SMTP_SHAPE.format(smtp) };
}

/** Settings in file shape, without secrets. Settings that were never set are omitted. */
export function settingsToFile(state: ConfigState) {
  const { registration, smtp, alerts } = state;
  return {
    registration,
    ...signInSection(state),
    ...scimSection(state),
    ...toolSignInSection(state),
    ...retentionToFile(state),
    ...(smtp === null ? {} : { smtp: SMTP_SHAPE.write(smtp) }),
    ...(alerts === DEFAULT_ALERTS
      ? {}
      : { alerts: { webhooks: webhooksToFile(alerts.webhooks), ...ALERT_RULES_SHAPE.write(alerts) } }),
    ...usageExportSection(state),
  };
}

function retentionToFile(state: ConfigState) {
  const { usage_rows, responses } = retentionTexts(state);
  const retention = {
    ...(state.usageRowsKeptMs === null ? {} : { usage_rows }),
    ...(state.responsesKeptMs === RESPONSES_KEPT_MS ? {} : { responses }),
  };
  return Object.keys(retention).length === 0 ? {} : { retention };
}

/**
 * Limits what a browser may change, as for accounts: only the file can allow private networks, for one address
 * each.
 */
export function settingsFileOnlyProblems(file: GatewayFile, state: ConfigState): FieldProblem[] {
  const { smtp, alerts, usage_export } = file;
  const problems = [
    ...webhookFileOnlyProblems("usage_export", state.usageExport.webhooks, usage_export?.webhooks),
    ...webhookFileOnlyProblems("alerts", state.alerts.webhooks, alerts?.webhooks),
    ...signInFileOnlyProblems(file, state),
  ];
  if (smtp?.enabled) {
    const { smtp: present } = state;
    const isSame = present?.host === smtp.host && present?.port === smtp.port;
    if (smtp.private_network && !(present?.privateNetwork && isSame))
      problems.push({ path: ["smtp", "private_network"], message: FILE_ONLY });
  }
  return problems;
}
