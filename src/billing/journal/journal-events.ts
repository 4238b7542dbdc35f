/** The events of the journal, and their JSON: one line per event, readable without any other line. */

import { z } from "zod";
import { INTERFACES } from "../../records/interfaces.ts";
import type { SqlValue } from "../../store/engine/db.ts";
import { HOLD_STATES, type HoldProgress } from "../../store/money/holds.ts";
import { toUsageRow, type UsageRow } from "../../store/usage/usage-row.ts";
import { asStored, nanoValue, toValues, USAGE_COLUMNS } from "../../store/usage/usage-values.ts";
import { type HoldRequest, pickFacts } from "../engine/billing-types.ts";
import { clampInputTokens } from "../engine/hold-decisions.ts";

/** A hold of the full wanted amount on a wallet reservation. */
export interface JournaledHold {
  readonly request: HoldRequest;
  readonly atMs: number;
}

/** Requests with the same progress. */
export interface RequestProgress {
  readonly progress: HoldProgress;
  readonly requestIds: readonly string[];
}

/** The owner of the hold is not part of the line: the name of the file contains it. */
export function encodeHold({ request, atMs }: JournaledHold): string {
  return JSON.stringify({
    event: "hold",
    ...pickFacts(request),
    atMs,
    userId: request.userId,
    amountNano: nanoValue(request.wantedNano),
    tariffId: request.tariff.id,
    inputTokens: clampInputTokens(request),
  });
}

export function encodeProgress({ progress, requestIds }: RequestProgress): string {
  return JSON.stringify({ event: "progress", ...progress, requestIds });
}

/** Holds that the database has: what becomes of them is no longer in the journal. */
export function encodeStored(requestIds: readonly string[]): string {
  return JSON.stringify({ event: "stored", requestIds });
}

/** The row of a request that is paid from its hold. */
export function encodeSettlement(row: UsageRow): string {
  return JSON.stringify({ event: "settlement", row: toRecord(row) });
}

export function encodeUnpaidRow(row: UsageRow): string {
  return JSON.stringify({ event: "unpaid_row", row: toRecord(row) });
}

/** By column. A loop, because `Object.fromEntries` takes twice as long and this runs for every request. */
function toRecord(row: UsageRow): Record<string, SqlValue> {
  const values = toValues(row);
  const record: Record<string, SqlValue> = {};
  let index = 0;
  for (const column of USAGE_COLUMNS) record[column] = values[index++] ?? null;
  return record;
}

/** A string if a JSON number would not be exact. */
const nanoShape = z.union([z.string().regex(/^\d{1,19}$/), z.int().min(0)]).transform(BigInt);

const rowShape = z
  .record(z.string(), z.union([z.string(), z.number(), z.null()]))
  .transform((record) => toUsageRow(asStored(Object.keys(record), Object.values(record))));

const holdShape = z.object({
  event: z.literal("hold"),
  requestId: z.string(),
  atMs: z.number(),
  userId: z.string(),
  amountNano: nanoShape,
  tariffId: z.string(),
  keyId: z.string(),
  groupId: z.string(),
  interface: z.enum(INTERFACES),
  endpoint: z.string(),
  publicModel: z.string(),
  stream: z.boolean(),
  inputTokens: z.number(),
});

const progressShape = z.object({
  event: z.literal("progress"),
  state: z.enum(HOLD_STATES),
  accountId: z.string().nullable(),
  upstreamModel: z.string().nullable(),
  outputTokens: z.number(),
  requestIds: z.array(z.string()),
});

const eventShape = z.discriminatedUnion("event", [
  holdShape,
  progressShape,
  z.object({ event: z.literal("stored"), requestIds: z.array(z.string()) }),
  z.object({ event: z.literal("settlement"), row: rowShape }),
  z.object({ event: z.literal("unpaid_row"), row: rowShape }),
]);

export type JournalEvent = z.infer<typeof eventShape>;

/** Throws on the JSON of a line that another version wrote and this one does not understand. */
export function parseEvent(json: unknown): JournalEvent {
  return eventShape.parse(json);
}
