/** Removes the second factor of a user. */

import type { Installation } from "../../config/installation/installation.ts";
import { appendChange, type ChangeEntry } from "../../store/audit-log/audit-log.ts";
import type { Db } from "../../store/engine/db.ts";
import { removeSecondFactor } from "../../store/identity/credentials.ts";

/** Returns false if no second factor was active. */
export async function dropSecondFactor(
  tx: Db,
  { clock }: Pick<Installation, "clock">,
  user: { id: string; email: string },
  by: Pick<ChangeEntry, "actor" | "address">,
): Promise<boolean> {
  const removed = await removeSecondFactor(tx, user.id);
  if (removed) {
    await appendChange(tx, {
      ...by,
      atMs: clock.nowMs(),
      action: "second_factor.remove",
      target: `user ${user.email}`,
      changes: [{ field: "second_factor", from: "on", to: "off" }],
    });
  }
  return removed;
}
