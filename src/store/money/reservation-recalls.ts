/**
 * Recalls of wallet reservations: a node needs money which other nodes have reserved, or a charge above its hold has
 * taken it. The row is the request, and the notification makes it fast. Used only where several nodes share the database.
 */

import { type Db, transaction } from "../engine/db.ts";
import { isSharedServer, readServerClock } from "../engine/dialect.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { notifyNodes } from "../engine/notify.ts";
import { text } from "../engine/row.ts";
import { selectIn } from "../engine/select-in.ts";

/** How long nodes make no reservation for a recalled user. Meanwhile direct billing sees the whole wallet. */
const RECALL_TERM_MS = 10_000;

export async function insertRecall(db: Db, userId: string): Promise<void> {
  await transaction(db, (tx) => insertRecalls(tx, [userId]));
}

/** Part of a transaction: the nodes are notified when it commits. */
export async function insertRecalls(tx: Db, userIds: readonly string[]): Promise<void> {
  if (!isSharedServer(tx) || userIds.length === 0) return;
  const nowMs = (await readServerClock(tx)) ?? 0;
  const rows = [...new Set(userIds)].sort().map((userId) => [userId, nowMs]);
  await insertRows(
    tx,
    "reservation_recall",
    ["user_id", "at_ms"],
    rows,
    "ON CONFLICT (user_id) DO UPDATE SET at_ms = excluded.at_ms",
  );
  await notifyNodes(tx, "recall");
}

/** The users with a recall in the last `RECALL_TERM_MS`. Older recalls are deleted. */
export async function listRecalledUsers(db: Db): Promise<string[]> {
  const nowMs = (await readServerClock(db)) ?? 0;
  const rows = await db.sql`SELECT user_id, at_ms FROM reservation_recall`;
  const isCurrent = (atMs: unknown) => Number(atMs) > nowMs - RECALL_TERM_MS;
  if (rows.some(({ at_ms }) => !isCurrent(at_ms)))
    await db.sql`DELETE FROM reservation_recall WHERE at_ms <= ${nowMs - RECALL_TERM_MS}`;
  return rows.filter(({ at_ms }) => isCurrent(at_ms)).map((row) => text(row, "user_id"));
}

/** Those of these users with a recall, for a transaction that has locked their wallets. */
export async function findRecalledUsers(tx: Db, userIds: readonly string[]): Promise<Set<string>> {
  if (!isSharedServer(tx)) return new Set();
  const rows = await selectIn(tx, "SELECT user_id FROM reservation_recall WHERE user_id", userIds);
  return new Set(rows.map((row) => text(row, "user_id")));
}
