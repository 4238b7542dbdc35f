/**
 * Books batches of rows in one transaction: every row, and once for all of them the roll-ups and the charges of the
 * users. It runs on the main thread, so it works in steps and yields to other work in between.
 */

import type { Db } from "../../store/engine/db.ts";
import { insertEntries, type Transfer } from "../../store/money/ledger.ts";
import { changeWallets, lockPayers, type WalletChange } from "../../store/money/wallet-reservations.ts";
import { insertFull, insertRest, ReadyRows } from "../../store/usage/insert-usage.ts";
import { isLate, markLate } from "../../store/usage/usage-day.ts";
import { addToRollUp, RollUp } from "../../store/usage/usage-hour.ts";
import type { Numbering } from "../../store/usage/usage-numbers.ts";
import { computeCharge } from "../engine/booking.ts";
import { splitIntoChunks } from "../engine/split-into-chunks.ts";
import { sumByUser } from "./book-reservations.ts";
import type { BatchCharge, RowBatch } from "./row-batch.ts";

export interface Steps {
  /** Operations per step: rows, roll-up entries, ledger entries, wallets. */
  size: number;
  pause(): Promise<void>;
  /** Whether the transaction may end after this number of rows because other work waits. */
  mayEnd(rows: number): boolean;
}

/** Statements per step, each of many rows. */
const STATEMENTS_AT_ONCE = 2;

/** Books batches from the first on and returns their number. One row that is already stored fails all of them. */
export async function bookBatches(
  tx: Db,
  processId: string,
  batches: readonly RowBatch[],
  numbering: Numbering,
  nowMs: number,
  { size, pause, mayEnd: isEnough }: Steps,
): Promise<number> {
  // Before the roll-ups, as in direct billing: otherwise two nodes could deadlock.
  await lockPayers(tx, listPayers(batches));
  const ready = new ReadyRows();
  const sums = new RollUp();
  const charges: PaidCharge[] = [];
  let booked = 0;
  let rows = 0;
  let pausedAt = 0;
  for (const batch of batches) {
    for (const sameKindRows of batch.kinds) ready.add(sameKindRows);
    for (const statements of splitIntoChunks(ready.full.splice(0), STATEMENTS_AT_ONCE)) {
      await insertFull(tx, numbering, statements);
      await pause();
    }
    // Nearly all requests have ended just now.
    if (isLate(batch.earliestMs, nowMs)) await markLate(tx, batch.rows(), nowMs);
    sums.merge(batch.sums);
    const { userId, charge } = batch;
    if (userId !== null && charge !== null) charges.push({ userId, charge });
    booked++;
    rows += batch.count;
    if (isEnough(rows)) break;
    // Rows of different kinds do not fill a statement, so pauses are also counted in rows.
    if (rows - pausedAt < size) continue;
    pausedAt = rows;
    await pause();
  }
  await insertRest(tx, numbering, ready.rest(), pause);
  for (const part of splitIntoChunks(sums.entries(), size)) {
    await addToRollUp(tx, part);
    await pause();
  }
  for (const part of splitIntoChunks(charges, size)) {
    await insertEntries(tx, part.map(buildEntry));
    await pause();
  }
  for (const part of splitIntoChunks(buildWalletChanges(charges), size)) {
    await changeWallets(tx, processId, part);
    await pause();
  }
  return booked;
}

const listPayers = (batches: readonly RowBatch[]) => [
  ...new Set(batches.flatMap(({ userId, charge }) => (charge === null || userId === null ? [] : userId))),
];

interface PaidCharge {
  userId: string;
  charge: BatchCharge;
}

/** The entry of one request, or of all requests that share it. */
function buildEntry({ userId, charge: { requestId, atMs, nano, requestCount: many } }: PaidCharge): Transfer {
  const entry = computeCharge({ requestId, atMs }, { userId, subscriptionId: null, atMs }, nano);
  return many === 1 ? entry : { ...entry, requestId: null, reason: `${many} requests` };
}

function buildWalletChanges(charges: readonly PaidCharge[]): WalletChange[] {
  const sums = sumByUser(charges.map(({ userId, charge }) => [userId, -charge.nano]));
  return [...sums].map(([userId, nano]) => ({
    userId,
    balanceNano: nano,
    heldNano: nano,
    reservedNano: nano,
  }));
}
