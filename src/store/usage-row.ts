import type { Interface } from "../records.ts";
import type { Value } from "./db.ts";

export const USAGE_OUTCOMES = [
  "completed",
  "incomplete",
  "failed",
  "cancelled",
  "pending",
  "client_gone",
  "upstream_cut",
  "refused",
] as const;
export type UsageOutcome = (typeof USAGE_OUTCOMES)[number];

export interface UsageTokens {
  inputTokens: number;
  cachedTokens: number;
  cacheWriteTokens: number;
  outputTokens: number;
  reasoningTokens: number;
  images: number;
}

export interface UsageRow extends UsageTokens {
  requestId: string;
  atMs: number;
  keyId: string;
  userId: string | null;
  groupId: string;
  accountId: string | null;
  interface: Interface;
  endpoint: string;
  publicModel: string;
  upstreamModel: string | null;
  stream: boolean;
  status: number;
  outcome: UsageOutcome;
  errorCode: string | null;
  usageSource: "upstream" | "none";
  attempts: number;
  firstByteMs: number | null;
  durationMs: number;
  responseId: string | null;
  upstreamRequestId: string | null;
}

/** PostgreSQL refuses index entries above some 2,700 bytes. */
const TEXT_CHARS_MAX = 512;
/** Far above any true count, and a thousand hours of it still add up below 2^53. */
const COUNT_MAX = 1e12;

/**
 * Callers choose model names, upstreams choose ids and counts; none of them may make a row that the engine
 * refuses, for a whole batch would be lost with it.
 */
export function storable(row: UsageRow): UsageRow {
  return {
    ...row,
    ...storableTokens(row),
    atMs: Math.round(row.atMs),
    publicModel: clip(row.publicModel),
    upstreamModel: row.upstreamModel === null ? null : clip(row.upstreamModel),
    firstByteMs: row.firstByteMs === null ? null : count(row.firstByteMs),
    durationMs: count(row.durationMs),
    responseId: storableId(row.responseId),
    upstreamRequestId: row.upstreamRequestId === null ? null : clip(row.upstreamRequestId),
  };
}

export function storableTokens(tokens: UsageTokens): UsageTokens {
  return {
    inputTokens: count(tokens.inputTokens),
    cachedTokens: count(tokens.cachedTokens),
    cacheWriteTokens: count(tokens.cacheWriteTokens),
    outputTokens: count(tokens.outputTokens),
    reasoningTokens: count(tokens.reasoningTokens),
    images: count(tokens.images),
  };
}

/** An id is kept whole or not at all: two that share their beginning must not become one. */
export function storableId(id: string | null): string | null {
  return id === null || id.length > TEXT_CHARS_MAX || clip(id) !== id ? null : id;
}

function clip(value: string): string {
  const short = value.length > TEXT_CHARS_MAX ? value.slice(0, TEXT_CHARS_MAX) : value;
  if (short.isWellFormed() && !short.includes("\0")) return short;
  return short.toWellFormed().replaceAll("\0", "\uFFFD");
}

function count(value: number): number {
  return value > 0 ? Math.round(Math.min(value, COUNT_MAX)) : 0;
}

export const USAGE_COLUMNS = [
  "request_id",
  "at_ms",
  "key_id",
  "user_id",
  "group_id",
  "account_id",
  "interface",
  "endpoint",
  "public_model",
  "upstream_model",
  "stream",
  "status",
  "outcome",
  "error_code",
  "input_tokens",
  "cached_tokens",
  "cache_write_tokens",
  "output_tokens",
  "reasoning_tokens",
  "images",
  "usage_source",
  "attempts",
  "first_byte_ms",
  "duration_ms",
  "response_id",
  "upstream_request_id",
] as const;

/** In the order of USAGE_COLUMNS. */
export function toValues(row: UsageRow): Value[] {
  return [
    row.requestId,
    row.atMs,
    row.keyId,
    row.userId,
    row.groupId,
    row.accountId,
    row.interface,
    row.endpoint,
    row.publicModel,
    row.upstreamModel,
    Number(row.stream),
    row.status,
    row.outcome,
    row.errorCode,
    row.inputTokens,
    row.cachedTokens,
    row.cacheWriteTokens,
    row.outputTokens,
    row.reasoningTokens,
    row.images,
    row.usageSource,
    row.attempts,
    row.firstByteMs,
    row.durationMs,
    row.responseId,
    row.upstreamRequestId,
  ];
}
