/**
 * Recovers the wallet reservations and the journal of a dead process: finished requests that were not booked, and
 * requests in flight. Each paid request gets a stored hold, as under direct billing, and the rest of the reservation
 * returns to the wallets. Repeating it changes nothing: requests that already have a row or a hold are skipped.
 */

import type { Nano } from "../../money/nano.ts";
import { type Db, isLockTimeout, transaction } from "../../store/engine/db.ts";
import { findHolds, type Hold, insertHolds } from "../../store/money/holds.ts";
import { deleteFence } from "../../store/money/reservation-fences.ts";
import {
  changeWallets,
  deleteReservations,
  listReservations,
} from "../../store/money/wallet-reservations.ts";
import { lockWallets, type Wallet } from "../../store/money/wallets.ts";
import { readStoredCharges } from "../../store/usage/usage.ts";
import { readUsageRowsRemovedBefore } from "../../store/usage/usage-removal.ts";
import { findRecovered } from "../../store/usage/usage-replacement.ts";
import type { Settlement } from "../engine/booking.ts";
import type { JournalContent } from "../journal/read-journal.ts";
import { buildSettledHold, sumByUser } from "./book-reservations.ts";

type OrphanedReservations = Pick<JournalContent, "open" | "settlements" | "rows">;
export const NOTHING_LEFT: OrphanedReservations = { open: [], settlements: [], rows: [] };

/** A node that stopped responding keeps a wallet locked until the server ends its transaction. */
const LOCK_TRIES_MAX = 30;

interface RecoveredOwner {
  readonly deadId: string;
  /** This process. It owns the holds of finished requests until it has booked them: others must not settle these. */
  readonly selfId: string;
}

/**
 * Returns the finished requests that still have to be booked. Deleting the fence first makes the reservations final:
 * everything is read after the last transaction of their owner, and after any other process that recovers them.
 */
export async function recoverReservations(
  db: Db,
  all: OrphanedReservations,
  owner: RecoveredOwner,
): Promise<Settlement[]> {
  for (let tries = 1; ; tries++) {
    try {
      return await transaction(db, (tx) => recoverWithin(tx, all, owner));
    } catch (error) {
      // Nodes that serve these users lock their wallets for moments. A start must not fail because of that.
      if (!isLockTimeout(error) || tries === LOCK_TRIES_MAX) throw error;
    }
  }
}

async function recoverWithin(
  tx: Db,
  all: OrphanedReservations,
  { deadId, selfId }: RecoveredOwner,
): Promise<Settlement[]> {
  await deleteFence(tx, deadId);
  const content = dropRemoved(all, await readUsageRowsRemovedBefore(tx));
  const requests = [...content.settlements.map(({ row }) => row), ...content.open, ...content.rows];
  const payers = new Set((await listReservations(tx, deadId)).keys());
  for (const { userId } of [...content.settlements.map(({ row }) => row), ...content.open])
    if (userId !== null) payers.add(userId);
  // The same lock as every settlement of these users: what is read below stays true until the commit.
  const wallets = await lockWallets(tx, [...payers]);
  const reserved = await listReservations(tx, deadId);
  const ids = requests.map(({ requestId }) => requestId);
  const booked = await readStoredCharges(tx, ids);
  const present = await findHolds(tx, ids);
  const unbooked = content.settlements.filter(({ row }) => !booked.has(row.requestId));
  // The journal replaces what another process estimated without it.
  const estimated = await findEstimated(tx, content.settlements, booked);
  const neededHolds = [
    ...unbooked.map((settlement) => buildSettledHold(settlement, selfId)),
    ...content.open,
  ];
  const missing = neededHolds.filter(({ requestId }) => !booked.has(requestId) && !present.has(requestId));
  const holds = limitToAvailable(missing, wallets, reserved);
  await insertHolds(tx, holds);
  const sums = sumByUser([
    ...[...reserved].map(([userId, nano]) => [userId, -nano] as const),
    ...holds.map(({ userId, amountNano }) => [userId, amountNano] as const),
  ]);
  await changeWallets(
    tx,
    deadId,
    [...sums].map(([userId, heldNano]) => ({ userId, balanceNano: 0n, heldNano, reservedNano: 0n })),
  );
  await deleteReservations(tx, deadId);
  // Unpaid rows have no charge.
  const unpaid = content.rows.filter(({ requestId }) => !booked.has(requestId));
  return [...unbooked, ...estimated, ...unpaid.map((row) => ({ row, chargedNano: 0n }))];
}

/**
 * The reservation covers all holds, unless another process has returned it or the database is older than the journal.
 * Then the balance limits them.
 */
function limitToAvailable(
  holds: readonly Hold[],
  wallets: ReadonlyMap<string, Wallet>,
  reserved: ReadonlyMap<string, Nano>,
): Hold[] {
  const available = new Map<string, Nano>();
  for (const [userId, { balanceNano, heldNano }] of wallets) {
    const restNano = balanceNano - heldNano + (reserved.get(userId) ?? 0n);
    available.set(userId, restNano > 0n ? restNano : 0n);
  }
  return holds.map((hold) => {
    const restNano = available.get(hold.userId) ?? 0n;
    const amountNano = hold.amountNano < restNano ? hold.amountNano : restNano;
    available.set(hold.userId, restNano - amountNano);
    return { ...hold, amountNano };
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
