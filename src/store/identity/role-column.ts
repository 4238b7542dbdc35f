/**
 * The role of a user in two columns. Nodes of the version before the auditor read only `role` and reject a value that
 * they do not know, so an auditor is a `user` with the flag `is_auditor`: for such a node, an ordinary user.
 */

import type { Role } from "../../records/user.ts";
import type { Row } from "../engine/db.ts";
import { enumText, flag } from "../engine/row.ts";

const STORED_ROLES = ["admin", "user"] as const;

/** Requires the columns `role` and `is_auditor`. */
export function readRole(row: Row): Role {
  const role = enumText(row, "role", STORED_ROLES);
  return role === "user" && flag(row, "is_auditor") ? "auditor" : role;
}

interface RoleColumns {
  role: (typeof STORED_ROLES)[number];
  isAuditor: 0 | 1;
}

export function roleColumns(role: Role): RoleColumns {
  return role === "auditor" ? { role: "user", isAuditor: 1 } : { role, isAuditor: 0 };
}
