/**
 * The ledger: each entry moves an amount from one book to another. A user's wallet is the sum of the entries of
 * the book `user:<id>`, and changes in the transaction that adds them.
 */

import type { Nano } from "../../money/nano.ts";
import type { Db, Row } from "../engine/db.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { integer, nano, oneOf, text, textOrNull } from "../engine/row.ts";
import { changeWallet, lockWallet } from "./wallets.ts";

/** `correction`: what a late settlement adds to its request's charge, or gives back of it. */
export const ENTRY_KINDS = [
  "charge",
  "topup",
  "adjust",
  "refund",
  "redeem",
  "opening",
  "correction",
] as const;
export type EntryKind = (typeof ENTRY_KINDS)[number];

export interface Transfer {
  /** Says what is booked: the same id a second time books nothing. `charge:<request id>`, `redeem:<digest>`, … */
  id: string;
  atMs: number;
  kind: EntryKind;
  debit: string;
  credit: string;
  amountNano: Nano;
  userId: string | null;
  subscriptionId: string | null;
  requestId: string | null;
  /** Who asked for it: a user's id, `system`, `cli`. */
  actor: string;
  reason: string | null;
}

/** The same id was booked before with another content: somebody's mistake, and never a second booking. */
export class TransferConflict extends Error {
  override readonly name = "TransferConflict";
  constructor(id: string) {
    super(`The entry ${id} was booked before with another content. Nothing was booked.`);
  }
}

/** The user's book would go below what is held of it. */
export class InsufficientFunds extends Error {
  override readonly name = "InsufficientFunds";
  readonly availableNano: Nano;
  constructor(availableNano: Nano) {
    super("The balance that is not held for requests under way is too small.");
    this.availableNano = availableNano;
  }
}

export const userBook = (userId: string): string => `user:${userId}`;
export const subscriptionBook = (subscriptionId: string): string => `subscription:${subscriptionId}`;
export const REVENUE = "revenue";

const USER_BOOK = /^user:(.+)$/s;

/** The user whose wallet a book is. */
function userOfBook(book: string): string | null {
  return USER_BOOK.exec(book)?.[1] ?? null;
}

/**
 * Adds the entry and changes the wallets of the user books that it names, making those that do not exist yet.
 * `known`: this very transfer was booked before, and nothing changed now.
 */
export async function postTransfer(tx: Db, transfer: Transfer): Promise<"posted" | "known"> {
  // The lower id first, as everywhere: two that move between the same wallets then wait instead of deadlocking.
  const users = [transfer.debit, transfer.credit].flatMap((book) => userOfBook(book) ?? []).sort();
  const wallets = new Map<string, { balanceNano: Nano; heldNano: Nano }>();
  for (const userId of users) wallets.set(userId, await lockWallet(tx, userId));
  const before = await findEntry(tx, transfer.id);
  if (before !== null) {
    if (!isSameTransfer(before, transfer)) throw new TransferConflict(transfer.id);
    return "known";
  }
  const payer = userOfBook(transfer.debit);
  const wallet = payer === null ? undefined : wallets.get(payer);
  if (wallet !== undefined && wallet.balanceNano - wallet.heldNano < transfer.amountNano) {
    const availableNano = wallet.balanceNano - wallet.heldNano;
    throw new InsufficientFunds(availableNano > 0n ? availableNano : 0n);
  }
  const added = await insertEntries(tx, [transfer], "ON CONFLICT (id) DO NOTHING RETURNING id");
  // Between books without a wallet nothing was locked, so another node may have been first.
  if (added.length === 0) return postTransfer(tx, transfer);
  if (payer !== null) await changeWallet(tx, payer, -transfer.amountNano);
  const payee = userOfBook(transfer.credit);
  if (payee !== null) await changeWallet(tx, payee, transfer.amountNano);
  return "posted";
}

/** Time may differ: a repeat comes later than the first try. */
function isSameTransfer(a: Transfer, b: Transfer): boolean {
  return (
    a.kind === b.kind &&
    a.debit === b.debit &&
    a.credit === b.credit &&
    a.amountNano === b.amountNano &&
    a.userId === b.userId &&
    a.subscriptionId === b.subscriptionId &&
    a.requestId === b.requestId
  );
}

const ENTRY_COLUMNS = [
  "id",
  "at_ms",
  "kind",
  "debit",
  "credit",
  "amount_nano",
  "user_id",
  "subscription_id",
  "request_id",
  "actor",
  "reason",
] as const;

/** The entries alone: whoever calls this changes the wallets and windows in the same transaction. */
export function insertEntries(tx: Db, transfers: readonly Transfer[], tail = ""): Promise<Row[]> {
  return insertRows(
    tx,
    "entry",
    ENTRY_COLUMNS,
    transfers.map((transfer) => [
      transfer.id,
      transfer.atMs,
      transfer.kind,
      transfer.debit,
      transfer.credit,
      transfer.amountNano.toString(),
      transfer.userId,
      transfer.subscriptionId,
      transfer.requestId,
      transfer.actor,
      transfer.reason,
    ]),
    tail,
  );
}

export async function findEntry(db: Db, id: string): Promise<Transfer | null> {
  const [row] = await db.sql`
    SELECT id, at_ms, kind, debit, credit, CAST(amount_nano AS TEXT) AS amount_nano, user_id, subscription_id,
      request_id, actor, reason
    FROM entry WHERE id = ${id}`;
  return row === undefined ? null : toTransfer(row);
}

/** Reads a row that holds all columns, with the amount as text. */
export function toTransfer(row: Row): Transfer {
  return {
    id: text(row, "id"),
    atMs: integer(row, "at_ms"),
    kind: oneOf(row, "kind", ENTRY_KINDS),
    debit: text(row, "debit"),
    credit: text(row, "credit"),
    amountNano: nano(row, "amount_nano"),
    userId: textOrNull(row, "user_id"),
    subscriptionId: textOrNull(row, "subscription_id"),
    requestId: textOrNull(row, "request_id"),
    actor: text(row, "actor"),
    reason: textOrNull(row, "reason"),
  };
}
