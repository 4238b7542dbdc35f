/** What was used: one row a request, and the hourly sums of these rows, always written together. */

import type { Nano } from "../../money/nano.ts";
import type { Costs } from "../../money/tariff.ts";
import { type Db, placeholder, transaction } from "../engine/db.ts";
import { flag, integer, nano, oneOf, text, textOrNull } from "../engine/row.ts";
import { selectIn } from "../engine/select-in.ts";
import { insertUsage, kindNoOf } from "./insert-usage.ts";
import { markDays } from "./usage-day.ts";
import { addToRollUp, computeTotals, difference, RollUp } from "./usage-hour.ts";
import type { Numbering } from "./usage-numbers.ts";
import {
  clampCount,
  storableCost,
  storableId,
  storableTokens,
  toUsageRow,
  USAGE_OUTCOMES,
  type UsageOutcome,
  type UsageRow,
  type UsageTokens,
} from "./usage-row.ts";
import { nanoValue, SELECT_USAGE } from "./usage-values.ts";

export { learnBefore } from "./insert-usage.ts";
export { type KeyHour, keyTotals, type UsageTotals, useByHour } from "./usage-hour.ts";
export { UsageNumbers } from "./usage-numbers.ts";
export {
  NO_MONEY,
  type UsageFlag,
  type UsageMoney,
  type UsageOutcome,
  type UsagePayer,
  type UsageRow,
  type UsageSource,
  type UsageTokens,
} from "./usage-row.ts";

export interface StoredResponseRoute {
  requestId: string;
  keyId: string;
  accountId: string | null;
  publicModel: string;
  upstreamModel: string | null;
  outcome: UsageOutcome;
  /** Still being made, and paid for when it has ended: there is no row yet. */
  isHeld: boolean;
}

/** Rows and roll-up of requests that the store does not know; one that it knows fails all of them. */
export async function insertFresh(tx: Db, numbering: Numbering, rows: readonly UsageRow[]): Promise<void> {
  const ordered = rows.map(clampCount).sort((a, b) => (a.requestId < b.requestId ? -1 : 1));
  await insertUsage(tx, numbering, ordered);
  const sums = new RollUp();
  for (const row of ordered) sums.add(row);
  await addToRollUp(tx, sums.entries());
}

/** Which of these requests have a row, and what it says was charged. */
export async function knownUsage(db: Db, requestIds: readonly string[]): Promise<Map<string, Nano>> {
  const rows = await selectIn(
    db,
    "SELECT request_id, CAST(charged_nano AS TEXT) AS charged_nano FROM usage_row WHERE request_id",
    requestIds,
  );
  return new Map(rows.map((row) => [text(row, "request_id"), nano(row, "charged_nano")]));
}

/** What a background response turned out to have used, where nobody pays, and what that costs by its price. */
export interface LateUse extends Costs {
  tokens: UsageTokens;
}

/** When a background response ends, its times stay as they were, and nobody pays. */
const UNCHANGED = { chargedNano: 0n, durationMs: 0, firstByteMs: null } as const;

/** One request, whole. */
export async function findUsage(db: Db, requestId: string): Promise<UsageRow | null> {
  const id = storableId(requestId);
  if (id === null) return null;
  const [row] = await db.sql.text(`${SELECT_USAGE} WHERE request_id = ${placeholder(db.engine, 1)}`, [id]);
  return row === undefined ? null : toUsageRow(row);
}

/**
 * Who made a response, and where. The first of several rows counts: nobody can take a response over. Rows and holds
 * are read in one statement, so that one that is being settled is seen as either.
 */
export async function findRoute(db: Db, responseId: string): Promise<StoredResponseRoute | null> {
  const id = storableId(responseId);
  if (id === null) return null;
  const [row] = await db.sql`
    SELECT request_id, key_id, account_id, public_model, upstream_model, outcome, at_ms, 0 AS held
    FROM usage WHERE response_id = ${id} AND interface = 'responses'
    UNION ALL
    SELECT request_id, key_id, account_id, public_model, upstream_model, 'pending', at_ms, 1
    FROM hold WHERE response_id = ${id}
    ORDER BY held, at_ms, request_id LIMIT 1`;
  if (row === undefined) return null;
  return {
    requestId: text(row, "request_id"),
    keyId: text(row, "key_id"),
    accountId: textOrNull(row, "account_id"),
    publicModel: text(row, "public_model"),
    upstreamModel: textOrNull(row, "upstream_model"),
    outcome: oneOf(row, "outcome", USAGE_OUTCOMES),
    isHeld: flag(row, "held"),
  };
}

/**
 * A background response has ended: its row and the roll-up get what it used, once. False if it was settled
 * before or is unknown. Null: the upstream told nothing.
 */
export async function settlePending(
  db: Db,
  requestId: string,
  used: LateUse | null,
  outcome: Exclude<UsageOutcome, "pending" | "refused">,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const [found] =
      await tx.sql`SELECT kind_no FROM usage WHERE request_id = ${requestId} AND outcome = 'pending'`;
    const before = found === undefined ? null : await findUsage(tx, requestId);
    if (found === undefined || before === null) return false;
    const costNano = storableCost(used?.costNano ?? 0n);
    const upstreamNano = storableCost(used?.listNano ?? 0n);
    const tokens = used === null ? {} : storableTokens(used.tokens);
    const usageSource = used === null ? before.usageSource : "upstream";
    const is: UsageRow = { ...before, ...tokens, outcome, usageSource };
    const kindNo = await kindNoOf(tx, is);
    const settled = await tx.sql`
      UPDATE usage_row SET kind_no = ${kindNo}, input_tokens = ${is.inputTokens},
        cached_tokens = ${is.cachedTokens}, cache_write_tokens = ${is.cacheWriteTokens},
        output_tokens = ${is.outputTokens}, reasoning_tokens = ${is.reasoningTokens}, images = ${is.images},
        image_input_tokens = ${is.imageInputTokens}, audio_input_tokens = ${is.audioInputTokens},
        audio_output_tokens = ${is.audioOutputTokens}, cost_nano = cost_nano + ${nanoValue(costNano)},
        upstream_nano = upstream_nano + ${nanoValue(upstreamNano)}
      WHERE request_id = ${requestId} AND kind_no = ${integer(found, "kind_no")} RETURNING request_id`;
    if (settled.length === 0) return false;
    const change = difference(
      computeTotals({ ...is, ...UNCHANGED, costNano, upstreamNano }, outcome),
      computeTotals({ ...before, ...UNCHANGED, costNano: 0n, upstreamNano: 0n }, "pending"),
    );
    await addToRollUp(tx, [{ of: before, totals: change }]);
    await markDays(tx, [before]);
    return true;
  });
}
