/** Reading the ledger: what was booked for a user, and what for one request. */

import type { Nano } from "../money/nano.ts";
import type { Db } from "./db.ts";
import { type Transfer, toTransfer } from "./ledger.ts";
import { nano, text } from "./row.ts";

/** The latest first. `before`: only what stands below this entry, which was the last of the page above. */
export async function listEntriesOfUser(
  db: Db,
  userId: string,
  { limit, before }: { limit: number; before?: Pick<Transfer, "atMs" | "id"> },
): Promise<Transfer[]> {
  const atMs = before?.atMs ?? Number.MAX_SAFE_INTEGER;
  const id = before?.id ?? "";
  const rows = await db.sql`
    SELECT id, at_ms, kind, debit, credit, CAST(amount_nano AS TEXT) AS amount_nano, user_id, subscription_id,
      request_id, actor, reason
    FROM entry WHERE user_id = ${userId} AND (at_ms, id) < (${atMs}, ${id})
    ORDER BY at_ms DESC, id DESC LIMIT ${limit}`;
  return rows.map(toTransfer);
}

/** In the order in which they were booked. */
export async function listEntriesOfRequest(db: Db, requestId: string): Promise<Transfer[]> {
  const rows = await db.sql`
    SELECT id, at_ms, kind, debit, credit, CAST(amount_nano AS TEXT) AS amount_nano, user_id, subscription_id,
      request_id, actor, reason
    FROM entry WHERE request_id = ${requestId} ORDER BY at_ms, id`;
  return rows.map(toTransfer);
}

/** What each user began with, of those who began with something. From the users' side: entries are many. */
export async function readOpenings(db: Db): Promise<Map<string, Nano>> {
  const rows = await db.sql`
    SELECT app_user.id AS user_id, CAST(entry.amount_nano AS TEXT) AS amount_nano
    FROM app_user JOIN entry ON entry.id = 'opening:' || app_user.id`;
  return new Map(rows.map((row) => [text(row, "user_id"), nano(row, "amount_nano")]));
}

/** Until the transaction ends nobody else locks it. It is not changed: entries never are. */
export async function lockEntry(tx: Db, id: string): Promise<boolean> {
  const locked = await tx.sql`UPDATE entry SET id = id WHERE id = ${id} RETURNING id`;
  return locked.length > 0;
}
