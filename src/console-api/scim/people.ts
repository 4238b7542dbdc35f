/** Creates, updates and removes the people whom a directory pushes. */

import { secretChange } from "../../config/state/difference.ts";
import { ApiError } from "../../errors.ts";
import type { FieldChange } from "../../records/policy.ts";
import type { UserRecord } from "../../records/user.ts";
import { ScimError } from "../../scim/scim-error.ts";
import { chooseAddress, type PushedUser } from "../../scim/user.ts";
import { appendChange } from "../../store/audit-log/audit-log.ts";
import type { Db } from "../../store/engine/db.ts";
import { deleteAccessTokens } from "../../store/identity/access-tokens.ts";
import { findIdentity, writeSubject } from "../../store/identity/external-identities.ts";
import { leaveScimGroups } from "../../store/identity/scim-groups.ts";
import {
  findScimUser,
  findScimUserByExternalId,
  findScimUsers,
  insertScimUser,
  type ScimUserRecord,
  updateScimUser,
} from "../../store/identity/scim-users.ts";
import { deleteSessions } from "../../store/identity/sessions.ts";
import { findUser, findUserByEmail, putUser } from "../../store/identity/users.ts";
import { addUser } from "../auth/create-account.ts";
import { auditLogActor } from "../changes/audit-log-entry.ts";
import { linkIdentity } from "../sign-in/link-identity.ts";
import { applyNow, type PushAuthor } from "./apply-directory.ts";
import { changeDirectory, type Push, recordDirectoryChange, requireVersion } from "./push.ts";

/** No provider has this issuer: the subject of the person is not known yet. */
const UNKNOWN_ISSUER = "scim";

export function createPerson(push: Push, pushed: PushedUser): Promise<string> {
  return changeDirectory(push, async (tx) => {
    const { issuer } = push.scim.provider;
    const { externalId } = pushed;
    const known = externalId === null ? null : await findScimUserByExternalId(tx, issuer, externalId);
    if (known !== null && known.removedAtMs === null)
      throw new ScimError("uniqueness", `This externalId belongs to the person with the id ${known.userId}.`);
    const sent = { ...pushed, isActive: pushed.isActive ?? true };
    if (known !== null) {
      await writePerson(tx, push, known, { ...sent, removedAtMs: null }, "directory.restore");
      return known.userId;
    }
    const { user, action } = await findOrCreateUser(tx, push, sent);
    const nowMs = push.installation.clock.nowMs();
    const person: ScimUserRecord = {
      ...sent,
      userId: user.id,
      issuer,
      isSuspended: false,
      version: 1,
      createdAtMs: nowMs,
      changedAtMs: nowMs,
      removedAtMs: null,
    };
    await insertScimUser(tx, person, user.status);
    await settle(tx, push, { person, user }, { action, changes: [] });
    return user.id;
  });
}

/** `change` returns the person as it will be. */
export function changePerson(
  push: Push,
  id: string,
  change: (before: PushedUser) => PushedUser,
): Promise<void> {
  return changeDirectory(push, async (tx) => {
    const before = await requirePerson(tx, push, id);
    requireVersion(push, before.version);
    const sent = change(before);
    const after = { ...sent, isActive: sent.isActive ?? before.isActive, removedAtMs: null };
    await writePerson(tx, push, before, after, "directory.update");
  });
}

/** The person has no access and is not listed any more. Wallet, usage and keys stay, for the case of a return. */
export function removePerson(push: Push, id: string): Promise<void> {
  return changeDirectory(push, async (tx) => {
    const before = await requirePerson(tx, push, id);
    requireVersion(push, before.version);
    await leaveScimGroups(tx, id);
    const removedAtMs = push.installation.clock.nowMs();
    await writePerson(tx, push, before, { ...before, isActive: false, removedAtMs }, "directory.remove");
  });
}

export async function requirePerson(db: Db, { scim }: Push, id: string): Promise<ScimUserRecord> {
  const person = await findScimUser(db, scim.provider.issuer, id);
  if (person === null) throw new ApiError("not_found", `The directory has no person with the id ${id} here.`);
  return person;
}

type PersonChange = Pick<ScimUserRecord, "externalId" | "userName" | "profile" | "isActive" | "removedAtMs">;

/** Writes nothing if nothing changes: a repeated push keeps the version. */
async function writePerson(
  tx: Db,
  push: Push,
  before: ScimUserRecord,
  change: PersonChange,
  action: string,
): Promise<void> {
  const { externalId, userName, profile, isActive, removedAtMs } = change;
  const after: ScimUserRecord = { ...before, externalId, userName, profile, isActive, removedAtMs };
  if (JSON.stringify(after) === JSON.stringify(before)) return;
  // Before the write: the status of the user is compared with what the directory said so far.
  const user = await requireUser(tx, before.userId);
  if (externalId !== before.externalId) await writeExternalId(tx, push, { user, externalId });
  await updateScimUser(tx, after, push.installation.clock.nowMs());
  await settle(tx, push, { person: after, user }, { action, changes: describePerson(before, after) });
}

/**
 * The person at the provider who signs in as this user is another one. Who could set this for an administrator could
 * sign in as one.
 */
async function writeExternalId(
  tx: Db,
  { scim }: Push,
  { user, externalId }: { user: UserRecord; externalId: string | null },
): Promise<void> {
  if (user.role !== "user")
    throw new ScimError("mutability", "externalId: of an administrator or auditor cannot be changed.");
  await writeSubject(
    tx,
    user.id,
    externalId === null
      ? { issuer: UNKNOWN_ISSUER, subject: user.id }
      : { issuer: scim.provider.issuer, subject: externalId },
  );
}

/** Brings address, status, roles, groups and keys of the user in line, and records all of it. */
async function settle(
  tx: Db,
  push: Push,
  { person, user }: { person: ScimUserRecord; user: UserRecord },
  { action, changes }: { action: string; changes: readonly FieldChange[] },
): Promise<void> {
  const { installation, scim, input } = push;
  const email = await claimAddress(tx, user, person);
  // Also for a status that the directory has changed: it writes the sum of both sources.
  await putUser(tx, { ...user, email });
  const author: PushAuthor = { actor: auditLogActor(input.actor), address: input.clientAddress };
  const application = { scim, userIds: [user.id], author };
  const entries = await applyNow(tx, application, installation.clock.nowMs());
  const address = email === user.email ? [] : [{ field: "email", from: user.email, to: email }];
  const provider =
    action === "directory.update" ? [] : [{ field: "provider", from: null, to: scim.provider.name }];
  await recordDirectoryChange(tx, push, {
    action,
    target: `user ${email}`,
    changes: [...provider, ...changes, ...address],
  });
  for (const entry of entries) await appendChange(tx, entry);
}

/** The address of an administrator or auditor stays: links and codes for the account are sent there. */
async function claimAddress(tx: Db, user: UserRecord, person: ScimUserRecord): Promise<string> {
  const email = chooseAddress(person) ?? user.email;
  if (email === user.email || user.role !== "user" || person.removedAtMs !== null) return user.email;
  await freeAddress(tx, email);
  return email;
}

/** Throws if the address belongs to someone else. A person whom the directory has removed gives it up. */
async function freeAddress(tx: Db, email: string): Promise<void> {
  const owner = await findUserByEmail(tx, email);
  if (owner === null) return;
  const [person] = await findScimUsers(tx, [owner.id]);
  if (person === undefined || person.removedAtMs === null) throw takenError(email);
  await putUser(tx, { ...owner, email: `${owner.id}@removed.invalid` });
}

function takenError(email: string): ScimError {
  return new ScimError(
    "uniqueness",
    `The address ${email} belongs to another user of the gateway. An administrator can change or delete that user, or add the domain to scim.adopt_domains.`,
  );
}

type UserOrigin = { user: UserRecord; action: "directory.create" | "directory.link" };

/** The user who has signed in as this person before, the local user with the address, or a new one. */
async function findOrCreateUser(tx: Db, push: Push, pushed: PushedUser): Promise<UserOrigin> {
  const { issuer } = push.scim.provider;
  const identity = pushed.externalId === null ? null : await findIdentity(tx, issuer, pushed.externalId);
  if (identity !== null) return { user: await requireUser(tx, identity.userId), action: "directory.link" };
  const email = chooseAddress(pushed);
  if (email === null)
    throw new ScimError("invalidValue", "emails: an e-mail address is required, there or as userName.");
  const local = await findUserByEmail(tx, email);
  if (local !== null && isAdoptable(local, push)) {
    await linkUser(tx, push, { user: local, externalId: pushed.externalId });
    // Another person may have registered the address, and may be signed in.
    await deleteSessions(tx, local.id, null);
    await deleteAccessTokens(tx, local.id);
    return { user: local, action: "directory.link" };
  }
  await freeAddress(tx, email);
  const user = await addUser(tx, push.installation, { email, role: "user", passwordHash: null });
  await linkUser(tx, push, { user, externalId: pushed.externalId });
  return { user, action: "directory.create" };
}

/** An address proves nothing, unless the operator says that the directory owns the addresses of the domain. */
function isAdoptable({ email, role, directory }: UserRecord, { scim }: Push): boolean {
  const domain = email.slice(email.lastIndexOf("@") + 1).toLowerCase();
  return directory === undefined && role === "user" && scim.settings.adoptDomains.includes(domain);
}

async function linkUser(
  tx: Db,
  { scim, installation }: Push,
  { user, externalId }: { user: UserRecord; externalId: string | null },
): Promise<void> {
  await linkIdentity(tx, user, {
    issuer: externalId === null ? UNKNOWN_ISSUER : scim.provider.issuer,
    subject: externalId ?? user.id,
    provider: scim.provider.name,
    atMs: installation.clock.nowMs(),
  });
}

async function requireUser(tx: Db, id: string): Promise<UserRecord> {
  const user = await findUser(tx, id);
  if (user === null) throw new Error("A pushed person has no user.");
  return user;
}

function describePerson(before: ScimUserRecord, after: ScimUserRecord): FieldChange[] {
  return [
    ...(before.isActive === after.isActive
      ? []
      : [{ field: "active", from: String(before.isActive), to: String(after.isActive) }]),
    ...(before.userName === after.userName
      ? []
      : [{ field: "user_name", from: before.userName, to: after.userName }]),
    ...(before.externalId === after.externalId ? [] : [secretChange("subject")]),
  ];
}
