/**
 * Usage rows as lists of values, in two parts. The kind holds the values that concurrent requests often share; it is
 * written to the database and the journal once for many rows.
 */

import type { Nano } from "../../money/nano.ts";
import type { Row, SqlValue } from "../engine/db.ts";
import type { UsageFlag, UsageRow } from "./usage-row.ts";

/** Columns that the database stores once per kind; rows refer to them by number (`usage-numbers.ts`). */
export const TOLD_ONCE = [
  "public_model",
  "upstream_model",
  "endpoint",
  "stream",
  "outcome",
  "status",
  "error_code",
  "usage_source",
  "attempts",
  "payer",
  "tariff_id",
  "flags",
] as const;
/** Columns of the kind that are stored in each row: counts with many possible values, and indexed columns. */
export const TOLD_IN_ROW = [
  "interface",
  "request_count",
  "cache_write_tokens",
  "images",
  "image_input_tokens",
  "audio_input_tokens",
  "audio_output_tokens",
] as const;
export const KIND_COLUMNS = [...TOLD_ONCE, ...TOLD_IN_ROW] as const;

/** In the order of KIND_COLUMNS. */
export function kindValues(row: UsageRow): SqlValue[] {
  return [
    row.publicModel,
    row.upstreamModel,
    row.endpoint,
    Number(row.stream),
    row.outcome,
    row.status,
    row.errorCode,
    row.usageSource,
    row.attempts,
    row.payer,
    row.tariffId,
    flagsValue(row.flags),
    row.interface,
    row.requestCount,
    row.cacheWriteTokens,
    row.images,
    row.imageInputTokens,
    row.audioInputTokens,
    row.audioOutputTokens,
  ];
}

/** Compares all KIND_COLUMNS. */
export function isSameKind(one: UsageRow, other: UsageRow): boolean {
  return (
    one.publicModel === other.publicModel &&
    one.upstreamModel === other.upstreamModel &&
    one.endpoint === other.endpoint &&
    one.interface === other.interface &&
    one.requestCount === other.requestCount &&
    one.stream === other.stream &&
    one.outcome === other.outcome &&
    one.status === other.status &&
    one.errorCode === other.errorCode &&
    one.usageSource === other.usageSource &&
    one.attempts === other.attempts &&
    one.payer === other.payer &&
    one.tariffId === other.tariffId &&
    flagsValue(one.flags) === flagsValue(other.flags) &&
    one.cacheWriteTokens === other.cacheWriteTokens &&
    one.images === other.images &&
    one.imageInputTokens === other.imageInputTokens &&
    one.audioInputTokens === other.audioInputTokens &&
    one.audioOutputTokens === other.audioOutputTokens
  );
}

export const REST_COLUMNS = [
  "request_id",
  "at_ms",
  "key_id",
  "user_id",
  "group_id",
  "account_id",
  "input_tokens",
  "cached_tokens",
  "output_tokens",
  "reasoning_tokens",
  "first_byte_ms",
  "duration_ms",
  "wait_ms",
  "response_id",
  "upstream_request_id",
  "trace",
  "cost_nano",
  "charged_nano",
  "upstream_nano",
] as const;

/** Appends in the order of REST_COLUMNS. Appending avoids one more array per row. */
export function pushRest(values: SqlValue[], row: UsageRow): void {
  values.push(
    row.requestId,
    row.atMs,
    row.keyId,
    row.userId,
    row.groupId,
    row.accountId,
    row.inputTokens,
    row.cachedTokens,
    row.outputTokens,
    row.reasoningTokens,
    row.firstByteMs,
    row.durationMs,
    row.waitMs,
    row.responseId,
    row.upstreamRequestId,
    row.trace,
    nanoValue(row.costNano),
    nanoValue(row.chargedNano),
    nanoValue(row.upstreamNano),
  );
}

export const USAGE_COLUMNS = [...KIND_COLUMNS, ...REST_COLUMNS] as const;

/** Selects every column that `toUsageRow` reads. */
export const SELECT_USAGE = `SELECT ${USAGE_COLUMNS.map((column) =>
  column.endsWith("_nano") ? `CAST(${column} AS TEXT) AS ${column}` : column,
).join(", ")} FROM usage`;

/** In the order of USAGE_COLUMNS. */
export function toValues(row: UsageRow): SqlValue[] {
  const values = kindValues(row);
  pushRest(values, row);
  return values;
}

/** Converts values to the form in which the database returns them, for `toUsageRow`: money is text. */
export function asStored(columns: readonly string[], values: readonly SqlValue[]): Row {
  return Object.fromEntries(
    columns.map((column, index) => {
      const value = values[index] ?? null;
      return [column, column.endsWith("_nano") ? String(value) : value];
    }),
  );
}

export function flagsValue(flags: readonly UsageFlag[]): string | null {
  return flags.length === 0 ? null : flags.join(",");
}

/** A number if it is exact: writing a bigint as text takes several times as long. */
export function nanoValue(nano: Nano): number | string {
  const number = Number(nano);
  return Number.isSafeInteger(number) ? number : nano.toString();
}
