/**
 * Fences of wallet reservations: one row decides whether a process still owns its reservations. The owner advances it in
 * each transaction, and a process that recovers the reservations deletes it. The row lock orders the two.
 */

import type { Db } from "../engine/db.ts";
import { integer } from "../engine/row.ts";

/** Another process has recovered the reservations of this one, or the database was restored. */
export class FenceLost extends Error {
  override readonly name = "FenceLost";
  constructor(processId: string) {
    super(`The wallet reservations of ${processId} were recovered by another process.`);
  }
}

export async function insertFence(tx: Db, processId: string, sequence: number): Promise<void> {
  const rows = await tx.sql`
    INSERT INTO reservation_fence (process_id, sequence) VALUES (${processId}, ${sequence})
    ON CONFLICT (process_id) DO NOTHING RETURNING sequence`;
  if (rows.length === 0) throw new FenceLost(processId);
}

/** Sets the next sequence number. Throws `FenceLost` unless the row has exactly the number of the last commit. */
export async function advanceFence(tx: Db, processId: string, sequence: number): Promise<void> {
  const rows = await tx.sql`
    UPDATE reservation_fence SET sequence = sequence + 1
    WHERE process_id = ${processId} AND sequence = ${sequence} RETURNING sequence`;
  if (rows.length === 0) throw new FenceLost(processId);
}

/**
 * The sequence number, or null if there is no fence. Waits for a transaction that is advancing it: the server may
 * still be running one whose client has given up.
 */
export async function readFence(tx: Db, processId: string): Promise<number | null> {
  const [row] = await tx.sql`
    UPDATE reservation_fence SET sequence = sequence WHERE process_id = ${processId} RETURNING sequence`;
  return row === undefined ? null : integer(row, "sequence");
}

/** Takes the reservations away from their owner. Waits until the owner's running transaction has ended. */
export async function deleteFence(tx: Db, processId: string): Promise<void> {
  await tx.sql`DELETE FROM reservation_fence WHERE process_id = ${processId}`;
}
