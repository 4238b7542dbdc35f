/**
 * Recovers the wallet reservations and the journal of a dead process: finished requests that were not booked, and
 * requests in flight. Each paid request gets a stored hold, as under direct billing, and the rest of the reservation
 * returns to the wallets. Repeating it changes nothing: requests that already have a row or a hold are skipped.
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
import { readStoredCharges } from "../../store/usage/usage.ts";
import { readUsageRowsRemovedBefore } from "../../store/usage/usage-removal.ts";
import { findRecovered } from "../../store/usage/usage-replacement.ts";
import type { Settlement } from "../engine/booking.ts";
import type { JournalContent } from "../journal/read-journal.ts";
import { buildSettledHold, sumByUser } from "../write-behind/book-reservations.ts";

export type OrphanedReservations = Pick<JournalContent, "open" | "settlements" | "rows">;
export const NOTHING_LEFT: OrphanedReservations = { open: [], settlements: [], rows: [] };

/** Returns the finished requests that still have to be booked. */
export async function recoverReservations(
  db: Db,
  incarnation: string,
  all: OrphanedReservations,
): Promise<Settlement[]> {
  return transaction(db, async (tx) => {
    const content = dropRemoved(all, await readUsageRowsRemovedBefore(tx));
    const requests = [...content.settlements.map(({ row }) => row), ...content.open, ...content.rows];
    const ids = requests.map(({ requestId }) => requestId);
    const booked = await readStoredCharges(tx, ids);
    const present = await findHolds(tx, ids);
    const leased = await listReservations(tx, incarnation);
    const unbooked = content.settlements.filter(({ row }) => !booked.has(row.requestId));
    // The journal replaces what another process estimated without it.
    const estimated = await findEstimated(tx, content.settlements, booked);
    const neededHolds = [
      ...unbooked.map((settlement) => buildSettledHold(settlement, incarnation)),
      ...content.open,
    ];
    const missing = neededHolds.filter(({ requestId }) => !booked.has(requestId) && !present.has(requestId));
    const users = new Set([...leased.keys(), ...missing.map(({ userId }) => userId)]);
    const wallets = await lockWallets(tx, [...users]);
    // The reservation covers all holds, unless the database is older than the journal. Then the balance limits them.
    const available = new Map<string, Nano>();
    for (const [userId, { balanceNano, heldNano }] of wallets) {
      available.set(userId, balanceNano - heldNano + (leased.get(userId) ?? 0n));
    }
    const holds = missing.map((hold) => {
      const restNano = available.get(hold.userId) ?? 0n;
      const amountNano = hold.amountNano < restNano ? hold.amountNano : restNano;
      available.set(hold.userId, restNano - amountNano);
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
      [...sums].map(([userId, heldNano]) => ({ userId, balanceNano: 0n, heldNano, reservedNano: 0n })),
    );
    await deleteReservations(tx, incarnation);
    // Unpaid rows have no charge.
    const unpaid = content.rows.filter(({ requestId }) => !booked.has(requestId));
    return [...unbooked, ...estimated, ...unpaid.map((row) => ({ row, chargedNano: 0n }))];
  });
}

async function findEstimated(
  tx: Db,
  settlements: readonly Settlement[],
  booked: ReadonlyMap<string, Nano>,
): Promise<Settlement[]> {
  const bookedSettlements = settlements.filter(({ row }) => booked.has(row.requestId));
  const rows = await findRecovered(
    tx,
    bookedSettlements.map(({ row }) => row.requestId),
  );
  const ids = new Set(rows.map(({ requestId }) => requestId));
  return bookedSettlements.filter(({ row }) => ids.has(row.requestId));
}

/**
 * Skips requests so old that their rows may have been removed. They were booked when the journal was first read; only
 * the files were kept.
 */
function dropRemoved(
  { open, settlements, rows }: OrphanedReservations,
  rowsSinceMs: number,
): OrphanedReservations {
  return {
    open: open.filter(({ atMs }) => atMs >= rowsSinceMs),
    settlements: settlements.filter(({ row }) => row.atMs >= rowsSinceMs),
    rows: rows.filter(({ atMs }) => atMs >= rowsSinceMs),
  };
}
