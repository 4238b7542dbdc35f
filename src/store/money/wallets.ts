/** What each user has, and how much of it is held for requests under way. Changed only with an entry or a hold. */

import type { Nano } from "../../money/nano.ts";
import type { Db } from "../engine/db.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { nano, text } from "../engine/row.ts";
import { selectIn } from "../engine/select-in.ts";

export interface Wallet {
  /** Below zero where requests cost more than was held for them and nothing was left to pay that from. */
  balanceNano: Nano;
  heldNano: Nano;
}

const EMPTY: Wallet = { balanceNano: 0n, heldNano: 0n };

/** What a balance lacks to cover all that is held of it. */
export function debtIn({ balanceNano, heldNano }: Wallet): Nano {
  return heldNano > balanceNano ? heldNano - balanceNano : 0n;
}

/**
 * A wallet that is to be changed. Its debt is the same number as `debtIn` gives, and grows only where a request's cost
 * above its hold is booked: the store refuses a wallet whose shortfall is larger than the recorded debt.
 */
export interface LockedWallet extends Wallet {
  debtNano: Nano;
}

/** The debt after a change that is no overrun: what is released or paid in covers it. */
export function remainingDebt(changed: LockedWallet): Nano {
  const lackingNano = debtIn(changed);
  return lackingNano < changed.debtNano ? lackingNano : changed.debtNano;
}

export async function readWallet(db: Db, userId: string): Promise<Wallet> {
  const [row] = await db.sql`
    SELECT CAST(balance_nano AS TEXT) AS balance_nano, CAST(held_nano AS TEXT) AS held_nano
    FROM wallet WHERE user_id = ${userId}`;
  return row === undefined
    ? EMPTY
    : { balanceNano: nano(row, "balance_nano"), heldNano: nano(row, "held_nano") };
}

/** The balance of every user who has one. */
export async function readFunds(db: Db): Promise<Map<string, Nano>> {
  const rows = await db.sql`
    SELECT user_id, CAST(balance_nano AS TEXT) AS balance_nano FROM wallet WHERE balance_nano > 0`;
  return new Map(rows.map((row) => [text(row, "user_id"), nano(row, "balance_nano")]));
}

/** Until the transaction ends nobody else changes them. A user without a wallet is left out. */
export async function lockWallets(tx: Db, userIds: readonly string[]): Promise<Map<string, LockedWallet>> {
  // In one order everywhere: two nodes that want the same wallets then wait for each other instead of deadlocking.
  const rows = await selectIn(
    tx,
    `SELECT user_id, CAST(balance_nano AS TEXT) AS balance_nano, CAST(held_nano AS TEXT) AS held_nano,
       CAST(debt_nano AS TEXT) AS debt_nano FROM wallet WHERE user_id`,
    userIds.toSorted(),
    tx.engine === "postgres" ? "ORDER BY user_id FOR UPDATE" : "",
  );
  return new Map(
    rows.map((row) => [
      text(row, "user_id"),
      {
        balanceNano: nano(row, "balance_nano"),
        heldNano: nano(row, "held_nano"),
        debtNano: nano(row, "debt_nano"),
      },
    ]),
  );
}

/** The same of one user, whose wallet is made if there is none. */
export async function lockWallet(tx: Db, userId: string): Promise<LockedWallet> {
  await tx.sql`
    INSERT INTO wallet (user_id, balance_nano, held_nano) VALUES (${userId}, 0, 0)
    ON CONFLICT (user_id) DO NOTHING`;
  return (await lockWallets(tx, [userId])).get(userId) ?? { ...EMPTY, debtNano: 0n };
}

/** Money that is added covers a debt first. */
export async function changeWallet(tx: Db, userId: string, addNano: Nano): Promise<void> {
  const add = addNano.toString();
  await tx.sql`
    UPDATE wallet SET balance_nano = balance_nano + CAST(${add} AS BIGINT),
      debt_nano = CASE WHEN debt_nano > CAST(${add} AS BIGINT) AND debt_nano > 0
        THEN debt_nano - CAST(${add} AS BIGINT) ELSE 0 END
    WHERE user_id = ${userId}`;
}

/** Sets what locked wallets hold, whatever they held before. */
export async function writeWallets(
  tx: Db,
  wallets: readonly (readonly [string, LockedWallet])[],
): Promise<void> {
  const rows = wallets
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([userId, wallet]) => [
      userId,
      wallet.balanceNano.toString(),
      wallet.heldNano.toString(),
      wallet.debtNano.toString(),
    ]);
  await insertRows(
    tx,
    "wallet",
    ["user_id", "balance_nano", "held_nano", "debt_nano"],
    rows,
    `ON CONFLICT (user_id) DO UPDATE SET balance_nano = excluded.balance_nano, held_nano = excluded.held_nano,
       debt_nano = excluded.debt_nano`,
  );
}
