/** The usage export: whether requests are appended to the usage feed, and the webhooks that receive it. */

import { z } from "zod";
import type { Db } from "../engine/db.ts";
import { CorruptRow } from "../engine/row.ts";
import { disableFeed, enableFeed } from "../usage-feed/feed.ts";
import { readSetting, writeSetting } from "./settings.ts";
import type { WebhookRecord } from "./settings-records.ts";

export interface UsageExportRecord {
  readonly enabled: boolean;
  readonly webhooks: readonly WebhookRecord[];
}

export const NO_USAGE_EXPORT: UsageExportRecord = { enabled: false, webhooks: [] };

const SETTING = "usage_export";

const usageExportSchema: z.ZodType<UsageExportRecord> = z.object({
  enabled: z.boolean(),
  webhooks: z.array(
    z.object({
      name: z.string(),
      url: z.string(),
      sealedSecret: z.string().nullable(),
      privateNetwork: z.boolean(),
      enabled: z.boolean(),
    }),
  ),
});

export async function readUsageExport(db: Db): Promise<UsageExportRecord> {
  const stored = await readSetting(db, SETTING);
  if (stored === null) return NO_USAGE_EXPORT;
  try {
    return usageExportSchema.parse(JSON.parse(stored));
  } catch {
    throw new CorruptRow(`The setting ${SETTING} is not valid.`);
  }
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
