/** The lines of a journal: how the till tells what it promises, and how a successor reads it. */

import { z } from "zod";
import { INTERFACES } from "../records.ts";
import type { Row } from "../store/db.ts";
import { HOLD_STATES, type Hold, type HoldProgress, UNSENT } from "../store/holds.ts";
import { text } from "../store/row.ts";
import { toUsageRow, type UsageRow } from "../store/usage-row.ts";
import { asStored, flagsValue, nanoValue } from "../store/usage-values.ts";
import type { Settlement } from "./booking.ts";
import { readJsonLines, type Untaken } from "./json-lines.ts";
import { openRowReader } from "./row-lines.ts";

/** What a settlement tells; its hold has told the rest. */
const SETTLED_COLUMNS = [
  "request_id",
  "at_ms",
  "account_id",
  "upstream_model",
  "status",
  "outcome",
  "error_code",
  "input_tokens",
  "cached_tokens",
  "cache_write_tokens",
  "output_tokens",
  "reasoning_tokens",
  "image_input_tokens",
  "audio_input_tokens",
  "audio_output_tokens",
  "images",
  "usage_source",
  "attempts",
  "first_byte_ms",
  "duration_ms",
  "wait_ms",
  "response_id",
  "upstream_request_id",
  "trace",
  "cost_nano",
  "charged_nano",
  "upstream_nano",
  "flags",
] as const;

/** The first of a segment: what the settlements in it tell. */
export const COLUMNS_LINE = JSON.stringify(["v", ...SETTLED_COLUMNS]);

export function heldLine(hold: Hold): string {
  return JSON.stringify([
    "h",
    hold.requestId,
    hold.incarnation,
    hold.atMs,
    hold.userId,
    nanoValue(hold.amountNano),
    hold.tariffId,
    hold.keyId,
    hold.groupId,
    hold.interface,
    hold.endpoint,
    hold.publicModel,
    hold.stream,
    hold.inputTokens,
  ]);
}

export function progressLine(requestId: string, progress: HoldProgress): string {
  const { state, accountId, upstreamModel, outputTokens } = progress;
  return JSON.stringify(["p", requestId, state, accountId, upstreamModel, outputTokens]);
}

/** In the order of SETTLED_COLUMNS: to look each of them up by its name would take several times as long. */
export function settledLine({ row, chargedNano }: Settlement): string {
  const charged = nanoValue(chargedNano);
  return JSON.stringify([
    "s",
    charged,
    row.requestId,
    row.atMs,
    row.accountId,
    row.upstreamModel,
    row.status,
    row.outcome,
    row.errorCode,
    row.inputTokens,
    row.cachedTokens,
    row.cacheWriteTokens,
    row.outputTokens,
    row.reasoningTokens,
    row.imageInputTokens,
    row.audioInputTokens,
    row.audioOutputTokens,
    row.images,
    row.usageSource,
    row.attempts,
    row.firstByteMs,
    row.durationMs,
    row.waitMs,
    row.responseId,
    row.upstreamRequestId,
    row.trace,
    nanoValue(row.costNano),
    nanoValue(row.chargedNano),
    nanoValue(row.upstreamNano),
    flagsValue(row.flags),
  ]);
}

/** The columns that only a hold tells. */
function heldColumns(hold: Hold): Row {
  return {
    key_id: hold.keyId,
    user_id: hold.userId,
    group_id: hold.groupId,
    interface: hold.interface,
    endpoint: hold.endpoint,
    public_model: hold.publicModel,
    stream: Number(hold.stream),
    payer: "balance",
    tariff_id: hold.tariffId,
  };
}

/** Text where a number would not be exact. */
const nanoOf = z.union([z.string().regex(/^\d{1,19}$/), z.int().min(0)]).transform(BigInt);

const heldShape = z
  .tuple([
    z.literal("h"),
    z.string(),
    z.string(),
    z.number(),
    z.string(),
    nanoOf,
    z.string(),
    z.string(),
    z.string(),
    z.enum(INTERFACES),
    z.string(),
    z.string(),
    z.boolean(),
    z.number(),
  ])
  .transform(([, requestId, incarnation, atMs, userId, amount, tariffId, keyId, groupId, ...rest]): Hold => {
    const [face, endpoint, publicModel, stream, inputTokens] = rest;
    return {
      requestId,
      incarnation,
      atMs,
      userId,
      amountNano: amount,
      tariffId,
      keyId,
      groupId,
      interface: face,
      endpoint,
      publicModel,
      stream,
      inputTokens,
      subscriptionId: null,
      ...UNSENT,
    };
  });
const progressShape = z.tuple([
  z.literal("p"),
  z.string(),
  z.enum(HOLD_STATES),
  z.string().nullable(),
  z.string().nullable(),
  z.number(),
]);
const settledShape = z.tuple([z.literal("s"), nanoOf], z.union([z.string(), z.number(), z.null()]));
const columnsShape = z.tuple([z.literal("v")], z.string());

export interface JournalTold extends Untaken {
  /** Begun and not ended, as far as they had come. */
  open: Hold[];
  /** Ended; the store may know of them, or not. */
  settlements: Settlement[];
  /** Of requests that nobody pays for; the store may know them, or not. */
  rows: UsageRow[];
}

export function readJournal(lines: string): JournalTold {
  const open = new Map<string, Hold>();
  const settlements = new Map<string, Settlement>();
  const rows = new Map<string, UsageRow>();
  const rowReader = openRowReader();
  let columns: readonly string[] = SETTLED_COLUMNS;

  function take(json: unknown): void {
    switch (Array.isArray(json) ? json[0] : null) {
      case "v":
        columns = columnsShape.parse(json).slice(1);
        return;
      case "w":
        rowReader.takeColumns(json);
        return;
      case "k":
        rowReader.takeKind(json);
        return;
      case "r": {
        const row = rowReader.takeRow(json);
        rows.set(row.requestId, row);
        return;
      }
      case "h": {
        const hold = heldShape.parse(json);
        if (!settlements.has(hold.requestId)) open.set(hold.requestId, hold);
        return;
      }
      case "p": {
        const [, requestId, state, accountId, upstreamModel, outputTokens] = progressShape.parse(json);
        const hold = open.get(requestId);
        if (hold !== undefined) {
          open.set(requestId, { ...hold, state, accountId, upstreamModel, outputTokens });
        }
        return;
      }
      default: {
        const [, charged, ...values] = settledShape.parse(json);
        const told = asStored(columns, values);
        const hold = open.get(text(told, "request_id"));
        // The segment of its hold is thrown away when the store has it. Earlier versions told all of it here.
        if (hold === undefined && !("key_id" in told)) return;
        const row = toUsageRow(hold === undefined ? told : { ...heldColumns(hold), ...told });
        open.delete(row.requestId);
        settlements.set(row.requestId, { row, chargedNano: charged });
      }
    }
  }

  const untaken = readJsonLines(lines, take);
  return {
    open: [...open.values()],
    settlements: [...settlements.values()],
    rows: [...rows.values()],
    ...untaken,
  };
}
