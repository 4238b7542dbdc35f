/** Determines the groups in which a user may create keys. */

import { isBuiltIn } from "../../accounts/kinds/table.ts";
import type { PolicyGroup, PublishedModel, Snapshot } from "../../policy/snapshot.ts";
import { effectiveGroups, effectiveRole, type UserRecord } from "../../records/user.ts";

type Member = Pick<UserRecord, "groups" | "role" | "directory">;

/** Administrators may use every group, because they could make themselves members. */
export function mayUse(group: PolicyGroup, user: Member): boolean {
  return (
    group.access === "everyone" || effectiveRole(user) === "admin" || effectiveGroups(user).includes(group.id)
  );
}

/** Groups that only the simulator serves, such as the demo group, are last: pages propose the first one for a new key. */
export function filterUsableGroups({ groups }: Snapshot, user: Member): PolicyGroup[] {
  return [...groups.values()]
    .filter((group) => mayUse(group, user))
    .toSorted((a, b) => Number(isSimulated(a)) - Number(isSimulated(b)));
}

function isSimulated({ models }: PolicyGroup): boolean {
  return models.size > 0 && ![...models.values()].some(hasVendor);
}

/** Whether an account of a vendor serves the model, and not only the simulator. */
export function hasVendor({ routes }: PublishedModel): boolean {
  return [...routes.values()].some((serving) => serving.some(({ account }) => !isBuiltIn(account.kind)));
}
