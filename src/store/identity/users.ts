/** User records and their group memberships. */

import {
  effectiveStatus,
  higherRole,
  type Role,
  USER_STATUSES,
  type UserRecord,
} from "../../records/user.ts";
import { orDuplicate, rejectReferenced, StoreConflict } from "../engine/conflict.ts";
import { type Db, type Row, snapshot, transaction } from "../engine/db.ts";
import { bumpKeyRevision } from "../engine/revisions.ts";
import { enumText, integer, text, textOrNull } from "../engine/row.ts";
import { selectIn } from "../engine/select-in.ts";
import { callerLimits, callerLimitsText } from "../policy/limits-column.ts";
import { deleteMembers, GROUP_MEMBERS, readMembers } from "../policy/memberships.ts";
import {
  readGrants,
  readLocalRole,
  readLocalStatus,
  type StoredGrants,
  selectLocalGroups,
  writeMembers,
} from "./directory-columns.ts";
import { deleteEntryLinks } from "./links.ts";
import { readRole, roleColumns } from "./role-column.ts";
import { deleteSessions } from "./sessions.ts";
import { eraseUserContent } from "./user-content.ts";

const SELECT_USERS =
  "SELECT id, email, role, is_auditor, status, password_hash, limits, created_at_ms FROM app_user";

export async function listUsers(db: Db): Promise<UserRecord[]> {
  return snapshot(db, async (tx) => {
    const rows = await tx.sql.text(`${SELECT_USERS} ORDER BY created_at_ms, id`, []);
    const groups = await readMembers(tx, GROUP_MEMBERS);
    const grants = await readGrants(tx);
    return rows.map((row) => toUser(row, groups, grants));
  });
}

/** Case-insensitive. */
export async function findUserByEmail(db: Db, email: string): Promise<UserRecord | null> {
  const [user] = await findUsers(db, { emails: [email] });
  return user ?? null;
}

export async function findUser(db: Db, id: string): Promise<UserRecord | null> {
  const [user] = await findUsers(db, { ids: [id] });
  return user ?? null;
}

/** The users that exist, oldest first. */
export async function findUsers(
  db: Db,
  selector: { emails: readonly string[] } | { ids: readonly string[] },
): Promise<UserRecord[]> {
  return snapshot(db, async (tx) => {
    const rows =
      "ids" in selector
        ? await selectIn(tx, `${SELECT_USERS} WHERE id`, selector.ids)
        : await selectIn(tx, `${SELECT_USERS} WHERE email_folded`, selector.emails.map(foldEmail));
    const ids = rows.map((row) => text(row, "id"));
    const groups = await readMembers(tx, GROUP_MEMBERS, ids);
    const grants = await readGrants(tx, ids);
    return rows
      .map((row) => toUser(row, groups, grants))
      .sort((a, b) => a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1));
  });
}

export async function isUser(db: Db, id: string): Promise<boolean> {
  const found = await db.sql`SELECT id FROM app_user WHERE id = ${id}`;
  return found.length > 0;
}

/** Whether an active administrator exists. Disabled ones do not count. */
export async function hasAdministrator(db: Db): Promise<boolean> {
  const found = await db.sql`SELECT id FROM app_user WHERE role = 'admin' AND status = 'active' LIMIT 1`;
  return found.length > 0;
}

/**
 * An administrator created by a configuration file without a password cannot sign in until one is set. One who signs in
 * at a provider does not count, because the provider may be down.
 */
export async function canAdministratorSignIn(db: Db, otherThan = ""): Promise<boolean> {
  const found = await db.sql`
    SELECT id FROM app_user
    WHERE role = 'admin' AND status = 'active' AND password_hash IS NOT NULL AND id <> ${otherThan}
      AND id NOT IN (SELECT user_id FROM external_identity) LIMIT 1`;
  return found.length > 0;
}

/**
 * A change of limits or status also increases the revision of the user's keys, so that nodes reload them. A new
 * password, a new role or disabling the user ends all sessions. A new password also deletes the links that would
 * still sign in.
 */
export async function putUser(db: Db, user: UserRecord): Promise<void> {
  await transaction(db, async (tx) => {
    const revision = await bumpKeyRevision(tx);
    const limits = callerLimitsText(user.limits);
    const grants = (await readGrants(tx, [user.id])).get(user.id);
    const effective = higherRole(user.role, grants?.role ?? null);
    const { role, isAuditor } = roleColumns(effective);
    const status = effectiveStatus({ status: user.status, ...(grants && { directory: grants }) });
    const [before] = await tx.sql`
      SELECT id, limits, status, role, is_auditor, password_hash FROM app_user WHERE id = ${user.id}`;
    await orDuplicate(
      `Another user already has the address "${user.email}".`,
      tx.sql`
        INSERT INTO app_user (id, email, email_folded, role, is_auditor, status, password_hash, limits, created_at_ms)
        VALUES (${user.id}, ${user.email}, ${foldEmail(user.email)}, ${role}, ${isAuditor}, ${status},
          ${user.passwordHash}, ${limits}, ${user.createdAtMs})
        ON CONFLICT (id) DO UPDATE SET email = excluded.email, email_folded = excluded.email_folded,
          role = excluded.role, is_auditor = excluded.is_auditor, status = excluded.status,
          password_hash = excluded.password_hash, limits = excluded.limits, created_at_ms = excluded.created_at_ms`,
    );
    if (before !== undefined && (text(before, "limits") !== limits || text(before, "status") !== status))
      await tx.sql`UPDATE api_key SET revision = ${revision} WHERE user_id = ${user.id}`;
    if (grants !== undefined) {
      await tx.sql`UPDATE external_identity SET local_role = ${user.role} WHERE user_id = ${user.id}`;
      await tx.sql`UPDATE scim_user SET local_status = ${user.status} WHERE user_id = ${user.id}`;
    }
    if (before !== undefined && endsSessions(before, { ...user, role: effective, status }))
      await deleteSessions(tx, user.id, null);
    if (before !== undefined && textOrNull(before, "password_hash") !== user.passwordHash)
      await deleteEntryLinks(tx, user.id);
    await writeMembers(tx, user, grants?.groups ?? []);
    await keepLocalAdministrator(tx, before);
  });
}

/**
 * Rejects a change after which only a provider could sign in an administrator, who would be locked out while it is down.
 * As long as no person of a provider exists, this concerns no one.
 */
async function keepLocalAdministrator(tx: Db, before: Row | undefined): Promise<void> {
  const couldSignIn =
    before?.role === "admin" && before.status === "active" && textOrNull(before, "password_hash") !== null;
  if (!couldSignIn || (await canAdministratorSignIn(tx))) return;
  const people = await tx.sql`SELECT user_id FROM external_identity LIMIT 1`;
  if (people.length === 0) return;
  throw new StoreConflict(
    "referenced",
    "This user is the only administrator with a password, who can sign in while the provider is down. Create another one first.",
  );
}

function endsSessions(
  before: Row,
  { role, status, passwordHash }: Pick<UserRecord, "status" | "passwordHash"> & { role: Role },
): boolean {
  const isOther = readRole(before) !== role || textOrNull(before, "password_hash") !== passwordHash;
  return isOther || status === "disabled";
}

/** Deletes a user with all content. Returns false if the user did not exist. Revoked keys do not prevent it. */
export async function deleteUser(db: Db, id: string): Promise<boolean> {
  return transaction(db, async (tx) => {
    // Takes the lock: no key may be created for the user between the check and the commit.
    await bumpKeyRevision(tx);
    const keys = await tx.sql`
      SELECT name FROM api_key WHERE user_id = ${id} AND status = 'active' ORDER BY created_at_ms, id`;
    rejectReferenced(`The user "${id}" still has`, "key", keys);
    await deleteMembers(tx, GROUP_MEMBERS, id);
    await tx.sql`UPDATE subscription SET status = 'cancelled' WHERE user_id = ${id} AND status = 'active'`;
    await eraseUserContent(tx, id);
    const [deleted] = await tx.sql`
      DELETE FROM app_user WHERE id = ${id} RETURNING id, role, status, password_hash`;
    await keepLocalAdministrator(tx, deleted);
    return deleted !== undefined;
  });
}

/** Folded here because lower() of the two engines differs beyond ASCII. */
export function foldEmail(email: string): string {
  return email.normalize("NFC").toLowerCase();
}

function toUser(
  row: Row,
  members: ReadonlyMap<string, string[]>,
  grantsByUser: ReadonlyMap<string, StoredGrants>,
): UserRecord {
  const id = text(row, "id");
  const grants = grantsByUser.get(id);
  return {
    id,
    email: text(row, "email"),
    role: readLocalRole(readRole(row), grants),
    status: readLocalStatus(enumText(row, "status", USER_STATUSES), grants),
    passwordHash: textOrNull(row, "password_hash"),
    limits: callerLimits(row, "limits"),
    groups: selectLocalGroups(members.get(id) ?? [], grants),
    createdAtMs: integer(row, "created_at_ms"),
    ...(grants === undefined
      ? {}
      : {
          directory: {
            provider: grants.provider,
            role: grants.role,
            groups: grants.groups,
            isDeactivated: grants.isDeactivated,
          },
        }),
  };
}
