/**
 * What the directory grants to users, beside the columns of a user. `app_user` and `group_member` have the sum of both
 * sources, because nodes of the version before read only them.
 */

import {
  type DirectoryGrants,
  effectiveStatus,
  higherRole,
  ROLES,
  type Role,
  USER_STATUSES,
  type UserStatus,
} from "../../records/user.ts";
import type { Db } from "../engine/db.ts";
import { enumText, flag, text } from "../engine/row.ts";
import { selectIn } from "../engine/select-in.ts";
import { GROUP_MEMBERS, replaceMembers } from "../policy/memberships.ts";

export interface StoredGrants extends DirectoryGrants {
  localRole: Role;
  /** Null for people who are not pushed by SCIM. */
  localStatus: UserStatus | null;
  /** Groups that the directory grants and that file or console grant too. */
  sharedGroups: ReadonlySet<string>;
}

/** By user; of all users if `userIds` is omitted. */
export async function readGrants(
  tx: Db,
  userIds?: readonly string[],
): Promise<ReadonlyMap<string, StoredGrants>> {
  const identities = `SELECT external_identity.user_id AS user_id, provider, local_role, granted_role, is_active, local_status
    FROM external_identity LEFT JOIN scim_user ON scim_user.user_id = external_identity.user_id`;
  const groups = `SELECT directory_group.user_id AS user_id, group_id, is_local
    FROM directory_group JOIN key_group ON key_group.id = group_id`;
  const select = (statement: string, column: string) =>
    userIds === undefined
      ? tx.sql.text(statement, [])
      : selectIn(tx, `${statement} WHERE ${column}`, userIds);
  const identityRows = await select(identities, "external_identity.user_id");
  if (identityRows.length === 0) return new Map();
  const groupsByUser = Map.groupBy(await select(groups, "directory_group.user_id"), (row) =>
    text(row, "user_id"),
  );
  return new Map(
    identityRows.map((row) => {
      const userId = text(row, "user_id");
      const granted = groupsByUser.get(userId) ?? [];
      const shared = granted.filter((group) => flag(group, "is_local"));
      return [
        userId,
        {
          provider: text(row, "provider"),
          role: row.granted_role === null ? null : enumText(row, "granted_role", ROLES),
          localRole: enumText(row, "local_role", ROLES),
          localStatus: row.local_status === null ? null : enumText(row, "local_status", USER_STATUSES),
          isDeactivated: row.is_active !== null && !flag(row, "is_active"),
          groups: granted.map((group) => text(group, "group_id")),
          sharedGroups: new Set(shared.map((group) => text(group, "group_id"))),
        },
      ];
    }),
  );
}

/**
 * The role that file or console gave. If `stored` is not the sum of both sources, a node of the version before has
 * changed it since, and its value counts.
 */
export function readLocalRole(stored: Role, grants: StoredGrants | undefined): Role {
  if (grants === undefined) return stored;
  return higherRole(grants.localRole, grants.role) === stored ? grants.localRole : stored;
}

/** As for the role: a status that is not the sum of both sources was changed by a node of the version before. */
export function readLocalStatus(stored: UserStatus, grants: StoredGrants | undefined): UserStatus {
  if (grants?.localStatus == null) return stored;
  return effectiveStatus({ status: grants.localStatus, directory: grants }) === stored
    ? grants.localStatus
    : stored;
}

/** Members that the directory does not grant, and those that both grant. */
export function selectLocalGroups(members: readonly string[], grants: StoredGrants | undefined): string[] {
  if (grants === undefined) return [...members];
  const granted = new Set(grants.groups);
  return members.filter((id) => !granted.has(id) || grants.sharedGroups.has(id));
}

/** Writes the groups of a user from both sources: those of file and console in their order, then those of the directory. */
export async function writeMembers(
  tx: Db,
  user: { id: string; email: string; groups: readonly string[] },
  granted: readonly string[],
): Promise<void> {
  const local = new Set(user.groups);
  const memberIds = [...user.groups, ...granted.filter((id) => !local.has(id))];
  const phrase = `The user "${user.email}" is a member of`;
  await replaceMembers(tx, GROUP_MEMBERS, { ownerId: user.id, memberIds, phrase });
  for (const id of granted) {
    await tx.sql`
      UPDATE directory_group SET is_local = ${local.has(id) ? 1 : 0} WHERE user_id = ${user.id} AND group_id = ${id}`;
  }
}
