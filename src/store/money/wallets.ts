/** Wallets: balances, and how much of each is held. Changed only together with an entry or a hold. */

import type { Nano } from "../../money/nano.ts";
import type { Db } from "../engine/db.ts";
import { lockClause } from "../engine/dialect.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { nano, text } from "../engine/row.ts";
import { selectIn } from "../engine/select-in.ts";

export interface Wallet {
  /** Negative if requests cost more than their holds and the balance could not cover the overrun. */
  balanceNano: Nano;
  heldNano: Nano;
}

const EMPTY: Wallet = { balanceNano: 0n, heldNano: 0n };

/** The amount that the balance lacks to cover all holds. */
export function computeDebt({ balanceNano, heldNano }: Wallet): Nano {
  return heldNano > balanceNano ? heldNano - balanceNano : 0n;
}

/**
 * A wallet locked for a change. Its debt grows only when an overrun is booked: the database
 * rejects a wallet whose shortfall exceeds the recorded debt.
 */
export interface LockedWallet extends Wallet {
  debtNano: Nano;
}

/** The debt after a change that is not an overrun: released or added money reduces it. */
export function computeRemainingDebt(changed: LockedWallet): Nano {
  const lackingNano = computeDebt(changed);
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

/** Every balance that is not zero, by user. */
export async function readFunds(db: Db): Promise<Map<string, Nano>> {
  const rows = await db.sql`
    SELECT user_id, CAST(balance_nano AS TEXT) AS balance_nano FROM wallet WHERE balance_nano <> 0`;
  return new Map(rows.map((row) => [text(row, "user_id"), nano(row, "balance_nano")]));
}

/** Locks the wallets until the transaction ends. Users without a wallet are omitted. */
export async function lockWallets(tx: Db, userIds: readonly string[]): Promise<Map<string, LockedWallet>> {
  const rows = await selectIn(
    tx,
    `SELECT user_id, CAST(balance_nano AS TEXT) AS balance_nano, CAST(held_nano AS TEXT) AS held_nano,
       CAST(debt_nano AS TEXT) AS debt_nano FROM wallet WHERE user_id`,
    userIds.toSorted(),
    lockClause(tx, "user_id"),
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

/** Locks the wallet of one user, and creates it if it does not exist. */
export async function lockWallet(tx: Db, userId: string): Promise<LockedWallet> {
  await tx.sql`
    INSERT INTO wallet (user_id, balance_nano, held_nano) VALUES (${userId}, 0, 0)
    ON CONFLICT (user_id) DO NOTHING`;
  return (await lockWallets(tx, [userId])).get(userId) ?? { ...EMPTY, debtNano: 0n };
}

/** Added money covers a debt first. */
export async function changeWallet(tx: Db, userId: string, addNano: Nano): Promise<void> {
  const add = addNano.toString();
  await tx.sql`
    UPDATE wallet SET balance_nano = balance_nano + CAST(${add} AS BIGINT),
      debt_nano = CASE WHEN debt_nano > CAST(${add} AS BIGINT) AND debt_nano > 0
        THEN debt_nano - CAST(${add} AS BIGINT) ELSE 0 END
    WHERE user_id = ${userId}`;
}

/** Overwrites the amounts of locked wallets. */
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
