/**
 * Wallet reservations: money that a process reserves for future requests, so that it need not query the database for
 * each hold. It counts as held in the wallet.
 */

import type { Nano } from "../../money/nano.ts";
import type { Db } from "../engine/db.ts";
import { placeholder } from "../engine/db.ts";
import { lockIn } from "../engine/dialect.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { integerOrNull, nano, text } from "../engine/row.ts";
import { selectIn } from "../engine/select-in.ts";
import { updateRows } from "../engine/update-rows.ts";
import { FenceLost } from "./reservation-fences.ts";

/** A change of a user's wallet and of the process's reservation in it. */
export interface WalletChange {
  userId: string;
  balanceNano: Nano;
  heldNano: Nano;
  reservedNano: Nano;
}

const COLUMNS = ["process_id", "user_id", "amount_nano"] as const;

/**
 * Adds the amounts; negative amounts subtract. The database rejects a change that would leave a negative amount. Lock
 * the wallets first, in the order of their users.
 */
export async function changeWallets(
  tx: Db,
  processId: string,
  changes: readonly WalletChange[],
): Promise<void> {
  const ordered = changes.toSorted((a, b) => (a.userId < b.userId ? -1 : 1));
  await insertRows(
    tx,
    "wallet_reservation",
    COLUMNS,
    ordered
      .filter(({ reservedNano }) => reservedNano > 0n)
      .map(({ userId, reservedNano }) => [processId, userId, reservedNano.toString()]),
    "ON CONFLICT (process_id, user_id) DO UPDATE SET amount_nano = wallet_reservation.amount_nano + excluded.amount_nano",
  );
  const decreased = ordered.filter(({ reservedNano }) => reservedNano < 0n);
  const decreasedCount = await updateRows(
    tx,
    {
      table: "wallet_reservation",
      set: "amount_nano = amount_nano + CAST(v.column1 AS BIGINT)",
      where: "process_id = v.column2 AND user_id = v.column3",
    },
    decreased.map(({ userId, reservedNano }) => [reservedNano.toString(), processId, userId]),
  );
  // The fence excludes this. A reservation that is missing nevertheless must not become money.
  if (decreasedCount < decreased.length) throw new FenceLost(processId);
  const walletChanges = ordered.filter(({ balanceNano, heldNano }) => balanceNano !== 0n || heldNano !== 0n);
  await updateRows(
    tx,
    {
      table: "wallet",
      set: `balance_nano = balance_nano + CAST(v.column1 AS BIGINT),
        held_nano = held_nano + CAST(v.column2 AS BIGINT)`,
      where: "user_id = v.column3",
    },
    walletChanges.map(({ userId, balanceNano, heldNano }) => [
      balanceNano.toString(),
      heldNano.toString(),
      userId,
    ]),
  );
  // A released amount covers a debt. No debt can arise here: the database has already rejected a larger shortfall.
  const released = walletChanges.filter(({ balanceNano, heldNano }) => balanceNano > heldNano);
  await selectIn(
    tx,
    `UPDATE wallet SET debt_nano = CASE WHEN balance_nano < held_nano THEN held_nano - balance_nano ELSE 0 END
     WHERE debt_nano > 0 AND user_id`,
    released.map(({ userId }) => userId),
  );
}

/** Locks the wallets of these users until the transaction ends. Does nothing where there is a single writer. */
export function lockPayers(tx: Db, userIds: readonly string[]): Promise<void> {
  const head = "SELECT user_id FROM wallet WHERE user_id";
  return lockIn(tx, { head, order: "user_id" }, userIds.toSorted());
}

/** The reservations of one process, by user. */
export async function listReservations(db: Db, processId: string): Promise<Map<string, Nano>> {
  const rows = await db.sql`
    SELECT user_id, CAST(amount_nano AS TEXT) AS amount_nano FROM wallet_reservation WHERE process_id = ${processId}`;
  return new Map(rows.map((row) => [text(row, "user_id"), nano(row, "amount_nano")]));
}

/** Sum of all processes' reservations in a user's wallet. */
export async function sumReservations(db: Db, userId: string): Promise<Nano> {
  const [row] = await db.sql`
    SELECT CAST(COALESCE(SUM(amount_nano), 0) AS TEXT) AS amount_nano FROM wallet_reservation WHERE user_id = ${userId}`;
  if (row === undefined) throw new Error("A sum returned no row.");
  return nano(row, "amount_nano");
}

interface FundsOfOthers {
  availableNano: Nano;
  /** What other processes have reserved of it. */
  othersNano: Nano;
}

export async function readFundsOfOthers(db: Db, userId: string, processId: string): Promise<FundsOfOthers> {
  const [row] = await db.sql`
    SELECT CAST(balance_nano - held_nano AS TEXT) AS available_nano, CAST(COALESCE((
      SELECT SUM(amount_nano) FROM wallet_reservation WHERE wallet_reservation.user_id = wallet.user_id AND process_id <> ${processId}
    ), 0) AS TEXT) AS others_nano FROM wallet WHERE user_id = ${userId}`;
  if (row === undefined) return { availableNano: 0n, othersNano: 0n };
  return { availableNano: nano(row, "available_nano"), othersNano: nano(row, "others_nano") };
}

/** Of the other processes with a reservation of this user. 0 for one that is not registered; null without any. */
export async function readOldestOwnerHeartbeat(
  db: Db,
  userId: string,
  processId: string,
): Promise<number | null> {
  const [row] = await db.sql`
    SELECT MIN(COALESCE(process.beat_at_ms, 0)) AS beat_at_ms FROM wallet_reservation
    LEFT JOIN process ON process.id = wallet_reservation.process_id
    WHERE wallet_reservation.user_id = ${userId} AND wallet_reservation.process_id <> ${processId} AND wallet_reservation.amount_nano > 0`;
  return row === undefined ? null : integerOrNull(row, "beat_at_ms");
}

export async function deleteEmptyReservations(
  tx: Db,
  processId: string,
  userIds: readonly string[],
): Promise<void> {
  const head = `DELETE FROM wallet_reservation WHERE process_id = ${placeholder(tx.engine, 1)} AND amount_nano = 0 AND user_id`;
  await selectIn(tx, head, userIds, "", [processId]);
}

export async function deleteReservations(tx: Db, processId: string): Promise<void> {
  await tx.sql`DELETE FROM wallet_reservation WHERE process_id = ${processId}`;
}
