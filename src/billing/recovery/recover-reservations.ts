/**
 * What a dead process had set aside, and what its journal tells: requests that ended and were not booked, and requests
 * that were under way. Each that somebody pays for gets a row among the holds, as if it had never been in the express
 * lane, and the rest goes back to the wallets. Done twice it changes nothing: what has a row, of whatever kind, is left
 * as it is.
 */

import type { Nano } from "../../money/nano.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { findHolds, insertHolds } from "../../store/money/holds.ts";
import {
  changeWallets,
  deleteReservations,
  listReservations,
} from "../../store/money/wallet-reservations.ts";
import { lockWallets } from "../../store/money/wallets.ts";
import { knownUsage } from "../../store/usage/usage.ts";
import { readUsageRowsRemovedBefore } from "../../store/usage/usage-removal.ts";
import { findRecovered } from "../../store/usage/usage-replacement.ts";
import type { Settlement } from "../engine/booking.ts";
import type { JournalContent } from "../journal/read-journal.ts";
import { holdFor, sumByUser } from "../write-behind/book-reservations.ts";

export type OrphanedReservations = Pick<JournalContent, "open" | "settlements" | "rows">;
export const NOTHING_LEFT: OrphanedReservations = { open: [], settlements: [], rows: [] };

/** Returns those that ended and are still to be booked. */
export async function recoverReservations(
  db: Db,
  incarnation: string,
  all: OrphanedReservations,
): Promise<Settlement[]> {
  return transaction(db, async (tx) => {
    const left = withRows(all, await readUsageRowsRemovedBefore(tx));
    const told = [...left.settlements.map(({ row }) => row), ...left.open, ...left.rows];
    const ids = told.map(({ requestId }) => requestId);
    const booked = await knownUsage(tx, ids);
    const present = await findHolds(tx, ids);
    const leased = await listReservations(tx, incarnation);
    const unbooked = left.settlements.filter(({ row }) => !booked.has(row.requestId));
    // What another process guessed without this journal is replaced by what the journal tells.
    const guessed = await findGuessed(tx, left.settlements, booked);
    const owed = [...unbooked.map((settlement) => holdFor(settlement, incarnation)), ...left.open];
    const missing = owed.filter(({ requestId }) => !booked.has(requestId) && !present.has(requestId));
    const users = new Set([...leased.keys(), ...missing.map(({ userId }) => userId)]);
    const wallets = await lockWallets(tx, [...users]);
    // What was set aside covers all of them, but for a store that is older than the journal: then what the wallet has.
    const free = new Map<string, Nano>();
    for (const [userId, { balanceNano, heldNano }] of wallets) {
      free.set(userId, balanceNano - heldNano + (leased.get(userId) ?? 0n));
    }
    const holds = missing.map((hold) => {
      const restNano = free.get(hold.userId) ?? 0n;
      const amountNano = hold.amountNano < restNano ? hold.amountNano : restNano;
      free.set(hold.userId, restNano - amountNano);
      return { ...hold, amountNano };
    });
    await insertHolds(tx, holds);
    const sums = sumByUser([
      ...[...leased].map(([userId, nano]) => [userId, -nano] as const),
      ...holds.map(({ userId, amountNano }) => [userId, amountNano] as const),
    ]);
    await changeWallets(
      tx,
      incarnation,
      [...sums].map(([userId, heldNano]) => ({ userId, balanceNano: 0n, heldNano, leasedNano: 0n })),
    );
    await deleteReservations(tx, incarnation);
    // These have no charge.
    const unpaid = left.rows.filter(({ requestId }) => !booked.has(requestId));
    return [...unbooked, ...guessed, ...unpaid.map((row) => ({ row, chargedNano: 0n }))];
  });
}

async function findGuessed(
  tx: Db,
  settlements: readonly Settlement[],
  booked: ReadonlyMap<string, Nano>,
): Promise<Settlement[]> {
  const known = settlements.filter(({ row }) => booked.has(row.requestId));
  const rows = await findRecovered(
    tx,
    known.map(({ row }) => row.requestId),
  );
  const ids = new Set(rows.map(({ requestId }) => requestId));
  return known.filter(({ row }) => ids.has(row.requestId));
}

/** Those so old that their rows may be removed were booked when their journal was first read: it is only kept. */
function withRows(
  { open, settlements, rows }: OrphanedReservations,
  rowsSinceMs: number,
): OrphanedReservations {
  return {
    open: open.filter(({ atMs }) => atMs >= rowsSinceMs),
    settlements: settlements.filter(({ row }) => row.atMs >= rowsSinceMs),
    rows: rows.filter(({ atMs }) => atMs >= rowsSinceMs),
  };
}
