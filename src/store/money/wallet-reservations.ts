/**
 * Wallet reservations: money that a process reserves for future requests, so that it need not query the database for
 * each hold. It counts as held in the wallet.
 */

import type { Nano } from "../../money/nano.ts";
import type { Db } from "../engine/db.ts";
import { placeholder } from "../engine/db.ts";
import { lockClause } from "../engine/dialect.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { nano, text } from "../engine/row.ts";
import { selectIn } from "../engine/select-in.ts";

/** A change of a user's wallet and of the process's reservation in it. */
export interface WalletChange {
  userId: string;
  balanceNano: Nano;
  heldNano: Nano;
  reservedNano: Nano;
}

const COLUMNS = ["incarnation", "user_id", "amount_nano"] as const;

/** Adds the amounts; negative amounts subtract. The database rejects a change that would leave a negative amount. */
export async function changeWallets(
  tx: Db,
  incarnation: string,
  changes: readonly WalletChange[],
): Promise<void> {
  const mark = (number: number) => placeholder(tx.engine, number);
  // The same lock order everywhere, so that two processes wait for each other instead of deadlocking.
  const ordered = changes.toSorted((a, b) => (a.userId < b.userId ? -1 : 1));
  const increased = ordered.filter(({ reservedNano: leasedNano }) => leasedNano > 0n);
  await insertRows(
    tx,
    "lease",
    COLUMNS,
    increased.map(({ userId, reservedNano: leasedNano }) => [incarnation, userId, leasedNano.toString()]),
    "ON CONFLICT (incarnation, user_id) DO UPDATE SET amount_nano = lease.amount_nano + excluded.amount_nano",
  );
  const decreased = ordered.filter(({ reservedNano: leasedNano }) => leasedNano < 0n);
  const lost = await findLostReservations(
    tx,
    incarnation,
    decreased.map(({ userId }) => userId),
  );
  if (lost.length > 0) throw new ReservationLost(lost);
  await tx.sql.each(
    `UPDATE lease SET amount_nano = amount_nano + CAST(${mark(1)} AS BIGINT)
     WHERE incarnation = ${mark(2)} AND user_id = ${mark(3)}`,
    decreased.map(({ userId, reservedNano: leasedNano }) => [leasedNano.toString(), incarnation, userId]),
  );
  const walletChanges = ordered.filter(({ balanceNano, heldNano }) => balanceNano !== 0n || heldNano !== 0n);
  await tx.sql.each(
    `UPDATE wallet SET balance_nano = balance_nano + CAST(${mark(1)} AS BIGINT),
       held_nano = held_nano + CAST(${mark(2)} AS BIGINT) WHERE user_id = ${mark(3)}`,
    walletChanges.map(({ userId, balanceNano, heldNano }) => [
      balanceNano.toString(),
      heldNano.toString(),
      userId,
    ]),
  );
  // A released amount covers a debt. No debt can arise here: the database has already rejected a larger shortfall.
  const released = walletChanges.filter(({ balanceNano, heldNano }) => balanceNano > heldNano);
  await tx.sql.each(
    `UPDATE wallet SET debt_nano = CASE WHEN balance_nano < held_nano THEN held_nano - balance_nano ELSE 0 END
     WHERE debt_nano > 0 AND user_id = ${mark(1)}`,
    released.map(({ userId }) => [userId]),
  );
}

/**
 * Returns the users without a reservation. Locks the reservations of the others until the transaction ends; SQLite
 * has a single writer anyway.
 */
export async function findLostReservations(
  tx: Db,
  incarnation: string,
  userIds: readonly string[],
): Promise<string[]> {
  const head = `SELECT user_id FROM lease WHERE incarnation = ${placeholder(tx.engine, 1)} AND user_id`;
  const rows = await selectIn(tx, head, userIds, lockClause(tx, "user_id"), [incarnation]);
  const present = new Set(rows.map((row) => text(row, "user_id")));
  return userIds.filter((userId) => !present.has(userId));
}

/** Another process considered this one dead and released its reservations. */
export class ReservationLost extends Error {
  override readonly name = "ReservationLost";
  readonly userIds: readonly string[];
  constructor(userIds: readonly string[]) {
    super(`The wallet reservations of ${userIds.join(", ")} no longer exist.`);
    this.userIds = userIds;
  }
}

/** The reservations of one process, by user. */
export async function listReservations(db: Db, incarnation: string): Promise<Map<string, Nano>> {
  const rows = await db.sql`
    SELECT user_id, CAST(amount_nano AS TEXT) AS amount_nano FROM lease WHERE incarnation = ${incarnation}`;
  return new Map(rows.map((row) => [text(row, "user_id"), nano(row, "amount_nano")]));
}

/** Sum of all processes' reservations in a user's wallet. */
export async function sumReservations(db: Db, userId: string): Promise<Nano> {
  const [row] = await db.sql`
    SELECT CAST(COALESCE(SUM(amount_nano), 0) AS TEXT) AS amount_nano FROM lease WHERE user_id = ${userId}`;
  if (row === undefined) throw new Error("A sum returned no row.");
  return nano(row, "amount_nano");
}

export async function deleteEmptyReservations(
  tx: Db,
  incarnation: string,
  userIds: readonly string[],
): Promise<void> {
  const mark = (number: number) => placeholder(tx.engine, number);
  await tx.sql.each(
    `DELETE FROM lease WHERE incarnation = ${mark(1)} AND user_id = ${mark(2)} AND amount_nano = 0`,
    userIds.map((userId) => [incarnation, userId]),
  );
}

export async function deleteReservations(tx: Db, incarnation: string): Promise<void> {
  await tx.sql`DELETE FROM lease WHERE incarnation = ${incarnation}`;
}
