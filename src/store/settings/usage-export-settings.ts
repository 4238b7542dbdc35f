/** The usage export: whether requests are appended to the usage feed, and the webhooks that receive it. */

import { NO_USAGE_EXPORT, USAGE_EXPORT_FIELDS, type UsageExportRecord } from "../../records/settings.ts";
import type { Db } from "../engine/db.ts";
import { disableFeed, enableFeed } from "../usage-feed/feed.ts";
import { jsonSetting } from "./settings.ts";
import { storedForm } from "./stored-form.ts";

/** `replaceUsageExport` writes the setting only. */
export const { read: readUsageExport, write: replaceUsageExport } = jsonSetting(
  "usage_export",
  storedForm(USAGE_EXPORT_FIELDS),
  NO_USAGE_EXPORT,
);

/** `newFeedId`: used if this starts the feed. */
export async function writeUsageExport(tx: Db, record: UsageExportRecord, newFeedId: string): Promise<void> {
  await replaceUsageExport(tx, record);
  if (record.enabled) await enableFeed(tx, newFeedId);
  else await disableFeed(tx);
  // An administrator who has corrected a webhook does not wait for its next retry.
  await tx.sql`UPDATE usage_export_target SET due_at_ms = 0`;
}
