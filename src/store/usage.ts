/**
 * What was used: one row a request, and the hourly sums of these rows, always written together. The request id
 * makes a write harmless to repeat.
 */

import { INTERFACES } from "../records.ts";
import { type Db, isUniqueViolation, type Row, transaction } from "./db.ts";
import { insertRows } from "./insert-rows.ts";
import { integer, oneOf, text, textOrNull } from "./row.ts";
import { addToRollUp, difference, type RollUpEntry, totalsOf } from "./usage-hour.ts";
import {
  storable,
  storableId,
  storableTokens,
  toTokens,
  toUsageRow,
  toValues,
  USAGE_COLUMNS,
  USAGE_OUTCOMES,
  type UsageOutcome,
  type UsageRow,
  type UsageTokens,
} from "./usage-row.ts";

export { type KeyHour, keyTotals, type UsageTotals, useByHour } from "./usage-hour.ts";
export type { UsageOutcome, UsageRow, UsageTokens } from "./usage-row.ts";

export interface ResponseRoute {
  requestId: string;
  keyId: string;
  accountId: string | null;
  publicModel: string;
  upstreamModel: string | null;
  outcome: UsageOutcome;
}

/** A request id seen before, in this batch or in the table, changes nothing. */
export async function insertUsage(db: Db, rows: readonly UsageRow[]): Promise<void> {
  if (rows.length === 0) return;
  const byId = new Map<string, UsageRow>();
  for (const row of rows) {
    if (!byId.has(row.requestId)) byId.set(row.requestId, storable(row));
  }
  // In one order everywhere: two nodes with rows in common then wait for each other instead of deadlocking.
  const ordered = [...byId.values()].sort((a, b) => (a.requestId < b.requestId ? -1 : 1));
  try {
    await transaction(db, async (tx) => {
      await insertRows(tx, "usage", USAGE_COLUMNS, ordered.map(toValues));
      await addToRollUp(tx, ordered.map(rollUpEntry));
    });
  } catch (error) {
    // Only a batch that is written again meets rows it knows; asking each time costs a third more.
    if (!isUniqueViolation(error)) throw error;
    await insertUnknown(db, ordered, byId);
  }
}

async function insertUnknown(
  db: Db,
  ordered: readonly UsageRow[],
  byId: ReadonlyMap<string, UsageRow>,
): Promise<void> {
  await transaction(db, async (tx) => {
    const inserted = await insertRows(
      tx,
      "usage",
      USAGE_COLUMNS,
      ordered.map(toValues),
      "ON CONFLICT (request_id) DO NOTHING RETURNING request_id",
    );
    const unknown = inserted.flatMap(({ request_id: requestId }) => byId.get(String(requestId)) ?? []);
    await addToRollUp(tx, unknown.map(rollUpEntry));
  });
}

function rollUpEntry(row: UsageRow): RollUpEntry {
  return { of: row, totals: totalsOf(row, row.outcome) };
}

/** One request, whole. */
export async function findUsage(db: Db, requestId: string): Promise<UsageRow | null> {
  const id = storableId(requestId);
  if (id === null) return null;
  const [row] = await db.sql`
    SELECT request_id, at_ms, key_id, user_id, group_id, account_id, interface, endpoint, public_model,
      upstream_model, stream, status, outcome, error_code, input_tokens, cached_tokens, cache_write_tokens,
      output_tokens, reasoning_tokens, images, usage_source, attempts, first_byte_ms, duration_ms, wait_ms,
      response_id, upstream_request_id, trace
    FROM usage WHERE request_id = ${id}`;
  return row === undefined ? null : toUsageRow(row);
}

/** Who made a response, and where. Of several rows the first counts: nobody takes a response over later. */
export async function findRoute(db: Db, responseId: string): Promise<ResponseRoute | null> {
  const id = storableId(responseId);
  if (id === null) return null;
  const [row] = await db.sql`
    SELECT request_id, key_id, account_id, public_model, upstream_model, outcome
    FROM usage WHERE response_id = ${id} ORDER BY at_ms, request_id LIMIT 1`;
  if (row === undefined) return null;
  return {
    requestId: text(row, "request_id"),
    keyId: text(row, "key_id"),
    accountId: textOrNull(row, "account_id"),
    publicModel: text(row, "public_model"),
    upstreamModel: textOrNull(row, "upstream_model"),
    outcome: oneOf(row, "outcome", USAGE_OUTCOMES),
  };
}

/**
 * A background response has ended: its row and the roll-up get what it used, once. False if it was settled
 * before or is unknown. Null tokens: the upstream told none.
 */
export async function settlePending(
  db: Db,
  requestId: string,
  tokens: UsageTokens | null,
  outcome: Exclude<UsageOutcome, "pending" | "refused">,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const [before] = await tx.sql`
      SELECT request_id, key_id, at_ms, group_id, public_model, interface, input_tokens, cached_tokens,
        cache_write_tokens, output_tokens, reasoning_tokens, images, usage_source
      FROM usage WHERE request_id = ${requestId} AND outcome = 'pending'`;
    if (before === undefined) return false;
    const was = toTokens(before);
    const is = tokens === null ? was : storableTokens(tokens);
    const source = tokens === null ? text(before, "usage_source") : "upstream";
    const settled = await tx.sql`
      UPDATE usage SET outcome = ${outcome}, usage_source = ${source}, input_tokens = ${is.inputTokens},
        cached_tokens = ${is.cachedTokens}, cache_write_tokens = ${is.cacheWriteTokens},
        output_tokens = ${is.outputTokens}, reasoning_tokens = ${is.reasoningTokens}, images = ${is.images}
      WHERE request_id = ${requestId} AND outcome = 'pending' RETURNING request_id`;
    if (settled.length === 0) return false;
    const change = difference(totalsOf(is, outcome), totalsOf(was, "pending"));
    await addToRollUp(tx, [{ of: toRollUpKey(before), totals: change }]);
    return true;
  });
}

function toRollUpKey(row: Row): RollUpEntry["of"] {
  return {
    atMs: integer(row, "at_ms"),
    keyId: text(row, "key_id"),
    groupId: text(row, "group_id"),
    publicModel: text(row, "public_model"),
    interface: oneOf(row, "interface", INTERFACES),
  };
}
