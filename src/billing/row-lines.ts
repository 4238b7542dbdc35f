/**
 * The lines of a journal that tell rows which nobody pays for. They come by the ten thousand a second, so what many of
 * them have in common, their kind, is told once a segment.
 */

import { z } from "zod";
import type { Value } from "../store/db.ts";
import { asStored, flagsValue, nanoValue, toUsageRow, type UsageRow } from "../store/usage-row.ts";

/** What rows of a kind have in common. */
const KIND_COLUMNS = [
  "group_id",
  "public_model",
  "upstream_model",
  "endpoint",
  "interface",
  "stream",
  "status",
  "outcome",
  "error_code",
  "usage_source",
  "attempts",
  "payer",
  "tariff_id",
  "flags",
] as const;

const OWN_COLUMNS = [
  "request_id",
  "at_ms",
  "key_id",
  "user_id",
  "account_id",
  "input_tokens",
  "cached_tokens",
  "cache_write_tokens",
  "output_tokens",
  "reasoning_tokens",
  "image_input_tokens",
  "audio_input_tokens",
  "audio_output_tokens",
  "images",
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

/** Before the first row of a segment: what its kinds and its rows tell. */
const COLUMNS_LINE = JSON.stringify(["w", KIND_COLUMNS, OWN_COLUMNS]);

/** Kinds that are remembered; looking through more of them costs more than telling one again. */
const KINDS_MAX = 32;

export interface RowTeller {
  /** Of this row, and of its kind if that was not told yet. What it returns has to follow what it returned before. */
  linesOf(row: UsageRow): string;
}

/** For one segment: each is read without the others. */
export function openRowTeller(): RowTeller {
  /** One row of each; the place of a kind is its number. */
  let kinds: UsageRow[] = [];
  let isBegun = false;
  return {
    linesOf(row) {
      const known = kinds.findIndex((kind) => isAlike(kind, row));
      if (known !== -1) return rowLine(known, row);
      // Numbers begin anew, and mean from here on what is told of them from here on.
      if (kinds.length === KINDS_MAX) kinds = [];
      const lines = `${kindLine(kinds.length, row)}\n${rowLine(kinds.length, row)}`;
      kinds.push(row);
      if (isBegun) return lines;
      isBegun = true;
      return `${COLUMNS_LINE}\n${lines}`;
    },
  };
}

/** In all KIND_COLUMNS. */
function isAlike(one: UsageRow, other: UsageRow): boolean {
  return (
    one.publicModel === other.publicModel &&
    one.groupId === other.groupId &&
    one.upstreamModel === other.upstreamModel &&
    one.endpoint === other.endpoint &&
    one.interface === other.interface &&
    one.stream === other.stream &&
    one.status === other.status &&
    one.outcome === other.outcome &&
    one.errorCode === other.errorCode &&
    one.usageSource === other.usageSource &&
    one.attempts === other.attempts &&
    one.payer === other.payer &&
    one.tariffId === other.tariffId &&
    flagsValue(one.flags) === flagsValue(other.flags)
  );
}

/** In the order of KIND_COLUMNS. */
function kindLine(number: number, row: UsageRow): string {
  return JSON.stringify([
    "k",
    number,
    row.groupId,
    row.publicModel,
    row.upstreamModel,
    row.endpoint,
    row.interface,
    Number(row.stream),
    row.status,
    row.outcome,
    row.errorCode,
    row.usageSource,
    row.attempts,
    row.payer,
    row.tariffId,
    flagsValue(row.flags),
  ]);
}

/** In the order of OWN_COLUMNS. */
function rowLine(kind: number, row: UsageRow): string {
  return JSON.stringify([
    "r",
    kind,
    row.requestId,
    row.atMs,
    row.keyId,
    row.userId,
    row.accountId,
    row.inputTokens,
    row.cachedTokens,
    row.cacheWriteTokens,
    row.outputTokens,
    row.reasoningTokens,
    row.imageInputTokens,
    row.audioInputTokens,
    row.audioOutputTokens,
    row.images,
    row.firstByteMs,
    row.durationMs,
    row.waitMs,
    row.responseId,
    row.upstreamRequestId,
    row.trace,
    nanoValue(row.costNano),
    nanoValue(row.chargedNano),
    nanoValue(row.upstreamNano),
  ]);
}

const valueShape = z.union([z.string(), z.number(), z.null()]);
const columnsShape = z.tuple([z.literal("w"), z.array(z.string()), z.array(z.string())]);
const kindShape = z.tuple([z.literal("k"), z.int()], valueShape);
const rowShape = z.tuple([z.literal("r"), z.int()], valueShape);

export interface RowReader {
  /** These throw at what they do not understand. */
  takeColumns(json: unknown): void;
  takeKind(json: unknown): void;
  takeRow(json: unknown): UsageRow;
}

/** For all segments of a journal in their order. */
export function openRowReader(): RowReader {
  let columns: readonly string[] = [];
  const kinds = new Map<number, readonly Value[]>();
  return {
    takeColumns(json) {
      const [, ofKinds, ofRows] = columnsShape.parse(json);
      columns = [...ofKinds, ...ofRows];
      kinds.clear();
    },
    takeKind(json) {
      const [, number, ...values] = kindShape.parse(json);
      kinds.set(number, values);
    },
    takeRow(json) {
      const [, number, ...values] = rowShape.parse(json);
      const kind = kinds.get(number);
      if (kind === undefined) throw new Error("Nothing was told of its kind.");
      return toUsageRow(asStored(columns, [...kind, ...values]));
    },
  };
}
