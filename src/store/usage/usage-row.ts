/**
 * The usage row, declared once: each field with its column, its kind and its place in the database. Columns, values,
 * comparison, clamping and reading are derived from this table. A field of `UsageRow` that the table lacks does not
 * compile.
 */

import type { Nano } from "../../money/nano.ts";
import { NO_TOKENS, type TokenCounts } from "../../money/token-counts.ts";
import { INTERFACES, type Interface } from "../../records/interfaces.ts";
import { compile } from "../engine/compile-fields.ts";
import type { Row, SqlValue } from "../engine/db.ts";
import { enumText, flag, integer, integerOrNull, nano, text, textOrNull } from "../engine/row.ts";
import {
  clip,
  nanoValue,
  storableCost,
  storableCount,
  storableId,
  storableTrace,
} from "./storable-values.ts";

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
 * Flags about the charge. `estimated`, `partial` and `clamped` describe how the usage was counted; `clamped` means that
 * it was implausibly high or cost more than the database can store. `capped`: the output was limited to what the
 * payer can pay. `overrun`: the cost exceeded the hold. `recovered`: the process died and another one settled the
 * request.
 */
export const USAGE_FLAGS = ["estimated", "partial", "clamped", "overrun", "recovered", "capped"] as const;
export type UsageFlag = (typeof USAGE_FLAGS)[number];

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

/** Of a request that another step than the first served. The row counts for the group and model that served it. */
export interface UsageFallback {
  /** The id of the key's group. */
  requestedGroup: string | null;
  requestedModel: string | null;
  /** The number of the step: from 1. */
  fallbackStep: number | null;
  /** The condition on which the request left the step before. */
  fallbackReason: string | null;
}

/** For a request that its first step served, or none. */
export const NO_FALLBACK: UsageFallback = {
  requestedGroup: null,
  requestedModel: null,
  fallbackStep: null,
  fallbackReason: null,
};

export interface UsageRow extends TokenCounts, UsageMoney, UsageFallback {
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

/** How values of one type are stored and read. */
interface FieldKind<T> {
  read: (row: Row, column: string) => T;
  /** Converts the value to the form in which the database takes it. Without it, values are stored as they are. */
  toValue?: (value: T) => SqlValue;
  /** Returns the nearest value that the database accepts. Without it, every value is accepted. */
  clamp?: (value: T) => T;
  /** The values are not compared by identity, but as they are stored. */
  isComparedAsStored?: true;
  /** The column is selected as text. */
  isMoney?: true;
}

/**
 * Where the database stores a field. `kind`: once for all rows with the same values, in `usage_kind`. `shared`: in
 * each row, because the column is indexed or has many values, but rows written together mostly agree in it. `row`: in
 * each row.
 */
type FieldPlace = "kind" | "shared" | "row";

interface UsageField<T> extends FieldKind<T> {
  column: string;
  place: FieldPlace;
  /** The column of `usage_row` that stores the number of this id (`usage-numbers.ts`). */
  numberColumn?: string;
}

const id: FieldKind<string> = { read: text };
const idOrNull: FieldKind<string | null> = { read: textOrNull };
const name: FieldKind<string> = { read: text, clamp: clip };
const nameOrNull: FieldKind<string | null> = {
  read: textOrNull,
  clamp: (value) => (value === null ? null : clip(value)),
};
/** Columns that journals of the version before do not have. */
const addedText: FieldKind<string | null> = {
  read: (row, column) => (row[column] === undefined ? null : textOrNull(row, column)),
};
const addedInteger: FieldKind<number | null> = {
  read: (row, column) => (row[column] === undefined ? null : integerOrNull(row, column)),
};
const integers: FieldKind<number> = { read: integer };
const count: FieldKind<number> = { read: integer, clamp: storableCount };
const countOrNull: FieldKind<number | null> = {
  read: integerOrNull,
  clamp: (value) => (value === null ? null : storableCount(value)),
};
const money: FieldKind<Nano> = { read: nano, toValue: nanoValue, isMoney: true };

function enumField<T extends string>(allowed: readonly T[]): FieldKind<T> {
  return { read: (row, column) => enumText(row, column, allowed) };
}

function flagsValue(flags: readonly UsageFlag[]): string | null {
  return flags.length === 0 ? null : flags.join(",");
}

function readFlags(row: Row, column: string): UsageFlag[] {
  const names = textOrNull(row, column)?.split(",") ?? [];
  return USAGE_FLAGS.filter((one) => names.includes(one));
}

/** In the order of the columns in statements and in the journal. */
export const USAGE_FIELDS: Readonly<{ [Field in keyof UsageRow]: UsageField<UsageRow[Field]> }> = {
  publicModel: { column: "public_model", place: "kind", ...name },
  upstreamModel: { column: "upstream_model", place: "kind", ...nameOrNull },
  endpoint: { column: "endpoint", place: "kind", read: text },
  stream: { column: "stream", place: "kind", read: flag, toValue: Number },
  outcome: { column: "outcome", place: "kind", ...enumField(USAGE_OUTCOMES) },
  status: { column: "status", place: "kind", ...integers },
  errorCode: { column: "error_code", place: "kind", read: textOrNull },
  usageSource: { column: "usage_source", place: "kind", ...enumField(USAGE_SOURCES) },
  attempts: { column: "attempts", place: "kind", ...integers },
  payer: {
    column: "payer",
    place: "kind",
    read: (row, column) => (row[column] === null ? null : enumText(row, column, USAGE_PAYERS)),
  },
  tariffId: { column: "tariff_id", place: "kind", ...idOrNull },
  flags: { column: "flags", place: "kind", read: readFlags, toValue: flagsValue, isComparedAsStored: true },
  requestedGroup: { column: "requested_group", place: "kind", ...addedText },
  requestedModel: { column: "requested_model", place: "kind", ...addedText },
  fallbackStep: { column: "fallback_step", place: "kind", ...addedInteger },
  fallbackReason: { column: "fallback_reason", place: "kind", ...addedText },

  interface: { column: "interface", place: "shared", ...enumField(INTERFACES) },
  requestCount: { column: "request_count", place: "shared", ...integers },
  cacheWriteTokens: { column: "cache_write_tokens", place: "shared", ...count },
  cacheWrite1hTokens: { column: "cache_write_1h_tokens", place: "shared", ...count },
  images: { column: "images", place: "shared", ...count },
  webSearches: { column: "web_searches", place: "shared", ...count },
  imageInputTokens: { column: "image_input_tokens", place: "shared", ...count },
  audioInputTokens: { column: "audio_input_tokens", place: "shared", ...count },
  audioOutputTokens: { column: "audio_output_tokens", place: "shared", ...count },

  requestId: { column: "request_id", place: "row", ...id },
  atMs: { column: "at_ms", place: "row", read: integer, clamp: Math.round },
  keyId: { column: "key_id", place: "row", numberColumn: "key_no", ...id },
  userId: { column: "user_id", place: "row", numberColumn: "user_no", ...idOrNull },
  groupId: { column: "group_id", place: "row", numberColumn: "group_no", ...id },
  accountId: { column: "account_id", place: "row", numberColumn: "account_no", ...idOrNull },
  inputTokens: { column: "input_tokens", place: "row", ...count },
  cachedTokens: { column: "cached_tokens", place: "row", ...count },
  outputTokens: { column: "output_tokens", place: "row", ...count },
  reasoningTokens: { column: "reasoning_tokens", place: "row", ...count },
  firstByteMs: { column: "first_byte_ms", place: "row", ...countOrNull },
  durationMs: { column: "duration_ms", place: "row", ...count },
  waitMs: { column: "wait_ms", place: "row", ...count },
  responseId: { column: "response_id", place: "row", read: textOrNull, clamp: storableId },
  upstreamRequestId: { column: "upstream_request_id", place: "row", ...nameOrNull },
  trace: { column: "trace", place: "row", read: textOrNull, clamp: storableTrace },
  // Costs are clamped together (`clampCosts`), because their limit depends on the charge.
  costNano: { column: "cost_nano", place: "row", ...money },
  chargedNano: { column: "charged_nano", place: "row", ...money },
  upstreamNano: { column: "upstream_nano", place: "row", ...money },
};

export const FIELD_NAMES = Object.keys(USAGE_FIELDS) as readonly (keyof UsageRow)[];
export const TOKEN_FIELDS = Object.keys(NO_TOKENS) as readonly (keyof TokenCounts)[];

/** The functions of the table, as names for compiled functions, like clamp_publicModel. */
export const FIELD_FUNCTIONS: Readonly<Record<string, unknown>> = Object.fromEntries(
  FIELD_NAMES.flatMap((field) => {
    const { read, toValue, clamp } = USAGE_FIELDS[field];
    return [
      [`read_${field}`, read],
      [`toValue_${field}`, toValue],
      [`clamp_${field}`, clamp],
    ];
  }),
);

const CLAMPED_FIELDS = FIELD_NAMES.filter((field) => USAGE_FIELDS[field].clamp !== undefined);

const clampSource = (field: keyof UsageRow): string =>
  USAGE_FIELDS[field].clamp === undefined ? `row.${field}` : `clamp_${field}(row.${field})`;

/** Returns the row itself if all of its values are storable. */
const clampFields = compile<(row: UsageRow) => UsageRow>(
  `(row) => ${CLAMPED_FIELDS.map((field) => `${clampSource(field)} === row.${field}`).join(" && ")}
    ? row
    : { ${FIELD_NAMES.map((field) => `${field}: ${clampSource(field)}`).join(", ")} }`,
  FIELD_FUNCTIONS,
);

export function clampCount(row: UsageRow): UsageRow {
  return clampCosts(clampFields(row));
}

function clampCosts(row: UsageRow): UsageRow {
  const costNano = storableCost(row.costNano, row.chargedNano);
  const upstreamNano = storableCost(row.upstreamNano);
  if (costNano === row.costNano && upstreamNano === row.upstreamNano) return row;
  const flags: readonly UsageFlag[] = row.flags.includes("clamped") ? row.flags : [...row.flags, "clamped"];
  return { ...row, costNano, upstreamNano, flags };
}

export function storableTokens(tokens: TokenCounts): TokenCounts {
  const storable = { ...NO_TOKENS };
  for (const field of TOKEN_FIELDS) storable[field] = storableCount(tokens[field]);
  return storable;
}

export const toUsageRow = compile<(row: Row) => UsageRow>(
  `(row) => ({ ${FIELD_NAMES.map((field) => `${field}: read_${field}(row, "${USAGE_FIELDS[field].column}")`).join(", ")} })`,
  FIELD_FUNCTIONS,
);
