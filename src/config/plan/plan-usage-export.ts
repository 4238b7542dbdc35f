/** Plans the usage export. */

import { NO_USAGE_EXPORT, type UsageExportRecord } from "../../records/settings.ts";
import { writeUsageExport } from "../../store/settings/usage-export-settings.ts";
import type { GatewayFile } from "../schema/schema.ts";
import { changedFields } from "../state/difference.ts";
import { type ConfigState, changeStep, type PlanStep, type Secrets } from "../state/step.ts";
import { buildWebhooks, diffWebhooks, webhooksToFile } from "./plan-webhooks.ts";

export function planUsageExport(
  before: UsageExportRecord,
  wanted: GatewayFile["usage_export"],
  secrets: Secrets,
): PlanStep[] {
  if (wanted === undefined) return [];
  const { enabled } = wanted;
  const webhooks = buildWebhooks(
    "usage_export",
    { before: before.webhooks, wanted: wanted.webhooks },
    secrets,
  );
  const fields = [
    ...changedFields({ enabled: String(before.enabled) }, { enabled: String(enabled) }),
    ...diffWebhooks(before.webhooks, webhooks),
  ];
  const write: PlanStep["write"] = (tx) => writeUsageExport(tx, { enabled, webhooks }, secrets.newId("feed"));
  return changeStep("usage_export", fields, write);
}

/** Empty if the export was never configured. */
export function usageExportSection({ usageExport }: Pick<ConfigState, "usageExport">) {
  if (usageExport === NO_USAGE_EXPORT) return {};
  const { enabled, webhooks } = usageExport;
  return { usage_export: { enabled, webhooks: webhooksToFile(webhooks) } };
}
