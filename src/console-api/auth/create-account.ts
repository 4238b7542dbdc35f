/** Creates accounts: the user, the audit log entry and the first session. */

import type { Installation } from "../../config/installation/installation.ts";
import { secretSet } from "../../config/state/difference.ts";
import { type ApiError, paramError } from "../../errors.ts";
import { NO_LIMITS } from "../../records/limits.ts";
import type { UserRecord } from "../../records/user.ts";
import { appendChange } from "../../store/audit-log/audit-log.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { findCredentials } from "../../store/identity/credentials.ts";
import { putUser } from "../../store/identity/users.ts";
import { auditLogActor } from "../changes/audit-log-entry.ts";
import type { StoreContext } from "../context.ts";
import { beginSession, type NewSession, withCookie } from "./session.ts";
import { personObject } from "./sessions.ts";

export async function addUser(
  tx: Db,
  { clock, newId }: Pick<Installation, "clock" | "newId">,
  { email, role, passwordHash }: Pick<UserRecord, "email" | "role" | "passwordHash">,
): Promise<UserRecord> {
  const user: UserRecord = {
    id: newId("user"),
    email,
    role,
    status: "active",
    passwordHash,
    limits: NO_LIMITS,
    groups: [],
    createdAtMs: clock.nowMs(),
  };
  await putUser(tx, user);
  return user;
}

export async function logRegistration(
  tx: Db,
  { installation: { clock } }: StoreContext,
  { clientAddress }: Pick<NewSession, "clientAddress">,
  user: UserRecord,
  action: "user.register" | "user.join",
): Promise<void> {
  await appendChange(tx, {
    atMs: clock.nowMs(),
    actor: auditLogActor({ userId: user.id, email: user.email }),
    action,
    target: `user ${user.email}`,
    changes: [{ field: "role", from: null, to: user.role }, secretSet("password")],
    address: clientAddress,
  });
}

/** Signs in the owner of an account who has just chosen its password. */
export async function signInNewUser(
  context: StoreContext,
  client: NewSession,
  userId: string,
  response: Readonly<Record<string, string>> = {},
): Promise<Response> {
  const { installation } = context;
  const cookie = await transaction(installation.db, (tx) => beginSession(tx, installation, client, userId));
  const credentials = await findCredentials(installation.db, userId);
  if (credentials === null) throw new Error("The user was deleted while the password was being set.");
  return withCookie({ ...response, user: personObject(credentials) }, cookie);
}

export function accountExistsError(email: string): ApiError {
  return paramError(
    "email",
    "conflict",
    `The address ${email} already has an account. Sign in, or reset the password.`,
  );
}
