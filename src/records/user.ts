/** A user as it is stored. */

import type { CallerLimits } from "./limits.ts";

/** An `auditor` reads usage, prices, ledgers and the change log of everyone, and changes nothing of others. */
export const ROLES = ["admin", "auditor", "user"] as const;
export type Role = (typeof ROLES)[number];

export const USER_STATUSES = ["active", "disabled"] as const;
export type UserStatus = (typeof USER_STATUSES)[number];

export interface UserRecord {
  id: string;
  email: string;
  role: Role;
  /** A disabled user cannot sign in, and the user's keys and tokens are rejected. */
  status: UserStatus;
  passwordHash: string | null;
  /** Limits of all keys of this user together. */
  limits: CallerLimits;
  /** Ids of the user's groups (rows of `group_member`), in the operator's order. */
  groups: readonly string[];
  createdAtMs: number;
}
