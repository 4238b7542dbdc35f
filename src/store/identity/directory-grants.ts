/**
 * Applies what a directory grants to a user, and ends it. The directory removes only what it granted: a role or a group
 * that file or console grant stays.
 */

import {
  effectiveGroups,
  effectiveRole,
  effectiveStatus,
  higherRole,
  type Role,
} from "../../records/user.ts";
import { type Db, transaction } from "../engine/db.ts";
import { bumpKeyRevision } from "../engine/revisions.ts";
import { endSuspensions, restoreKeys, suspendKeys } from "../policy/suspended-keys.ts";
import { deleteAccessTokens } from "./access-tokens.ts";
import { deleteDeviceRequests } from "./device-requests.ts";
import { writeMembers } from "./directory-columns.ts";
import { deleteLinksTo } from "./links.ts";
import { roleColumns } from "./role-column.ts";
import { writeScimSuspension } from "./scim-users.ts";
import { deleteSessions } from "./sessions.ts";
import { findUser, putUser } from "./users.ts";

interface WantedGrants {
  /** A sign-in with claims, or a push by SCIM. */
  source: "sign_in" | "push";
  /** The name of the provider. */
  provider: string;
  role: Role | null;
  /** Ids of existing groups. */
  groups: readonly string[];
}

export interface GrantChange {
  role: { from: Role; to: Role };
  groups: { from: readonly string[]; to: readonly string[] };
  suspendedKeys: readonly string[];
  restoredKeys: readonly string[];
}

/**
 * Replaces the grants of the directory. Keys of lost groups are suspended; keys of groups that have returned are
 * restored. Another role ends all sessions of the user.
 */
export async function applyGrants(
  db: Db,
  userId: string,
  wanted: WantedGrants,
  atMs: number,
): Promise<GrantChange> {
  return transaction(db, async (tx) => {
    // First, because it takes the lock that changes of users and keys take.
    await bumpKeyRevision(tx);
    const user = await requireUser(tx, userId);
    const from = { role: effectiveRole(user), groups: effectiveGroups(user) };
    const to = {
      role: higherRole(user.role, wanted.role),
      groups: [...new Set([...user.groups, ...wanted.groups])],
    };
    const signedInAtMs = wanted.source === "sign_in" ? atMs : null;
    await tx.sql`
      UPDATE external_identity SET provider = ${wanted.provider}, granted_role = ${wanted.role},
        local_role = ${user.role}, signed_in_at_ms = COALESCE(CAST(${signedInAtMs} AS BIGINT), signed_in_at_ms),
        suspended_at_ms = NULL
      WHERE user_id = ${userId}`;
    await writeScimSuspension(tx, userId, false);
    await writeRole(tx, userId, { from: from.role, to: to.role });
    await tx.sql`DELETE FROM directory_group WHERE user_id = ${userId}`;
    for (const groupId of new Set(wanted.groups)) {
      await tx.sql`
        INSERT INTO directory_group (user_id, group_id, is_local) VALUES (${userId}, ${groupId}, 0)`;
    }
    await writeMembers(tx, user, [...new Set(wanted.groups)]);
    const lost = (user.directory?.groups ?? []).filter((id) => !to.groups.includes(id));
    // Restored first: the keys of a person who returns without one of the groups are suspended for that group.
    const restoredKeys = await restoreKeys(tx, userId, to.groups);
    const suspendedKeys = lost.length === 0 ? [] : await suspendKeys(tx, userId, { groups: lost }, atMs);
    return {
      role: { from: from.role, to: to.role },
      groups: { from: from.groups, to: to.groups },
      suspendedKeys,
      restoredKeys: restoredKeys.filter((name) => !suspendedKeys.includes(name)),
    };
  });
}

interface EndedGrants {
  sessions: number;
  tokens: number;
  suspendedKeys: readonly string[];
}

/**
 * Ends the access of a person until the next successful sign-in: all keys are suspended, sessions and tokens end, and the
 * directory grants no role. The groups stay recorded, so that the next sign-in knows which of them were lost.
 */
export async function suspendPerson(db: Db, userId: string, atMs: number): Promise<EndedGrants> {
  return transaction(db, async (tx) => {
    await bumpKeyRevision(tx);
    const user = await requireUser(tx, userId);
    await tx.sql`
      UPDATE external_identity SET granted_role = NULL, local_role = ${user.role}, suspended_at_ms = ${atMs}
      WHERE user_id = ${userId}`;
    await writeRole(tx, userId, { from: effectiveRole(user), to: user.role });
    await deleteDeviceRequests(tx, userId);
    // A link that was created before would sign in without the provider.
    await deleteLinksTo(tx, user.email);
    return {
      sessions: await deleteSessions(tx, userId, null),
      tokens: await deleteAccessTokens(tx, userId),
      suspendedKeys: await suspendKeys(tx, userId, "person", atMs),
    };
  });
}

/**
 * Ends the suspension of a person without a sign-in. The keys work again; a role of the directory returns with the next
 * sign-in. Returns the names of the keys, or null if the person is not suspended.
 */
export async function restorePerson(db: Db, userId: string): Promise<string[] | null> {
  return transaction(db, async (tx) => {
    await bumpKeyRevision(tx);
    const restored = await tx.sql`
      UPDATE external_identity SET suspended_at_ms = NULL
      WHERE user_id = ${userId} AND suspended_at_ms IS NOT NULL RETURNING user_id`;
    if (restored.length === 0) return null;
    // The hourly check suspends again whom the directory still gives no access.
    await writeScimSuspension(tx, userId, false);
    return restoreKeys(tx, userId, effectiveGroups(await requireUser(tx, userId)));
  });
}

/** The user becomes a local one: what the directory granted ends, and suspended keys stay revoked. */
export async function unlinkIdentity(db: Db, userId: string): Promise<boolean> {
  return transaction(db, async (tx) => {
    await bumpKeyRevision(tx);
    const user = await findUser(tx, userId);
    if (user?.directory === undefined) return false;
    await writeRole(tx, userId, { from: effectiveRole(user), to: user.role });
    await tx.sql`DELETE FROM directory_group WHERE user_id = ${userId}`;
    await tx.sql`DELETE FROM external_identity WHERE user_id = ${userId}`;
    // Deletes the memberships in pushed groups too.
    await tx.sql`DELETE FROM scim_user WHERE user_id = ${userId}`;
    const { directory: _, ...local } = user;
    // A person whom the directory has deactivated stays disabled.
    await putUser(tx, { ...local, status: effectiveStatus(user) });
    await deleteSessions(tx, userId, null);
    await deleteAccessTokens(tx, userId);
    await deleteDeviceRequests(tx, userId);
    await endSuspensions(tx, userId);
    return true;
  });
}

async function writeRole(tx: Db, userId: string, { from, to }: { from: Role; to: Role }): Promise<void> {
  if (from === to) return;
  const { role, isAuditor } = roleColumns(to);
  await tx.sql`UPDATE app_user SET role = ${role}, is_auditor = ${isAuditor} WHERE id = ${userId}`;
  await deleteSessions(tx, userId, null);
}

async function requireUser(tx: Db, userId: string) {
  const user = await findUser(tx, userId);
  if (user === null) throw new Error("The user was deleted during the sign-in.");
  return user;
}
