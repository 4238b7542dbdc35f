/**
 * Money of wallets that a process has set aside for requests to come, so that it need not ask the store for each of
 * them. A wallet counts it as held.
 */

import type { Nano } from "../money/nano.ts";
import type { Db } from "./db.ts";
import { placeholder } from "./db.ts";
import { insertRows } from "./insert-rows.ts";
import { nano, text } from "./row.ts";

/** What happens to a user's money: in its wallet, and in the part of it that a process has set aside. */
export interface WalletChange {
  userId: string;
  balanceNano: Nano;
  heldNano: Nano;
  leasedNano: Nano;
}

const COLUMNS = ["incarnation", "user_id", "amount_nano"] as const;

/** Adds, or takes away where negative. The engine refuses what would leave less than nothing. */
export async function changeWallets(
  tx: Db,
  incarnation: string,
  changes: readonly WalletChange[],
): Promise<void> {
  const mark = (number: number) => placeholder(tx.engine, number);
  // In one order everywhere: two that want the same wallets then wait for each other instead of deadlocking.
  const ordered = changes.toSorted((a, b) => (a.userId < b.userId ? -1 : 1));
  const lent = ordered.filter(({ leasedNano }) => leasedNano > 0n);
  await insertRows(
    tx,
    "lease",
    COLUMNS,
    lent.map(({ userId, leasedNano }) => [incarnation, userId, leasedNano.toString()]),
    "ON CONFLICT (incarnation, user_id) DO UPDATE SET amount_nano = lease.amount_nano + excluded.amount_nano",
  );
  for (const { userId, leasedNano } of ordered) {
    if (leasedNano >= 0n) continue;
    const taken = await tx.sql`
      UPDATE lease SET amount_nano = amount_nano + CAST(${leasedNano.toString()} AS BIGINT)
      WHERE incarnation = ${incarnation} AND user_id = ${userId} RETURNING user_id`;
    if (taken.length === 0) throw new LeaseLost(userId);
  }
  const moved = ordered.filter(({ balanceNano, heldNano }) => balanceNano !== 0n || heldNano !== 0n);
  await tx.sql.each(
    `UPDATE wallet SET balance_nano = balance_nano + CAST(${mark(1)} AS BIGINT),
       held_nano = held_nano + CAST(${mark(2)} AS BIGINT) WHERE user_id = ${mark(3)}`,
    moved.map(({ userId, balanceNano, heldNano }) => [balanceNano.toString(), heldNano.toString(), userId]),
  );
}

/** Another process took this one for dead, and has given back what it had set aside. */
export class LeaseLost extends Error {
  override readonly name = "LeaseLost";
  readonly userId: string;
  constructor(userId: string) {
    super(`Nothing is set aside any more of the wallet of ${userId}.`);
    this.userId = userId;
  }
}

/** What one process has set aside, user by user. */
export async function leasesOf(db: Db, incarnation: string): Promise<Map<string, Nano>> {
  const rows = await db.sql`
    SELECT user_id, CAST(amount_nano AS TEXT) AS amount_nano FROM lease WHERE incarnation = ${incarnation}`;
  return new Map(rows.map((row) => [text(row, "user_id"), nano(row, "amount_nano")]));
}

/** What all processes have set aside of a user's wallet. */
export async function leasedOf(db: Db, userId: string): Promise<Nano> {
  const [row] = await db.sql`
    SELECT CAST(COALESCE(SUM(amount_nano), 0) AS TEXT) AS amount_nano FROM lease WHERE user_id = ${userId}`;
  if (row === undefined) throw new Error("A sum without rows is still one row.");
  return nano(row, "amount_nano");
}

export async function dropEmptyLeases(
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

export async function dropLeases(tx: Db, incarnation: string): Promise<void> {
  await tx.sql`DELETE FROM lease WHERE incarnation = ${incarnation}`;
}
