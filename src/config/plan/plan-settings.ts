/** Plans the settings of the installation: registration, sign-in, SCIM, retention, mail, alerts and usage export. Omitted secrets are kept. */

import { parseUsd, usdText } from "../../money/nano.ts";
import { SMTP_PASSWORD_BINDING } from "../../secrets/seal.ts";
import { RESPONSES_KEPT_MS } from "../../store/responses/response-retention.ts";
import { writeAlertSettings } from "../../store/settings/alert-settings.ts";
import { writeRegistration } from "../../store/settings/registration.ts";
import { type AlertsRecord, DEFAULT_ALERTS, type SmtpRecord } from "../../store/settings/settings-records.ts";
import { writeSmtp } from "../../store/settings/smtp.ts";
import type { GatewayFile } from "../schema/schema.ts";
import { durationText } from "../schema/usage-limits.ts";
import { changedFields, type FormattedFields, formatSection } from "../state/difference.ts";
import type { FieldProblem } from "../state/problem.ts";
import { type ConfigState, changeStep, type PlanStep, type Secrets } from "../state/step.ts";
import { planScim, scimSection } from "./plan-scim.ts";
import { planSignIn, signInReachProblems, signInSection } from "./plan-sign-in.ts";
import { toolSignInSection } from "./plan-tool-sign-in.ts";
import { planUsageExport, usageExportSection } from "./plan-usage-export.ts";
import { buildWebhooks, diffWebhooks, webhookReachProblems, webhooksToFile } from "./plan-webhooks.ts";
import { planRetention, retentionTexts } from "./retention.ts";
import { FILE_ONLY, sealIfChanged, secretDifference } from "./stored-secrets.ts";

type FileSmtp = NonNullable<GatewayFile["smtp"]>;
type FileAlerts = NonNullable<GatewayFile["alerts"]>;

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
  const { enabled, host, port, security, user, password, from, private_network } = wanted;
  if (!enabled || host === undefined || from === undefined) return null;
  return {
    host,
    port,
    security,
    user: user ?? null,
    sealedPassword: sealIfChanged(SMTP_PASSWORD_BINDING, storedPassword(before, wanted), password, secrets),
    from,
    privateNetwork: private_network,
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

function planAlerts(before: AlertsRecord, wanted: FileAlerts | undefined, secrets: Secrets): PlanStep[] {
  if (wanted === undefined) return [];
  const after = buildAlerts(before, wanted, secrets);
  const fields = [
    ...changedFields(formatAlertRules(before), formatAlertRules(after)),
    ...diffWebhooks(before.webhooks, after.webhooks),
  ];
  return changeStep("alerts", fields, (tx) => writeAlertSettings(tx, after));
}

function buildAlerts(before: AlertsRecord, wanted: FileAlerts, secrets: Secrets): AlertsRecord {
  const { spend, pool_empty: empty, error_rate: rate, fallback_rate: fallback, overruns } = wanted;
  return {
    webhooks: buildWebhooks("alerts", { before: before.webhooks, wanted: wanted.webhooks }, secrets),
    accountParked: wanted.account_parked ?? DEFAULT_ALERTS.accountParked,
    poolEmpty: empty ? { enabled: empty.enabled, forMs: empty.for } : DEFAULT_ALERTS.poolEmpty,
    spend: spend
      ? { enabled: spend.enabled, usdPerDay: usdText(parseUsd(spend.usd_per_day)) }
      : DEFAULT_ALERTS.spend,
    errorRate: rate ? readRate(rate) : DEFAULT_ALERTS.errorRate,
    fallbackRate: fallback ? readRate(fallback) : DEFAULT_ALERTS.fallbackRate,
    overruns: overruns
      ? { enabled: overruns.enabled, count: overruns.count, overMs: overruns.over }
      : DEFAULT_ALERTS.overruns,
  };
}

function readRate(rate: NonNullable<FileAlerts["error_rate"]>): AlertsRecord["errorRate"] {
  const { enabled, percent, over, min_requests } = rate;
  return { enabled, percent, overMs: over, requestsMin: min_requests };
}

function rateToFile({ enabled, percent, overMs, requestsMin }: AlertsRecord["errorRate"]) {
  return { enabled, percent, over: durationText(overMs), min_requests: requestsMin };
}

function formatSmtp(smtp: SmtpRecord | null): FormattedFields {
  if (smtp === null) return { enabled: "false" };
  return formatSection({ enabled: true, ...smtpToFile(smtp), private_network: smtp.privateNetwork });
}

function formatAlertRules(alerts: AlertsRecord): FormattedFields {
  const { webhooks: _, ...rules } = alertsToFile(alerts);
  const { usd_per_day } = rules.spend;
  return { ...formatSection(rules), "spend.usd_per_day": usdText(parseUsd(usd_per_day)) };
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
    ...(smtp === null ? {} : { smtp: smtpToFile(smtp) }),
    ...(alerts === DEFAULT_ALERTS ? {} : { alerts: alertsToFile(alerts) }),
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

export function smtpToFile({ host, port, security, user, from, privateNetwork }: SmtpRecord) {
  return {
    host,
    port,
    security,
    ...(user === null ? {} : { user }),
    from,
    ...(privateNetwork ? { private_network: true } : {}),
  };
}

export function alertsToFile(alerts: AlertsRecord) {
  const { webhooks, accountParked, poolEmpty, spend, errorRate, fallbackRate, overruns } = alerts;
  return {
    webhooks: webhooksToFile(webhooks),
    account_parked: accountParked,
    pool_empty: { enabled: poolEmpty.enabled, for: durationText(poolEmpty.forMs) },
    spend: { enabled: spend.enabled, usd_per_day: spend.usdPerDay },
    error_rate: rateToFile(errorRate),
    fallback_rate: rateToFile(fallbackRate),
    overruns: { enabled: overruns.enabled, count: overruns.count, over: durationText(overruns.overMs) },
  };
}

/**
 * Limits what a browser may change, as for accounts: only the file can allow private networks, for one address
 * each.
 */
export function settingsReachProblems(file: GatewayFile, state: ConfigState): FieldProblem[] {
  const { smtp, alerts, usage_export } = file;
  const problems = [
    ...webhookReachProblems("usage_export", state.usageExport.webhooks, usage_export?.webhooks),
    ...webhookReachProblems("alerts", state.alerts.webhooks, alerts?.webhooks),
    ...signInReachProblems(file, state),
  ];
  if (smtp?.enabled) {
    const { smtp: present } = state;
    const isSame = present?.host === smtp.host && present?.port === smtp.port;
    if (smtp.private_network && !(present?.privateNetwork && isSame))
      problems.push({ path: ["smtp", "private_network"], message: FILE_ONLY });
  }
  return problems;
}
