/** Ends the access of people of a provider: who lost a required group, or have not signed in for too long. */

import type { Installation } from "../../config/installation/installation.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { formatList } from "../../config/state/difference.ts";
import { appendChange } from "../../store/audit-log/audit-log.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { suspendPerson } from "../../store/identity/directory-grants.ts";
import { findIdentity, listOverdueIdentities } from "../../store/identity/external-identities.ts";
import { findUser } from "../../store/identity/users.ts";
import { readSignIn } from "../../store/settings/sign-in-settings.ts";

type EndContext = Pick<Installation, "db" | "clock">;

/** Returns false if the person is unknown or has no access already. */
export async function endPersonAccess(
  { db, clock }: EndContext,
  { issuer, subject }: { issuer: string; subject: string },
  reason: string,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const identity = await findIdentity(tx, issuer, subject);
    if (identity === null || identity.suspendedAtMs !== null) return false;
    await suspend(tx, identity.userId, { atMs: clock.nowMs(), reason });
    return true;
  });
}

/** Suspends people who have not signed in for `sign_in_every`. Other nodes reload their keys. */
export async function suspendOverduePeople({ db, clock }: EndContext): Promise<void> {
  const nowMs = clock.nowMs();
  for (const { name, signInEveryMs } of (await readSignIn(db)).providers) {
    if (signInEveryMs === null) continue;
    const due = {
      provider: name,
      signedInBeforeMs: nowMs - signInEveryMs,
      limit: limits.companySignIn.overdueMax,
    };
    for (const { userId } of await listOverdueIdentities(db, due))
      await transaction(db, (tx) => suspend(tx, userId, { atMs: nowMs, reason: "no sign-in for too long" }));
  }
}

async function suspend(
  tx: Db,
  userId: string,
  { atMs, reason }: { atMs: number; reason: string },
): Promise<void> {
  const { sessions, tokens, suspendedKeys } = await suspendPerson(tx, userId, atMs);
  const user = await findUser(tx, userId);
  await appendChange(tx, {
    atMs,
    actor: { kind: "system", id: null, name: "gateway" },
    action: "directory.suspend",
    target: `user ${user?.email ?? userId}`,
    changes: [
      { field: "reason", from: null, to: reason },
      { field: "sessions", from: String(sessions), to: "0" },
      { field: "tokens", from: String(tokens), to: "0" },
      { field: "suspended_keys", from: null, to: formatList(suspendedKeys) },
    ],
    address: null,
  });
}
