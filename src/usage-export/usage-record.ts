/** The exported form of a request: one JSON object. Its fields are documented in docs/usage-export.md. */

import { usdText } from "../money/nano.ts";
import type { Db } from "../store/engine/db.ts";
import { lookUpNames } from "../store/reports/names.ts";
import type { UsageRow } from "../store/usage/usage-row.ts";

export interface NumberedRow {
  readonly cursor: string;
  readonly row: UsageRow;
}

/** Names are those of now; a deleted object has none. */
export async function buildUsageRecords(db: Db, rows: readonly NumberedRow[]): Promise<object[]> {
  const lookUp = (kind: "key" | "user" | "group" | "account", read: (row: UsageRow) => string | null) =>
    lookUpNames(
      db,
      kind,
      rows.map(({ row }) => read(row)),
    );
  const keys = await lookUp("key", ({ keyId }) => keyId);
  const users = await lookUp("user", ({ userId }) => userId);
  const groups = await lookUp("group", ({ groupId }) => groupId);
  const accounts = await lookUp("account", ({ accountId }) => accountId);
  const nameIn = (names: ReadonlyMap<string, string>, id: string | null) =>
    id === null ? null : (names.get(id) ?? null);
  return rows.map(({ cursor, row }) => ({
    request_id: row.requestId,
    cursor,
    time: new Date(row.atMs).toISOString(),
    request_count: row.requestCount,
    user_id: row.userId,
    user: nameIn(users, row.userId),
    key_id: row.keyId,
    key: nameIn(keys, row.keyId),
    group_id: row.groupId,
    group: nameIn(groups, row.groupId),
    account_id: row.accountId,
    account: nameIn(accounts, row.accountId),
    interface: row.interface,
    endpoint: row.endpoint,
    model: row.publicModel,
    upstream_model: row.upstreamModel,
    stream: row.stream,
    status: row.status,
    outcome: row.outcome,
    error_code: row.errorCode,
    attempts: row.attempts,
    ...buildAmounts(row),
    waited_ms: row.waitMs,
    first_byte_ms: row.firstByteMs,
    duration_ms: row.durationMs,
    response_id: row.responseId,
    upstream_request_id: row.upstreamRequestId,
  }));
}

/** USD as decimal text: a JSON number would be rounded by most readers. */
function buildAmounts(row: UsageRow) {
  return {
    usage_source: row.usageSource,
    input_tokens: row.inputTokens,
    cached_tokens: row.cachedTokens,
    cache_write_tokens: row.cacheWriteTokens,
    cache_write_1h_tokens: row.cacheWrite1hTokens,
    output_tokens: row.outputTokens,
    reasoning_tokens: row.reasoningTokens,
    image_input_tokens: row.imageInputTokens,
    audio_input_tokens: row.audioInputTokens,
    audio_output_tokens: row.audioOutputTokens,
    images: row.images,
    web_searches: row.webSearches,
    cost_usd: usdText(row.costNano),
    charged_usd: usdText(row.chargedNano),
    upstream_cost_usd: usdText(row.upstreamNano),
    payer: row.payer,
    flags: row.flags,
  };
}
