/** Determines the groups in which a user may create keys. */

import type { PolicyGroup, Snapshot } from "../../policy/snapshot.ts";
import { effectiveGroups, effectiveRole, type UserRecord } from "../../records/user.ts";

type Member = Pick<UserRecord, "groups" | "role" | "directory">;

/** Administrators may use every group, because they could make themselves members. */
export function mayUse(group: PolicyGroup, user: Member): boolean {
  return (
    group.access === "everyone" || effectiveRole(user) === "admin" || effectiveGroups(user).includes(group.id)
  );
}

export function filterUsableGroups({ groups }: Snapshot, user: Member): PolicyGroup[] {
  return [...groups.values()].filter((group) => mayUse(group, user));
}
