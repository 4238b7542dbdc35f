/**
 * Ends the access of people of a provider who lost a required group or have not signed in for too long, and restores that
 * of many at once.
 */

import type { Installation } from "../../config/installation/installation.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { formatList } from "../../config/state/difference.ts";
import { appendChange, type ChangeEntry } from "../../store/audit-log/audit-log.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { bumpKeyRevision } from "../../store/engine/revisions.ts";
import { restorePerson, suspendPerson } from "../../store/identity/directory-grants.ts";
import { findDirectoryLosses, listLostPeople } from "../../store/identity/directory-losses.ts";
import {
  findIdentity,
  findIdentityOfUser,
  listOverdueIdentities,
} from "../../store/identity/external-identities.ts";
import { findUser } from "../../store/identity/users.ts";
import { readSignIn } from "../../store/settings/sections.ts";

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
    await appendChange(
      tx,
      await suspend(tx, identity.userId, { atMs: clock.nowMs(), reason, ...BY_GATEWAY }),
    );
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
      await transaction(db, (tx) => suspendIfOverdue(tx, userId, { ...due, atMs: nowMs }));
  }
}

/** The person may have signed in since the list was read. */
async function suspendIfOverdue(
  tx: Db,
  userId: string,
  { signedInBeforeMs, atMs }: { signedInBeforeMs: number; atMs: number },
): Promise<void> {
  // The lock that sign-ins take too.
  await bumpKeyRevision(tx);
  const identity = await findIdentityOfUser(tx, userId);
  if (identity === null || identity.suspendedAtMs !== null) return;
  if (identity.signedInAtMs < signedInBeforeMs)
    await appendChange(
      tx,
      await suspend(tx, userId, { atMs, reason: "no sign-in for too long", ...BY_GATEWAY }),
    );
}

interface RestoredPeople {
  people: number;
  keys: number;
}

/** Restores the people whom a provider has lost at once. Each is a change of its own: an interrupted call is repeated. */
export async function restoreLostPeople(
  { db, clock }: EndContext,
  provider: string,
  by: Pick<ChangeEntry, "actor" | "address">,
): Promise<RestoredPeople> {
  const losses = await findDirectoryLosses(db, clock.nowMs(), limits.alerts.directoryLoss);
  const loss = losses.find((one) => one.provider === provider);
  const restored = { people: 0, keys: 0 };
  for (const userId of loss === undefined ? [] : await listLostPeople(db, loss)) {
    const keys = await transaction(db, (tx) => restore(tx, userId, { ...by, atMs: clock.nowMs() }));
    if (keys === null) continue;
    restored.people += 1;
    restored.keys += keys.length;
  }
  return restored;
}

async function restore(
  tx: Db,
  userId: string,
  by: Pick<ChangeEntry, "actor" | "address" | "atMs">,
): Promise<string[] | null> {
  const keys = await restorePerson(tx, userId);
  if (keys === null) return null;
  const user = await findUser(tx, userId);
  const changes = [{ field: "restored_keys", from: null, to: formatList(keys) }];
  await appendChange(tx, {
    ...by,
    action: "directory.restore",
    target: `user ${user?.email ?? userId}`,
    changes,
  });
  return keys;
}

/** Changes that no request asked for. */
export const BY_GATEWAY = {
  actor: { kind: "system", id: null, name: "gateway" },
  address: null,
} as const satisfies Pick<ChangeEntry, "actor" | "address">;

/** Returns the entry of the audit log, which is appended last in the transaction. */
export async function suspend(
  tx: Db,
  userId: string,
  { atMs, reason, actor, address }: Pick<ChangeEntry, "atMs" | "actor" | "address"> & { reason: string },
): Promise<ChangeEntry> {
  const { sessions, tokens, suspendedKeys } = await suspendPerson(tx, userId, atMs);
  const user = await findUser(tx, userId);
  return {
    atMs,
    actor,
    action: "directory.suspend",
    target: `user ${user?.email ?? userId}`,
    changes: [
      { field: "reason", from: null, to: reason },
      { field: "sessions", from: String(sessions), to: "0" },
      { field: "tokens", from: String(tokens), to: "0" },
      { field: "suspended_keys", from: null, to: formatList(suspendedKeys) },
    ],
    address,
  };
}
