/** Holds that could not be settled. They belong to no process; an operator charges or releases them. */

import type { Nano } from "../../money/nano.ts";
import { type Db, transaction } from "../engine/db.ts";
import { text, textOrNull } from "../engine/row.ts";
import { recordBillingFault } from "./billing-faults.ts";
import { type EndedHold, endHolds, toEndedHold } from "./holds.ts";

/** The owner of these holds. No process has this id. */
export const SET_ASIDE = "set_aside";

/** The kind of their billing faults, which have the reason. */
export const SET_ASIDE_FAULT = "hold_set_aside";

const faultId = (requestId: string) => `hold ${requestId}`;

/**
 * Returns false and does nothing if the hold was settled meanwhile, or moved to another owner. Windows no longer count the
 * hold: it may wait for its operator for days.
 */
export function setAsideHold(
  db: Db,
  {
    requestId,
    processId,
    reason,
    nowMs,
  }: { requestId: string; processId: string; reason: string; nowMs: number },
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const moved = await tx.sql`
      UPDATE hold SET process_id = ${SET_ASIDE}, is_adopted = 0
      WHERE request_id = ${requestId} AND process_id = ${processId} RETURNING request_id`;
    if (moved.length === 0) return false;
    await recordBillingFault(tx, {
      id: faultId(requestId),
      atMs: nowMs,
      kind: SET_ASIDE_FAULT,
      detail: reason,
    });
    return true;
  });
}

export interface SetAsideHold extends EndedHold {
  /** Null if the user was deleted. */
  readonly email: string | null;
  /** Why it could not be settled. */
  readonly reason: string;
}

/** Oldest first. Reads only what an operator needs: the other columns may be what is wrong. */
export async function listSetAsideHolds(db: Db, limit: number): Promise<SetAsideHold[]> {
  const rows = await db.sql`
    SELECT h.request_id, h.user_id, h.subscription_id, CAST(h.amount_nano AS TEXT) AS amount_nano, h.at_ms,
      u.email, COALESCE(f.detail, 'unknown') AS reason
    FROM hold h LEFT JOIN app_user u ON u.id = h.user_id
      LEFT JOIN billing_fault f ON f.id = 'hold ' || h.request_id
    WHERE h.process_id = ${SET_ASIDE} ORDER BY h.at_ms, h.request_id LIMIT ${limit}`;
  return rows.map((row) => ({
    ...toEndedHold(row),
    email: textOrNull(row, "email"),
    reason: text(row, "reason"),
  }));
}

/** Deletes the hold; null if there is no such hold. The caller returns its money to the payer. */
export async function endSetAsideHold(tx: Db, requestId: string): Promise<EndedHold | null> {
  const owned = await tx.sql`
    SELECT request_id FROM hold WHERE request_id = ${requestId} AND process_id = ${SET_ASIDE}`;
  if (owned.length === 0) return null;
  await tx.sql`DELETE FROM billing_fault WHERE id = ${faultId(requestId)}`;
  return (await endHolds(tx, [requestId])).get(requestId) ?? null;
}

/** Never below zero: a held amount that is too small may be why the hold could not be settled. */
export async function releaseHeld(tx: Db, userId: string, amountNano: Nano): Promise<void> {
  const amount = amountNano.toString();
  await tx.sql`
    UPDATE wallet SET held_nano = CASE WHEN held_nano > CAST(${amount} AS BIGINT)
      THEN held_nano - CAST(${amount} AS BIGINT) ELSE 0 END
    WHERE user_id = ${userId}`;
}
