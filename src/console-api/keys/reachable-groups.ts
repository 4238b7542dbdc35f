/** Determines the groups in which a user may create keys. */

import type { PolicyGroup, Snapshot } from "../../policy/snapshot.ts";
import type { UserRecord } from "../../records/user.ts";

/** Administrators may use every group, because they could make themselves members. */
export function mayUse(group: PolicyGroup, user: Pick<UserRecord, "groups" | "role">): boolean {
  return group.access === "everyone" || user.role === "admin" || user.groups.includes(group.id);
}

export function filterUsableGroups(
  { groups }: Snapshot,
  user: Pick<UserRecord, "groups" | "role">,
): PolicyGroup[] {
  return [...groups.values()].filter((group) => mayUse(group, user));
}
