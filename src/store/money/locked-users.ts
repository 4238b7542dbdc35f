/** Finds users whose money another transaction has locked, without waiting for it. */

import { type Db, transaction } from "../engine/db.ts";
import { isSharedServer } from "../engine/dialect.ts";
import { text } from "../engine/row.ts";
import { selectIn } from "../engine/select-in.ts";

const LOCKED_TABLES = ["wallet", "subscription"];

/** Empty where there is a single writer. A user of the result may be free again by the time it returns. */
export async function findLockedUsers(db: Db, userIds: readonly string[]): Promise<Set<string>> {
  const locked = new Set<string>();
  if (!isSharedServer(db) || userIds.length === 0) return locked;
  await transaction(db, async (tx) => {
    for (const table of LOCKED_TABLES) {
      const head = `SELECT user_id, CAST(ctid AS TEXT) AS row_id FROM ${table} WHERE user_id`;
      const rowIds = new Map(
        (await selectIn(tx, head, userIds)).map((row) => [text(row, "row_id"), text(row, "user_id")]),
      );
      const free = await selectIn(tx, head, userIds, "FOR UPDATE SKIP LOCKED");
      for (const row of free) rowIds.delete(text(row, "row_id"));
      for (const userId of rowIds.values()) locked.add(userId);
    }
  });
  return locked;
}
