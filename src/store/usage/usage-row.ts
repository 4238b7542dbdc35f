/** The usage row: its fields, and the limits that make it storable. */

import type { Nano } from "../../money/nano.ts";
import { INTERFACES, type Interface } from "../../records.ts";
import type { Row } from "../engine/db.ts";
import { flag, integer, integerOrNull, nano, oneOf, text, textOrNull } from "../engine/row.ts";

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

/** `estimated`: counted by the gateway. `partial`: counted from the received part of an interrupted response. */
export const USAGE_SOURCES = ["upstream", "estimated", "partial", "none"] as const;
export type UsageSource = (typeof USAGE_SOURCES)[number];

export const USAGE_PAYERS = ["balance", "subscription"] as const;
export type UsagePayer = (typeof USAGE_PAYERS)[number];

/**
 * Flags about the charge. `estimated`, `partial` and `clamped` say how the usage was counted; `clamped` means that
 * it was implausibly high or cost more than the database can store. `capped`: the output was limited to what the
 * payer can pay. `overrun`: the cost exceeded the hold. `recovered`: the process died and another one settled the
 * request.
 */
export const USAGE_FLAGS = ["estimated", "partial", "clamped", "overrun", "recovered", "capped"] as const;
export type UsageFlag = (typeof USAGE_FLAGS)[number];

export interface UsageTokens {
  inputTokens: number;
  cachedTokens: number;
  cacheWriteTokens: number;
  outputTokens: number;
  reasoningTokens: number;
  /** Parts of input and output that are not text and have their own price. */
  imageInputTokens: number;
  audioInputTokens: number;
  audioOutputTokens: number;
  images: number;
}

export interface UsageMoney {
  /** Cost by the tariff. */
  costNano: Nano;
  /** The part of the cost that the payer paid. */
  chargedNano: Nano;
  /** Expected cost at the upstreams, including failed attempts. */
  upstreamNano: Nano;
  payer: UsagePayer | null;
  tariffId: string | null;
  flags: readonly UsageFlag[];
}

/** For an unpaid request. */
export const NO_MONEY: UsageMoney = {
  costNano: 0n,
  chargedNano: 0n,
  upstreamNano: 0n,
  payer: null,
  tariffId: null,
  flags: [],
};

export interface UsageRow extends UsageTokens, UsageMoney {
  /** For a row that counts several requests: the id of the first one. */
  requestId: string;
  /**
   * The number of unserved requests of one kind that the row stands for; 1 for every other row. A row with 0 ends a
   * hold and is not stored, because its request is part of another row's count.
   */
  requestCount: number;
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
  usageSource: UsageSource;
  attempts: number;
  firstByteMs: number | null;
  durationMs: number;
  /** The part of the duration spent waiting for a free account. */
  waitMs: number;
  responseId: string | null;
  upstreamRequestId: string | null;
  /** How the account was chosen, as JSON; null if no account was selected. */
  trace: string | null;
}

/** PostgreSQL rejects index entries above some 2,700 bytes. */
const TEXT_CHARS_MAX = 512;
const TRACE_BYTES_MAX = 16 * 1024;
/** Far above any real count, and a thousand hours of such counts still sum to less than 2^53. */
const COUNT_MAX = 1e12;
/**
 * $100,000: far above the cost of any request at a sensible price, and 90,000 such costs still sum to a storable
 * value. Charges need no such bound, because the payer had the money.
 */
const COST_NANO_MAX: Nano = 100_000n * 1_000_000_000n;

/**
 * Clamps values to what the database accepts. Callers choose model names, and upstreams choose ids and counts. An
 * invalid value would make the database reject the whole batch.
 */
export function clampCount(row: UsageRow): UsageRow {
  if (isStorable(row)) return row;
  // Field by field: spreading this many fields takes several times as long, and this runs for every request.
  return {
    requestId: row.requestId,
    requestCount: row.requestCount,
    atMs: Math.round(row.atMs),
    keyId: row.keyId,
    userId: row.userId,
    groupId: row.groupId,
    accountId: row.accountId,
    interface: row.interface,
    endpoint: row.endpoint,
    publicModel: clip(row.publicModel),
    upstreamModel: row.upstreamModel === null ? null : clip(row.upstreamModel),
    stream: row.stream,
    status: row.status,
    outcome: row.outcome,
    errorCode: row.errorCode,
    inputTokens: clampToCount(row.inputTokens),
    cachedTokens: clampToCount(row.cachedTokens),
    cacheWriteTokens: clampToCount(row.cacheWriteTokens),
    outputTokens: clampToCount(row.outputTokens),
    reasoningTokens: clampToCount(row.reasoningTokens),
    imageInputTokens: clampToCount(row.imageInputTokens),
    audioInputTokens: clampToCount(row.audioInputTokens),
    audioOutputTokens: clampToCount(row.audioOutputTokens),
    images: clampToCount(row.images),
    usageSource: row.usageSource,
    attempts: row.attempts,
    firstByteMs: row.firstByteMs === null ? null : clampToCount(row.firstByteMs),
    durationMs: clampToCount(row.durationMs),
    waitMs: clampToCount(row.waitMs),
    responseId: storableId(row.responseId),
    upstreamRequestId: row.upstreamRequestId === null ? null : clip(row.upstreamRequestId),
    trace: storableTrace(row.trace),
    costNano: storableCost(row.costNano, row.chargedNano),
    chargedNano: row.chargedNano,
    upstreamNano: storableCost(row.upstreamNano),
    payer: row.payer,
    tariffId: row.tariffId,
    flags: isCostStorable(row) || row.flags.includes("clamped") ? row.flags : [...row.flags, "clamped"],
  };
}

function isStorable(row: UsageRow): boolean {
  return (
    Number.isInteger(row.atMs) &&
    clip(row.publicModel) === row.publicModel &&
    (row.upstreamModel === null || clip(row.upstreamModel) === row.upstreamModel) &&
    isCount(row.inputTokens) &&
    isCount(row.cachedTokens) &&
    isCount(row.cacheWriteTokens) &&
    isCount(row.outputTokens) &&
    isCount(row.reasoningTokens) &&
    isCount(row.imageInputTokens) &&
    isCount(row.audioInputTokens) &&
    isCount(row.audioOutputTokens) &&
    isCount(row.images) &&
    (row.firstByteMs === null || isCount(row.firstByteMs)) &&
    isCount(row.durationMs) &&
    isCount(row.waitMs) &&
    storableId(row.responseId) === row.responseId &&
    (row.upstreamRequestId === null || clip(row.upstreamRequestId) === row.upstreamRequestId) &&
    storableTrace(row.trace) === row.trace &&
    isCostStorable(row)
  );
}

function isCostStorable({ costNano, chargedNano, upstreamNano }: UsageMoney): boolean {
  return costNano === storableCost(costNano, chargedNano) && upstreamNano === storableCost(upstreamNano);
}

export function storableTokens(tokens: UsageTokens): UsageTokens {
  return {
    inputTokens: clampToCount(tokens.inputTokens),
    cachedTokens: clampToCount(tokens.cachedTokens),
    cacheWriteTokens: clampToCount(tokens.cacheWriteTokens),
    outputTokens: clampToCount(tokens.outputTokens),
    reasoningTokens: clampToCount(tokens.reasoningTokens),
    imageInputTokens: clampToCount(tokens.imageInputTokens),
    audioInputTokens: clampToCount(tokens.audioInputTokens),
    audioOutputTokens: clampToCount(tokens.audioOutputTokens),
    images: clampToCount(tokens.images),
  };
}

/** An id is stored whole or not at all: two ids with the same beginning must not become equal. */
export function storableId(id: string | null): string | null {
  return id === null || id.length > TEXT_CHARS_MAX || clip(id) !== id ? null : id;
}

/** A truncated JSON text is invalid, so a trace that is too long is omitted. */
function storableTrace(trace: string | null): string | null {
  if (trace === null || Buffer.byteLength(trace) > TRACE_BYTES_MAX) return null;
  return trace.isWellFormed() && !trace.includes("\0") ? trace : null;
}

export function clip(value: string): string {
  const short = value.length > TEXT_CHARS_MAX ? value.slice(0, TEXT_CHARS_MAX) : value;
  if (short.isWellFormed() && !short.includes("\0")) return short;
  return short.toWellFormed().replaceAll("\0", "\uFFFD");
}

function clampToCount(value: number): number {
  return value > 0 ? Math.round(Math.min(value, COUNT_MAX)) : 0;
}

/** Never less than the charged amount. */
export function storableCost(nano: Nano, chargedNano: Nano = 0n): Nano {
  if (nano <= COST_NANO_MAX) return nano;
  return chargedNano > COST_NANO_MAX ? chargedNano : COST_NANO_MAX;
}

function isCount(value: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= COUNT_MAX;
}

function toTokens(row: Row): UsageTokens {
  return {
    inputTokens: integer(row, "input_tokens"),
    cachedTokens: integer(row, "cached_tokens"),
    cacheWriteTokens: integer(row, "cache_write_tokens"),
    outputTokens: integer(row, "output_tokens"),
    reasoningTokens: integer(row, "reasoning_tokens"),
    imageInputTokens: integer(row, "image_input_tokens"),
    audioInputTokens: integer(row, "audio_input_tokens"),
    audioOutputTokens: integer(row, "audio_output_tokens"),
    images: integer(row, "images"),
  };
}

export function toUsageRow(row: Row): UsageRow {
  return {
    requestId: text(row, "request_id"),
    // Journals and spools of earlier versions lack this column.
    requestCount: row.request_count === undefined ? 1 : integer(row, "request_count"),
    atMs: integer(row, "at_ms"),
    keyId: text(row, "key_id"),
    userId: textOrNull(row, "user_id"),
    groupId: text(row, "group_id"),
    accountId: textOrNull(row, "account_id"),
    interface: oneOf(row, "interface", INTERFACES),
    endpoint: text(row, "endpoint"),
    publicModel: text(row, "public_model"),
    upstreamModel: textOrNull(row, "upstream_model"),
    stream: flag(row, "stream"),
    status: integer(row, "status"),
    outcome: oneOf(row, "outcome", USAGE_OUTCOMES),
    errorCode: textOrNull(row, "error_code"),
    ...toTokens(row),
    usageSource: oneOf(row, "usage_source", USAGE_SOURCES),
    attempts: integer(row, "attempts"),
    firstByteMs: integerOrNull(row, "first_byte_ms"),
    durationMs: integer(row, "duration_ms"),
    waitMs: integer(row, "wait_ms"),
    responseId: textOrNull(row, "response_id"),
    upstreamRequestId: textOrNull(row, "upstream_request_id"),
    trace: textOrNull(row, "trace"),
    costNano: nano(row, "cost_nano"),
    chargedNano: nano(row, "charged_nano"),
    upstreamNano: nano(row, "upstream_nano"),
    payer: row.payer === null ? null : oneOf(row, "payer", USAGE_PAYERS),
    tariffId: textOrNull(row, "tariff_id"),
    flags: toFlags(textOrNull(row, "flags")),
  };
}

function toFlags(joined: string | null): UsageFlag[] {
  const names = joined?.split(",") ?? [];
  return USAGE_FLAGS.filter((flag) => names.includes(flag));
}
