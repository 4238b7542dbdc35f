/** Queries of the ledger: the entries of a user, and the charge and refunds of one request. */

import type { Nano } from "../../money/nano.ts";
import { type Db, placeholder } from "../engine/db.ts";
import { nano, text, textOrNull } from "../engine/row.ts";
import { ENTRY, findEntry, REVENUE, type Transfer } from "./ledger.ts";

/** Newest first. `before`: the last entry of the previous page. */
export async function listUserEntries(
  db: Db,
  userId: string,
  { limit, before }: { limit: number; before?: Pick<Transfer, "atMs" | "id"> },
): Promise<Transfer[]> {
  const atMs = before?.atMs ?? Number.MAX_SAFE_INTEGER;
  const id = before?.id ?? "";
  const mark = (number: number) => placeholder(db.engine, number);
  const rows = await db.sql.text(
    `SELECT ${ENTRY.selected} FROM entry WHERE user_id = ${mark(1)} AND (at_ms, id) < (${mark(2)}, ${mark(3)})
     ORDER BY at_ms DESC, id DESC LIMIT ${mark(4)}`,
    [userId, atMs, id, limit],
  );
  return rows.map(ENTRY.read);
}

/** Entries that are not charges of requests. There are few of them, and an index has exactly this condition. */
export const BY_HAND = "kind <> 'charge'";

/** SQL: what a charge or a correction adds to the charged amount. A correction may be negative. */
export const chargedNano = (entry: string): string =>
  `CASE WHEN ${entry}.credit = '${REVENUE}' THEN ${entry}.amount_nano ELSE -${entry}.amount_nano END`;

/** SQL: what the correction of a request adds to its charge; 0 without a correction. */
export const correctedNano = (requestId: string): string =>
  `COALESCE((SELECT ${chargedNano("c")} FROM entry c WHERE c.id = 'correction:' || ${requestId}), 0)`;

export async function refundedNano(db: Db, requestId: string): Promise<Nano> {
  const [row] = await db.sql.text(
    `SELECT CAST(COALESCE(SUM(amount_nano), 0) AS TEXT) AS amount_nano FROM entry
     WHERE ${BY_HAND} AND kind = 'refund' AND request_id = ${placeholder(db.engine, 1)}`,
    [requestId],
  );
  if (row === undefined) throw new Error("A sum returned no row.");
  return nano(row, "amount_nano");
}

/** The opening balance of each user who has one. Starts from the users, because there are many more entries. */
export async function readOpenings(db: Db): Promise<Map<string, Nano>> {
  const rows = await db.sql`
    SELECT app_user.id AS user_id, CAST(entry.amount_nano AS TEXT) AS amount_nano
    FROM app_user JOIN entry ON entry.id = 'opening:' || app_user.id`;
  return new Map(rows.map((row) => [text(row, "user_id"), nano(row, "amount_nano")]));
}

/**
 * Returns the charge of a request. For a shared charge, it is this request's part, taken from its usage row. Locks
 * the charge until the transaction ends.
 */
export async function lockCharge(tx: Db, requestId: string): Promise<Transfer | null> {
  const [row] = await tx.sql`
    SELECT charged_with, CAST(charged_nano AS TEXT) AS charged_nano FROM usage_row WHERE request_id = ${requestId}`;
  const sharedWith = row === undefined ? null : textOrNull(row, "charged_with");
  const id = `charge:${sharedWith ?? requestId}`;
  // Takes the row lock only. Entries are never changed.
  const locked = await tx.sql`UPDATE entry SET id = id WHERE id = ${id} RETURNING id`;
  const entry = locked.length === 0 ? null : await findEntry(tx, id);
  if (row !== undefined && sharedWith !== null && entry !== null) {
    return { ...entry, amountNano: nano(row, "charged_nano") };
  }
  if (entry?.requestId !== requestId) return null;
  const correction = await findEntry(tx, `correction:${requestId}`);
  if (correction === null) return entry;
  const { credit, amountNano } = correction;
  return { ...entry, amountNano: entry.amountNano + (credit === REVENUE ? amountNano : -amountNano) };
}
