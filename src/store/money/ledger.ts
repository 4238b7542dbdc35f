/**
 * The ledger. Each entry moves an amount from one account book to another. A user's wallet is the sum of the entries
 * of the book `user:<id>`, and changes in the transaction that adds them.
 */

import type { Nano } from "../../money/nano.ts";
import { type Db, placeholder, type Row } from "../engine/db.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { integer, nano, text, textOrNull } from "../engine/row.ts";
import { choice, recordColumns } from "../engine/row-reader.ts";
import { changeWallet, lockWallet } from "./wallets.ts";

/** `correction`: the amount that a late settlement adds to its request's charge, or returns from it. */
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

export const ENTRY = recordColumns({
  /** Identifies the booking: posting the same id again books nothing. `charge:<request id>`, `redeem:<digest>`, … */
  id: text,
  atMs: integer,
  kind: choice(ENTRY_KINDS),
  debit: text,
  credit: text,
  amountNano: nano,
  userId: textOrNull,
  subscriptionId: textOrNull,
  requestId: textOrNull,
  /** Who requested the entry: a user id, `system` or `cli`. */
  actor: text,
  reason: textOrNull,
});
export type Transfer = ReturnType<typeof ENTRY.read>;

/** An entry with this id and other content exists. This is a caller's error, and never books a second entry. */
export class TransferConflict extends Error {
  override readonly name = "TransferConflict";
  constructor(id: string) {
    super(`The entry ${id} was already posted with different content. No entry was posted.`);
  }
}

/** The transfer would take more than the balance that is not held. */
export class InsufficientFunds extends Error {
  override readonly name = "InsufficientFunds";
  readonly availableNano: Nano;
  constructor(availableNano: Nano) {
    super("The available balance is too small.");
    this.availableNano = availableNano;
  }
}

export const userBook = (userId: string): string => `user:${userId}`;
export const subscriptionBook = (subscriptionId: string): string => `subscription:${subscriptionId}`;
export const REVENUE = "revenue";

const USER_BOOK = /^user:(.+)$/s;

/** The user whose wallet corresponds to a book; null for other books. */
function parseUserBook(book: string): string | null {
  return USER_BOOK.exec(book)?.[1] ?? null;
}

/**
 * Adds the entry and updates the wallets of its user books; missing wallets are created. Returns `known` if this
 * exact transfer was posted before, and changes nothing.
 */
export async function postTransfer(tx: Db, transfer: Transfer): Promise<"posted" | "known"> {
  // Locks in ascending order of user id, as everywhere, to avoid deadlocks between transfers of the same wallets.
  const users = [transfer.debit, transfer.credit].flatMap((book) => parseUserBook(book) ?? []).sort();
  const wallets = new Map<string, { balanceNano: Nano; heldNano: Nano }>();
  for (const userId of users) wallets.set(userId, await lockWallet(tx, userId));
  const existing = await findEntry(tx, transfer.id);
  if (existing !== null) {
    if (!isSameTransfer(existing, transfer)) throw new TransferConflict(transfer.id);
    return "known";
  }
  const payer = parseUserBook(transfer.debit);
  const wallet = payer === null ? undefined : wallets.get(payer);
  if (wallet !== undefined && wallet.balanceNano - wallet.heldNano < transfer.amountNano) {
    const availableNano = wallet.balanceNano - wallet.heldNano;
    throw new InsufficientFunds(availableNano > 0n ? availableNano : 0n);
  }
  const added = await insertEntries(tx, [transfer], "ON CONFLICT (id) DO NOTHING RETURNING id");
  // Between books without a wallet nothing was locked, so another node may have posted it first.
  if (added.length === 0) return postTransfer(tx, transfer);
  if (payer !== null) await changeWallet(tx, payer, -transfer.amountNano);
  const payee = parseUserBook(transfer.credit);
  if (payee !== null) await changeWallet(tx, payee, transfer.amountNano);
  return "posted";
}

/** The time may differ: a repeated call is later than the first one. */
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

/** Adds only the entries. The caller updates wallets and windows in the same transaction. */
export function insertEntries(tx: Db, transfers: readonly Transfer[], tail = ""): Promise<Row[]> {
  return insertRows(tx, "entry", ENTRY.names, transfers.map(ENTRY.values), tail);
}

export async function findEntry(db: Db, id: string): Promise<Transfer | null> {
  const [row] = await db.sql.text(
    `SELECT ${ENTRY.selected} FROM entry WHERE id = ${placeholder(db.engine, 1)}`,
    [id],
  );
  return row === undefined ? null : ENTRY.read(row);
}
