/** Signs in a verified person: finds or creates the user, applies the claims, and begins a session. */

import type { Installation } from "../../config/installation/installation.ts";
import { formatList, secretSet } from "../../config/state/difference.ts";
import { ApiError } from "../../errors.ts";
import { computeGrants, type Person, REQUIRED_GROUP_NOT_PUSHED } from "../../openid/claims.ts";
import type { FieldChange } from "../../records/policy.ts";
import type { ProviderRecord } from "../../records/sign-in.ts";
import { effectiveStatus, type UserRecord } from "../../records/user.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { bumpKeyRevision } from "../../store/engine/revisions.ts";
import { applyGrants, type GrantChange } from "../../store/identity/directory-grants.ts";
import { findIdentity, findIdentityOfUser } from "../../store/identity/external-identities.ts";
import { hasInvitation } from "../../store/identity/links.ts";
import { canAdministratorSignIn, findUser, findUserByEmail } from "../../store/identity/users.ts";
import { listGroups } from "../../store/policy/groups.ts";
import { addUser } from "../auth/create-account.ts";
import { beginSession, type NewSession } from "../auth/session.ts";
import { accountDisabledError } from "../auth/sessions.ts";
import { recordChange } from "../changes/audit-log-entry.ts";
import { linkIdentity } from "./link-identity.ts";
import { readPushedGroups } from "./pushed-groups.ts";

interface AdmittedPerson {
  userId: string;
  cookie: string;
  /** Whether keys were suspended or restored. */
  changedKeys: boolean;
}

/** The address of a new person belongs to an account that is not linked. Its owner may link it. */
export class AddressTaken extends Error {
  readonly userId: string;
  constructor(userId: string) {
    super("The address already has an account, which is not linked.");
    this.userId = userId;
  }
}

/** How a person who is not signed in has proved that an account is the own one. */
export interface LinkProof {
  by: "password" | "mail";
  /** Throws if the proof is used up, or the account has changed since. */
  confirm(tx: Db): Promise<void>;
}

interface Admission {
  provider: ProviderRecord;
  person: Person;
  /** The user to whom the person is linked; null for a sign-in. */
  linkUserId: string | null;
  /** Omitted if that user is signed in. */
  proof?: LinkProof;
}

export async function admitPerson(
  installation: Installation,
  client: NewSession,
  { provider, person, linkUserId, proof }: Admission,
): Promise<AdmittedPerson> {
  const { db, clock } = installation;
  return transaction(db, async (tx) => {
    // Takes the lock: of two first sign-ins of one person, the second finds the user.
    await bumpKeyRevision(tx);
    await proof?.confirm(tx);
    const identity = await findIdentity(tx, person.issuer, person.subject);
    const user =
      identity === null
        ? await linkPerson(tx, installation, { provider, person, linkUserId })
        : await requireUser(tx, identity.userId, linkUserId);
    if (effectiveStatus(user) === "disabled") throw accountDisabledError();
    const grants = await readCurrentGrants(tx, provider, person);
    const groups = await listGroups(tx);
    const names = new Map(groups.map(({ id, name }) => [id, name]));
    const granted = groups.filter(({ name }) => grants.groups.includes(name)).map(({ id }) => id);
    const nowMs = clock.nowMs();
    const wanted = {
      source: "sign_in",
      provider: provider.name,
      role: grants.role,
      groups: granted,
    } as const;
    const change = await applyGrants(tx, user.id, wanted, nowMs);
    const cookie = await beginSession(tx, installation, client, user.id);
    const author = { actor: { userId: user.id, email: user.email }, clientAddress: client.clientAddress };
    const entry = { atMs: nowMs, target: `user ${user.email}` };
    if (identity === null) {
      const changes = [
        { field: "provider", from: null, to: provider.name },
        secretSet("subject"),
        ...(proof === undefined ? [] : [{ field: "proof", from: null, to: proof.by }]),
      ];
      await recordChange(tx, author, { ...entry, action: "directory.link", changes });
    }
    const changes = describeChange(change, names);
    if (changes.length > 0) await recordChange(tx, author, { ...entry, action: "directory.change", changes });
    const by = [{ field: "by", from: null, to: provider.name }];
    await recordChange(tx, author, { ...entry, action: "session.create", changes: by });
    return {
      userId: user.id,
      cookie,
      changedKeys: change.suspendedKeys.length + change.restoredKeys.length > 0,
    };
  });
}

/** Inside the transaction: the directory may have pushed other groups since they were read for the claims. */
async function readCurrentGrants(
  tx: Db,
  provider: ProviderRecord,
  { issuer, subject, role, groups }: Person,
): Promise<Pick<Person, "role" | "groups">> {
  const pushed = await readPushedGroups(tx, issuer, subject);
  if (pushed === null) return { role, groups };
  const grants = computeGrants(provider, pushed);
  if (grants !== null) return grants;
  throw new ApiError("not_assigned", REQUIRED_GROUP_NOT_PUSHED);
}

async function requireUser(tx: Db, userId: string, linkUserId: string | null): Promise<UserRecord> {
  if (linkUserId !== null && linkUserId !== userId)
    throw new ApiError("conflict", "This person of the provider is already linked to another user.");
  const user = await findUser(tx, userId);
  if (user === null) throw new Error("A linked user does not exist.");
  return user;
}

interface NewLink {
  provider: ProviderRecord;
  person: Person;
  linkUserId: string | null;
}

async function linkPerson(tx: Db, installation: Installation, link: NewLink): Promise<UserRecord> {
  const { provider, person, linkUserId } = link;
  const user =
    linkUserId === null
      ? await createUser(tx, installation, provider, person)
      : await requireLinkable(tx, linkUserId);
  const { issuer, subject } = person;
  const atMs = installation.clock.nowMs();
  await linkIdentity(tx, user, { issuer, subject, provider: provider.name, atMs });
  return user;
}

/** An address is never a link: anyone at another provider could have it. */
async function createUser(
  tx: Db,
  installation: Installation,
  { createUsers }: ProviderRecord,
  { email }: Person,
): Promise<UserRecord> {
  const owner = await findUserByEmail(tx, email);
  if (owner !== null) {
    if ((await findIdentityOfUser(tx, owner.id)) === null) throw new AddressTaken(owner.id);
    throw new ApiError(
      "conflict",
      `The account with the address ${email} is already linked to another person of a provider. Ask an administrator.`,
    );
  }
  if (createUsers === "invited" && !(await hasInvitation(tx, email, installation.clock.nowMs())))
    throw new ApiError("not_assigned", `${email} is not invited. Ask an administrator for an invitation.`);
  if (createUsers === "scim")
    throw new ApiError(
      "not_assigned",
      `The directory of your company has not sent ${email} to this gateway. Ask an administrator to assign you.`,
    );
  return addUser(tx, installation, { email, role: "user", passwordHash: null });
}

async function requireLinkable(tx: Db, userId: string): Promise<UserRecord> {
  const user = await findUser(tx, userId);
  if (user === null) throw new ApiError("sign_in_required", "This account no longer exists.");
  if ((await findIdentityOfUser(tx, userId)) !== null)
    throw new ApiError("conflict", "Your account is already linked to a person of a provider.");
  const isEmergency = user.role === "admin" && user.passwordHash !== null;
  if (isEmergency && !(await canAdministratorSignIn(tx, userId))) {
    throw new ApiError(
      "conflict",
      "You are the only administrator with a password, who can sign in while the provider is down. Create another one first.",
    );
  }
  return user;
}

export function describeChange(
  { role, groups, suspendedKeys, restoredKeys }: GrantChange,
  names: ReadonlyMap<string, string>,
): FieldChange[] {
  const formatGroups = (ids: readonly string[]) =>
    ids.length === 0 ? null : formatList(ids.map((id) => names.get(id) ?? id).sort());
  const from = formatGroups(groups.from);
  const to = formatGroups(groups.to);
  return [
    ...(role.from === role.to ? [] : [{ field: "role", ...role }]),
    ...(from === to ? [] : [{ field: "groups", from, to }]),
    ...describeKeys("suspended_keys", suspendedKeys),
    ...describeKeys("restored_keys", restoredKeys),
  ];
}

function describeKeys(field: string, keys: readonly string[]): FieldChange[] {
  return keys.length === 0 ? [] : [{ field, from: null, to: formatList(keys) }];
}
