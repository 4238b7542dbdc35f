/** Plans the usage export. Omitted secrets are kept. */

import type { FieldChange } from "../../records/policy.ts";
import { exportSecretBinding } from "../../secrets/seal.ts";
import type { WebhookRecord } from "../../store/settings/settings-records.ts";
import {
  NO_USAGE_EXPORT,
  type UsageExportRecord,
  writeUsageExport,
} from "../../store/settings/usage-export-settings.ts";
import type { GatewayFile } from "../schema/schema.ts";
import { changedFields, type FormattedFields } from "../state/difference.ts";
import type { FieldProblem } from "../state/problem.ts";
import type { ConfigState, PlanStep, Secrets } from "../state/step.ts";
import { buildStep } from "../state/step.ts";
import { FILE_ONLY, REENTER_SECRET, sealIfChanged, secretDifference } from "./stored-secrets.ts";

type FileUsageExport = NonNullable<GatewayFile["usage_export"]>;

export function planUsageExport(
  before: UsageExportRecord,
  wanted: FileUsageExport | undefined,
  secrets: Secrets,
): PlanStep[] {
  if (wanted === undefined) return [];
  const after = buildUsageExport(before, wanted, secrets);
  const fields: FieldChange[] = [
    ...changedFields(formatUsageExport(before), formatUsageExport(after)),
    ...diffSecrets(before, after),
  ];
  const write: PlanStep["write"] = (tx) => writeUsageExport(tx, after, secrets.newId("feed"));
  return [buildStep("usage_export", false, fields, write)].flatMap((step) => step ?? []);
}

function buildUsageExport(
  before: UsageExportRecord,
  { enabled, webhooks }: FileUsageExport,
  secrets: Secrets,
): UsageExportRecord {
  return {
    enabled,
    webhooks: webhooks.map(({ name, url, secret, private_network, enabled: isEnabled }): WebhookRecord => {
      const present = findWebhook(before, name)?.sealedSecret ?? null;
      const sealedSecret = sealIfChanged(exportSecretBinding(name), present, secret, secrets);
      return { name, url, sealedSecret, privateNetwork: private_network, enabled: isEnabled };
    }),
  };
}

function diffSecrets(before: UsageExportRecord, after: UsageExportRecord): FieldChange[] {
  const names = new Set([...before.webhooks, ...after.webhooks].map(({ name }) => name));
  return [...names].flatMap((name) =>
    secretDifference(
      `webhooks.${name}.secret`,
      findWebhook(before, name)?.sealedSecret ?? null,
      findWebhook(after, name)?.sealedSecret ?? null,
    ),
  );
}

function findWebhook({ webhooks }: UsageExportRecord, name: string): WebhookRecord | undefined {
  return webhooks.find((webhook) => webhook.name === name);
}

function formatUsageExport({ enabled, webhooks }: UsageExportRecord): FormattedFields {
  const shown: Record<string, string | null> = { enabled: String(enabled) };
  for (const { name, url, privateNetwork, enabled: isEnabled } of webhooks) {
    shown[`webhooks.${name}.url`] = url;
    shown[`webhooks.${name}.private_network`] = String(privateNetwork);
    shown[`webhooks.${name}.enabled`] = String(isEnabled);
  }
  return shown;
}

export function usageExportToFile({ enabled, webhooks }: UsageExportRecord) {
  return {
    enabled,
    webhooks: webhooks.map(({ name, url, privateNetwork, enabled: isEnabled }) => ({
      name,
      url,
      ...(privateNetwork ? { private_network: true } : {}),
      ...(isEnabled ? {} : { enabled: false }),
    })),
  };
}

/** Empty if the export was never configured. */
export function usageExportSection({ usageExport }: Pick<ConfigState, "usageExport">) {
  return usageExport === NO_USAGE_EXPORT ? {} : { usage_export: usageExportToFile(usageExport) };
}

/** Limits what a browser may change: only the file can allow private networks, for one address each. */
export function exportReachProblems(
  { usage_export: wanted }: GatewayFile,
  { usageExport }: ConfigState,
): FieldProblem[] {
  return (wanted?.webhooks ?? []).flatMap(({ name, url, private_network, secret }, i): FieldProblem[] => {
    const present = findWebhook(usageExport, name);
    const path = ["usage_export", "webhooks", i];
    if (private_network && !(present?.privateNetwork && present.url === url))
      return [{ path: [...path, "private_network"], message: FILE_ONLY }];
    const keepsSecret = present !== undefined && present.sealedSecret !== null && secret === undefined;
    return keepsSecret && present.url !== url ? [{ path: [...path, "secret"], message: REENTER_SECRET }] : [];
  });
}
