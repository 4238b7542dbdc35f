/** Usage rows for tests. */

import type { Db } from "../engine/db.ts";
import { insertNewUsage } from "./usage.ts";
import { UsageNumbers } from "./usage-numbers.ts";
import { NO_FALLBACK, NO_MONEY, type UsageRow } from "./usage-row.ts";

let createdRows = 0;

/** A typical request; tests change the fields that matter to them. */
export function usageRow(change: Partial<UsageRow> = {}): UsageRow {
  createdRows += 1;
  return {
    requestId: `req_${String(createdRows).padStart(6, "0")}`,
    requestCount: 1,
    atMs: 1_000,
    keyId: "k1",
    userId: null,
    groupId: "g1",
    accountId: null,
    interface: "chat",
    endpoint: "chat.completions",
    publicModel: "fast",
    upstreamModel: null,
    stream: false,
    status: 200,
    outcome: "completed",
    errorCode: null,
    inputTokens: 10,
    cachedTokens: 4,
    cacheWriteTokens: 1,
    cacheWrite1hTokens: 0,
    outputTokens: 5,
    reasoningTokens: 2,
    imageInputTokens: 0,
    audioInputTokens: 0,
    audioOutputTokens: 0,
    images: 0,
    webSearches: 0,
    usageSource: "upstream",
    attempts: 1,
    firstByteMs: null,
    durationMs: 100,
    waitMs: 0,
    responseId: null,
    upstreamRequestId: null,
    trace: null,
    ...NO_MONEY,
    ...NO_FALLBACK,
    ...change,
  };
}

/** Inserts rows as billing does. */
export async function insertUsage(db: Db, rows: readonly UsageRow[]): Promise<void> {
  if (rows.length === 0) return;
  await new UsageNumbers().within(db, (tx, numbering) => insertNewUsage(tx, numbering, rows));
}
