/** A user as it is stored. */

import type { CallerLimits } from "./limits.ts";

/** An `auditor` reads usage, prices, ledgers and the audit log of everyone, and changes nothing of others. */
export const ROLES = ["admin", "auditor", "user"] as const;
export type Role = (typeof ROLES)[number];

export const USER_STATUSES = ["active", "disabled"] as const;
export type UserStatus = (typeof USER_STATUSES)[number];

/** What the directory grants, by claims of the last sign-in or by pushed groups, in addition to the file and the console. */
export interface DirectoryGrants {
  /** The name of the provider. */
  provider: string;
  /** Null if no claim grants a role. */
  role: Role | null;
  /** Ids of groups. */
  groups: readonly string[];
  /** The directory has deactivated the person by SCIM. */
  isDeactivated: boolean;
}

export interface UserRecord {
  id: string;
  email: string;
  /** As the file or the console set it; `effectiveRole` includes the directory. */
  role: Role;
  /** As the file or the console set it; `effectiveStatus` includes the directory. */
  status: UserStatus;
  passwordHash: string | null;
  /** Limits of all keys of this user together. */
  limits: CallerLimits;
  /** Ids of the groups that file or console set, in the operator's order; `effectiveGroups` includes the directory. */
  groups: readonly string[];
  createdAtMs: number;
  /** Omitted for users who do not sign in at a provider. Sign-in writes it, never the file or the console. */
  directory?: DirectoryGrants;
}

/** The rights of a user: what file and console grant, and what the directory grants. */
export function effectiveRole({ role, directory }: Pick<UserRecord, "role" | "directory">): Role {
  return higherRole(role, directory?.role ?? null);
}

export function effectiveGroups({ groups, directory }: Pick<UserRecord, "groups" | "directory">): string[] {
  return [...new Set([...groups, ...(directory?.groups ?? [])])];
}

/** A disabled user cannot sign in, and the user's keys and tokens are rejected. */
export function effectiveStatus({ status, directory }: Pick<UserRecord, "status" | "directory">): UserStatus {
  return directory?.isDeactivated === true ? "disabled" : status;
}

/** `ROLES` begins with the highest. */
export function higherRole(role: Role, other: Role | null): Role {
  return other !== null && ROLES.indexOf(other) < ROLES.indexOf(role) ? other : role;
}
