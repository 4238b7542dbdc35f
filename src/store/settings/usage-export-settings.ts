/** The usage export: whether requests are appended to the usage feed, and the webhooks that receive it. */

import { z } from "zod";
import type { Db } from "../engine/db.ts";
import { disableFeed, enableFeed } from "../usage-feed/feed.ts";
import { readJsonSetting, writeSetting } from "./settings.ts";
import { type WebhookRecord, webhookRecord } from "./settings-records.ts";

export interface UsageExportRecord {
  readonly enabled: boolean;
  readonly webhooks: readonly WebhookRecord[];
}

export const NO_USAGE_EXPORT: UsageExportRecord = { enabled: false, webhooks: [] };

const SETTING = "usage_export";

const usageExportSchema: z.ZodType<UsageExportRecord> = z.object({
  enabled: z.boolean(),
  webhooks: z.array(webhookRecord),
});

export async function readUsageExport(db: Db): Promise<UsageExportRecord> {
  return (await readJsonSetting(db, SETTING, usageExportSchema)) ?? NO_USAGE_EXPORT;
}

/** `newFeedId`: used if this starts the feed. */
export async function writeUsageExport(tx: Db, record: UsageExportRecord, newFeedId: string): Promise<void> {
  await replaceUsageExport(tx, record);
  if (record.enabled) await enableFeed(tx, newFeedId);
  else await disableFeed(tx);
  // An administrator who has corrected a webhook does not wait for its next retry.
  await tx.sql`UPDATE usage_export_target SET due_at_ms = 0`;
}

/** Writes the setting only. */
export async function replaceUsageExport(tx: Db, record: UsageExportRecord): Promise<void> {
  await writeSetting(tx, SETTING, JSON.stringify(record));
}
