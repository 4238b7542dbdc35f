/**
 * One billing transaction: locks wallets and subscription balances, ends holds, decides new holds in order, and
 * writes everything in a fixed number of statements, independent of the number of requests.
 */

import type { Nano } from "../../money/nano.ts";
import type { Tariff } from "../../money/tariff.ts";
import type { Db } from "../../store/engine/db.ts";
import { type EndedHold, endHolds, insertHolds, writeProgress } from "../../store/money/holds.ts";
import {
  insertEntries,
  REVENUE,
  subscriptionBook,
  type Transfer,
  userBook,
} from "../../store/money/ledger.ts";
import { insertOverruns } from "../../store/money/overruns.ts";
import { insertRecalls } from "../../store/money/reservation-recalls.ts";
import { insertTariffs } from "../../store/money/tariffs.ts";
import { writeWallets } from "../../store/money/wallets.ts";
import { insertNewUsage, type UsageRow } from "../../store/usage/usage.ts";
import { markLate } from "../../store/usage/usage-day.ts";
import { replaceUsage } from "../../store/usage/usage-replacement.ts";
import {
  type Batch,
  type BatchState,
  type BookOptions,
  type HoldDecision,
  readBatchState,
} from "./batch-state.ts";
import type { Settlement } from "./billing-types.ts";
import { chargeHold, computeOverrun } from "./debt.ts";
import { decideHold, endHold } from "./hold-decisions.ts";
import { isRecovered, settleLate } from "./late-settlement.ts";
import { changeWindows } from "./subscription-balances.ts";

export type { HoldRequest, HoldResult, Settlement } from "./billing-types.ts";

/**
 * - `known`: the same settlement was booked before.
 * - `late`: the hold is gone. The payer was charged what is available, and a row that recovery wrote is replaced.
 * - `unpaid`: there is neither a hold nor a payer, so the row has no charge.
 * - `lost`: the hold is gone, and a different usage row already exists and stays.
 */
export type SettlementResult = "booked" | "known" | "late" | "unpaid" | "lost";

export interface BookingResult {
  holds: HoldDecision[];
  settlements: SettlementResult[];
  /** Released without a charge because a usage row already existed. This is a bug and is logged. */
  unchargedRequestIds: string[];
}

export async function book(tx: Db, batch: Batch, options: BookOptions): Promise<BookingResult> {
  const state = await readBatchState(tx, batch, options);
  // The locks order this try and the next one of the same batch. If the next one may have run, this one writes nothing.
  if (options.isAbandoned()) throw new Error("The transaction was abandoned.");
  const settlements = batch.settlements.map((settlement) => settle(state, settlement));
  for (const { requestId } of batch.releases) release(state, requestId);
  for (const row of batch.rows) {
    if (!state.storedCharges.has(row.requestId) && !state.rows.has(row.requestId))
      state.rows.set(row.requestId, row);
  }
  const holds = batch.holds.map((order) => decideHold(state, order, options));
  await writeBatch(tx, state, batch, options);
  return { holds, settlements, unchargedRequestIds: state.unchargedRequestIds };
}

function settle(state: BatchState, { row, chargedNano }: Settlement): SettlementResult {
  // A count of 0 marks a part of a counted row, which may have the same id and be in the same batch.
  const [requestId, hasRow] = [row.requestId, row.requestCount > 0];
  const hold = state.endedHolds.get(requestId);
  const before =
    state.replacedRows.get(requestId)?.row.chargedNano ??
    state.storedCharges.get(requestId) ??
    state.rows.get(requestId)?.chargedNano;
  if (before !== undefined) {
    if (hold === undefined) {
      if (state.lateFacts.recoveredCharges.has(requestId) && !state.replacedRows.has(requestId))
        return settleLate(state, { row, chargedNano });
      // A recovered row is an estimate. It must not replace the real one.
      return before === chargedNano || isRecovered(row) ? "known" : "lost";
    }
    endHold(state, hold, 0n);
    // The request was rejected because its hold took too long, but the hold was written afterwards.
    if (before === 0n && chargedNano === 0n) return "known";
    // In every other case a row and a hold never exist together. Nothing is charged twice.
    state.unchargedRequestIds.push(requestId);
    return "lost";
  }
  if (hold === undefined) {
    // The request's own process has released the hold and records the real outcome.
    if (isRecovered(row)) return "known";
    if (chargedNano > 0n && row.payer !== null) return settleLate(state, { row, chargedNano });
    if (hasRow) state.rows.set(requestId, { ...row, chargedNano: 0n, payer: null });
    return "booked";
  }
  const charged = chargeHold(hold, { row, chargedNano });
  const wallet = hold.subscriptionId === null ? (state.wallets.get(hold.userId) ?? null) : null;
  const overrun = computeOverrun(hold, charged.chargedNano, wallet, row.atMs);
  if (overrun !== null) state.overruns.push(overrun);
  endHold(state, hold, charged.chargedNano);
  if (hasRow) state.rows.set(requestId, charged.row);
  if (charged.chargedNano > 0n) state.entries.push(computeCharge(charged.row, hold, charged.chargedNano));
  return "booked";
}

export function computeCharge(
  row: Pick<UsageRow, "requestId" | "atMs">,
  hold: Pick<EndedHold, "userId" | "subscriptionId" | "atMs">,
  amountNano: Nano,
): Transfer {
  const { subscriptionId } = hold;
  return {
    id: `charge:${row.requestId}`,
    // The use of a window is the sum of the entries in its time, and a hold counts for the window it was made in.
    atMs: subscriptionId === null ? Math.round(row.atMs) : hold.atMs,
    kind: "charge",
    debit: subscriptionId === null ? userBook(hold.userId) : subscriptionBook(subscriptionId),
    credit: REVENUE,
    amountNano,
    userId: hold.userId,
    subscriptionId,
    requestId: row.requestId,
    actor: "system",
    reason: null,
  };
}

function release(state: BatchState, requestId: string): void {
  const hold = state.endedHolds.get(requestId);
  if (hold !== undefined) endHold(state, hold, 0n);
}

async function writeBatch(tx: Db, state: BatchState, batch: Batch, options: BookOptions): Promise<void> {
  const { storedTariffs, nowMs, numbering } = options;
  if (state.changedWallets.size > 0) {
    const wallets = [...state.wallets].filter(([userId]) => state.changedWallets.has(userId));
    await writeWallets(tx, wallets);
  }
  if (state.windowChanges.length > 0) await changeWindows(tx, state.windowChanges);
  if (state.holds.size > 0) {
    const tariffs = new Map<string, Tariff>();
    for (const { request } of batch.holds) {
      const { requestId, tariff } = request;
      if (state.holds.has(requestId) && !storedTariffs.has(tariff.id)) tariffs.set(tariff.id, tariff);
    }
    if (tariffs.size > 0) await insertTariffs(tx, [...tariffs.values()]);
    await endHolds(tx, state.replacedHoldIds);
    await insertHolds(tx, [...state.holds.values()]);
  }
  if (batch.progress.length > 0) await writeProgress(tx, batch.progress);
  if (state.rows.size > 0) {
    const rows = [...state.rows.values()];
    await insertNewUsage(tx, numbering, rows);
    await markLate(tx, rows, nowMs);
  }
  if (state.replacedRows.size > 0) await replaceUsage(tx, numbering, [...state.replacedRows.values()]);
  if (state.entries.length > 0) await insertEntries(tx, state.entries);
  if (state.overruns.length > 0) {
    await insertOverruns(tx, state.overruns);
    // Nodes may have reserved money that the charge has taken. A debt blocks requests on all nodes.
    const indebted = state.overruns.filter(({ debtNano }) => debtNano > 0n);
    await insertRecalls(
      tx,
      indebted.map(({ userId }) => userId),
    );
  }
}
