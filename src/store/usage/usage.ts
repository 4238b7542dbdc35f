/** Usage: one row per request, and the hourly sums of these rows, always written together. */

import type { Nano } from "../../money/nano.ts";
import type { Costs } from "../../money/tariff.ts";
import type { TokenCounts } from "../../money/token-counts.ts";
import { type Db, type Engine, placeholder, transaction } from "../engine/db.ts";
import { flag, integer, nano, text, textOrNull } from "../engine/row.ts";
import { selectIn } from "../engine/select-in.ts";
import { insertUsage, kindNumber } from "./insert-usage.ts";
import { nanoValue, storableCost, storableId } from "./storable-values.ts";
import { markDays } from "./usage-day.ts";
import { addToRollUp, computeTotals, difference, RollUp } from "./usage-hour.ts";
import type { Numbering } from "./usage-numbers.ts";
import {
  clampCount,
  storableTokens,
  TOKEN_FIELDS,
  toUsageRow,
  USAGE_FIELDS,
  USAGE_OUTCOMES,
  type UsageOutcome,
  type UsageRow,
} from "./usage-row.ts";
import { SELECT_USAGE } from "./usage-values.ts";

export { registerNumbers as learnBefore } from "./insert-usage.ts";
export {
  type KeyHour,
  readKeyTotals as keyTotals,
  readUsageByHour as useByHour,
  type UsageTotals,
} from "./usage-hour.ts";
export { UsageNumbers } from "./usage-numbers.ts";
export {
  NO_FALLBACK,
  NO_MONEY,
  type UsageFallback,
  type UsageFlag,
  type UsageMoney,
  type UsageOutcome,
  type UsagePayer,
  type UsageRow,
  type UsageSource,
} from "./usage-row.ts";

import { choice, rowReader } from "../engine/row-reader.ts";

const readRoute = rowReader({
  requestId: text,
  keyId: text,
  accountId: textOrNull,
  publicModel: text,
  upstreamModel: textOrNull,
  outcome: choice(USAGE_OUTCOMES),
  /** The response is still being produced and is paid when it ends: it has a hold and no row yet. */
  isHeld: flag,
});
export type StoredResponseRoute = ReturnType<typeof readRoute>;

/** Inserts rows and roll-up of new requests. A single row that already exists fails all of them. */
export async function insertNewUsage(tx: Db, numbering: Numbering, rows: readonly UsageRow[]): Promise<void> {
  const ordered = rows.map(clampCount).sort((a, b) => (a.requestId < b.requestId ? -1 : 1));
  await insertUsage(tx, numbering, ordered);
  const sums = new RollUp();
  for (const row of ordered) sums.add(row);
  await addToRollUp(tx, sums.entries());
}

/** The requests among these that have a row, with their charge. */
export async function readStoredCharges(db: Db, requestIds: readonly string[]): Promise<Map<string, Nano>> {
  const rows = await selectIn(
    db,
    "SELECT request_id, CAST(charged_nano AS TEXT) AS charged_nano FROM usage_row WHERE request_id",
    requestIds,
  );
  return new Map(rows.map((row) => [text(row, "request_id"), nano(row, "charged_nano")]));
}

/** Usage of an unpaid background response, known only at its end, and its cost at list prices. */
export interface PendingUse extends Costs {
  tokens: TokenCounts;
}

/** When a background response ends, its times stay unchanged, and it is not charged. */
const UNCHANGED = { chargedNano: 0n, durationMs: 0, firstByteMs: null } as const;

/** One request, whole. */
export async function findUsage(db: Db, requestId: string): Promise<UsageRow | null> {
  const id = storableId(requestId);
  if (id === null) return null;
  const [row] = await db.sql.text(`${SELECT_USAGE} WHERE request_id = ${placeholder(db.engine, 1)}`, [id]);
  return row === undefined ? null : toUsageRow(row);
}

/**
 * Finds which request created a response, and on which account. The first of several rows counts, so a response
 * cannot be taken over. One statement reads rows and holds, so that a response being settled is found as one or the
 * other.
 */
export async function findRoute(db: Db, responseId: string): Promise<StoredResponseRoute | null> {
  const id = storableId(responseId);
  if (id === null) return null;
  const [row] = await db.sql`
    SELECT request_id, key_id, account_id, public_model, upstream_model, outcome, at_ms, 0 AS is_held
    FROM usage WHERE response_id = ${id} AND interface = 'responses'
    UNION ALL
    SELECT request_id, key_id, account_id, public_model, upstream_model, 'pending', at_ms, 1
    FROM hold WHERE response_id = ${id}
    ORDER BY is_held, at_ms, request_id LIMIT 1`;
  return row === undefined ? null : readRoute(row);
}

/**
 * The same for a message that its upstream holds in a thread. Only the latest requests of the key are searched: a thread
 * continues soon, and a client whose thread is not found sends the whole conversation.
 */
export async function findMessageRoute(
  db: Db,
  message: { readonly messageId: string; readonly keyId: string },
  rowsMax: number,
): Promise<StoredResponseRoute | null> {
  const id = storableId(message.messageId);
  if (id === null) return null;
  const [row] = await db.sql`
    SELECT request_id, key_id, account_id, public_model, upstream_model, outcome, 0 AS is_held
    FROM usage WHERE request_id IN (
      SELECT request_id FROM (
        SELECT request_id, response_id, interface FROM usage_row
        WHERE key_no = (SELECT no FROM usage_id WHERE id = ${message.keyId}) ORDER BY at_ms DESC LIMIT ${rowsMax}
      ) AS latest WHERE response_id = ${id} AND interface = 'messages')
    ORDER BY at_ms, request_id LIMIT 1`;
  return row === undefined ? null : readRoute(row);
}

/**
 * Settles a background response that has ended: adds its usage to its row and the roll-up, once. Returns false if it
 * was already settled or is unknown. `used` is null if the upstream reported no usage.
 */
export async function settlePending(
  db: Db,
  requestId: string,
  used: PendingUse | null,
  outcome: Exclude<UsageOutcome, "pending" | "refused">,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const [found] =
      await tx.sql`SELECT kind_no FROM usage WHERE request_id = ${requestId} AND outcome = 'pending'`;
    const pendingRow = found === undefined ? null : await findUsage(tx, requestId);
    if (found === undefined || pendingRow === null) return false;
    const costNano = storableCost(used?.costNano ?? 0n);
    const upstreamNano = storableCost(used?.listNano ?? 0n);
    const tokens = used === null ? {} : storableTokens(used.tokens);
    const usageSource = used === null ? pendingRow.usageSource : "upstream";
    const settledRow: UsageRow = { ...pendingRow, ...tokens, outcome, usageSource };
    const kindNo = await kindNumber(tx, settledRow);
    const settled = await tx.sql.text(buildSettlePending(tx.engine), [
      kindNo,
      ...TOKEN_FIELDS.map((field) => settledRow[field]),
      nanoValue(costNano),
      nanoValue(upstreamNano),
      requestId,
      integer(found, "kind_no"),
    ]);
    if (settled.length === 0) return false;
    const change = difference(
      computeTotals({ ...settledRow, ...UNCHANGED, costNano, upstreamNano }, outcome),
      computeTotals({ ...pendingRow, ...UNCHANGED, costNano: 0n, upstreamNano: 0n }, "pending"),
    );
    await addToRollUp(tx, [{ dimensions: pendingRow, totals: change }]);
    await markDays(tx, [pendingRow]);
    return true;
  });
}

/** Values: the new kind, the token counts, the added costs; then the request and the kind that it had. */
function buildSettlePending(engine: Engine): string {
  let last = 0;
  const mark = () => placeholder(engine, ++last);
  const sets = [
    `kind_no = ${mark()}`,
    ...TOKEN_FIELDS.map((field) => `${USAGE_FIELDS[field].column} = ${mark()}`),
    `cost_nano = cost_nano + ${mark()}`,
    `upstream_nano = upstream_nano + ${mark()}`,
  ];
  return `UPDATE usage_row SET ${sets.join(", ")} WHERE request_id = ${mark()} AND kind_no = ${mark()} RETURNING request_id`;
}
