/**
 * Applies what the directory has pushed to the people concerned: roles, groups and keys. People whose grants are right
 * already cost a comparison, so a repeated push writes nothing.
 */

import { nextTurn } from "../../base/next-turn.ts";
import type { Installation } from "../../config/installation/installation.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { computeGrants } from "../../openid/claims.ts";
import type { Role, UserRecord } from "../../records/user.ts";
import { appendChange, type ChangeEntry } from "../../store/audit-log/audit-log.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { bumpKeyRevision } from "../../store/engine/revisions.ts";
import { applyGrants } from "../../store/identity/directory-grants.ts";
import { readSuspended } from "../../store/identity/external-identities.ts";
import { readScimMemberships } from "../../store/identity/scim-groups.ts";
import {
  findScimUsers,
  listScimUserIds,
  type ScimUserRecord,
  writeScimSuspension,
} from "../../store/identity/scim-users.ts";
import { findUsers } from "../../store/identity/users.ts";
import { listGroups } from "../../store/policy/groups.ts";
import { readScimProvider, type ScimProvider } from "../../store/settings/sections.ts";
import { describeChange } from "../sign-in/admit-person.ts";
import { BY_GATEWAY, suspend } from "../sign-in/end-access.ts";

/** Who pushed, for the audit log. */
export type PushAuthor = Pick<ChangeEntry, "actor" | "address">;

interface Application {
  readonly scim: ScimProvider;
  readonly userIds: readonly string[];
  readonly author: PushAuthor;
}

/** Returns whether something changed. In several transactions, so that a large group does not block the database. */
export async function applyDirectory(
  { db, clock }: Pick<Installation, "db" | "clock">,
  { scim, userIds, author }: Application,
): Promise<boolean> {
  const { applyAtOnce } = limits.scim;
  let hasChanged = false;
  for (let start = 0; start < userIds.length; start += applyAtOnce) {
    if (start > 0) await nextTurn();
    const stale = (await planPeople(db, scim, userIds.slice(start, start + applyAtOnce))).map(({ id }) => id);
    if (stale.length === 0) continue;
    hasChanged = true;
    await transaction(db, async (tx) => {
      for (const entry of await applyNow(tx, { scim, userIds: stale, author }, clock.nowMs()))
        await appendChange(tx, entry);
    });
  }
  return hasChanged;
}

/** Within a transaction. Returns the entries of the audit log, which are appended last. */
export async function applyNow(
  tx: Db,
  { scim, userIds, author }: Application,
  atMs: number,
): Promise<ChangeEntry[]> {
  await bumpKeyRevision(tx);
  const names = new Map((await listGroups(tx)).map(({ id, name }) => [id, name]));
  const entries: ChangeEntry[] = [];
  for (const plan of await planPeople(tx, scim, userIds)) {
    const entry = { ...author, atMs, action: "directory.change", target: `user ${plan.email}` };
    if (plan.kind === "suspend") {
      entries.push(await suspend(tx, plan.id, { ...author, atMs, reason: plan.reason }));
      await writeScimSuspension(tx, plan.id, true);
      continue;
    }
    const { role, groups } = plan;
    const wanted = { source: "push", provider: scim.provider.name, role, groups } as const;
    const changes = describeChange(await applyGrants(tx, plan.id, wanted, atMs), names);
    if (changes.length > 0) entries.push({ ...entry, changes });
  }
  return entries;
}

/** Repairs what a push or a change of the configuration has left to do. */
export async function applyWholeDirectory(installation: Pick<Installation, "db" | "clock">): Promise<void> {
  const scim = await readScimProvider(installation.db);
  if (scim === null) return;
  const userIds = await listScimUserIds(installation.db, scim.provider.issuer);
  await applyDirectory(installation, { scim, userIds, author: BY_GATEWAY });
}

type PersonPlan = { readonly id: string; readonly email: string } & (
  | { readonly kind: "suspend"; readonly reason: string }
  | { readonly kind: "grant"; readonly role: Role | null; readonly groups: readonly string[] }
);

/** The people whose access is not what the directory says. */
async function planPeople(db: Db, scim: ScimProvider, userIds: readonly string[]): Promise<PersonPlan[]> {
  const people = await findScimUsers(db, userIds);
  const users = new Map((await findUsers(db, { ids: userIds })).map((user) => [user.id, user]));
  const memberships = await readScimMemberships(db, userIds);
  const suspended = await readSuspended(db, userIds);
  const groupIds = new Map((await listGroups(db)).map(({ id, name }) => [name, id]));
  return people.flatMap((person): PersonPlan[] => {
    const user = users.get(person.userId);
    if (user === undefined) return [];
    const who = { id: user.id, email: user.email };
    const wanted = decide(scim, person, { user, names: nameGroups(memberships.get(user.id)), groupIds });
    if (wanted.kind === "suspend") return person.isSuspended ? [] : [{ ...who, ...wanted }];
    // Who is suspended for another reason, such as no sign-in for too long, returns with a sign-in.
    if (suspended.has(user.id) && !person.isSuspended) return [];
    return person.isSuspended || differs(user, wanted) ? [{ ...who, ...wanted }] : [];
  });
}

function nameGroups(groups: readonly { displayName: string }[] = []): string[] {
  return groups.map(({ displayName }) => displayName);
}

type Wanted =
  | { kind: "suspend"; reason: string }
  | { kind: "grant"; role: Role | null; groups: readonly string[] };

function decide(
  { settings, provider }: ScimProvider,
  { isActive }: ScimUserRecord,
  {
    user,
    names,
    groupIds,
  }: { user: UserRecord; names: readonly string[]; groupIds: ReadonlyMap<string, string> },
): Wanted {
  if (!isActive) return { kind: "suspend", reason: "deactivated by the directory" };
  const { role = null, groups = [] } = user.directory ?? {};
  // Until the next sign-in. The role of a person who returns comes with it.
  if (settings.groups === "claims") return { kind: "grant", role, groups };
  const granted = computeGrants(provider, names);
  if (granted === null) return { kind: "suspend", reason: "required group lost" };
  const ids = granted.groups.flatMap((name) => groupIds.get(name) ?? []);
  return { kind: "grant", role: granted.role, groups: ids };
}

function differs(
  { directory }: UserRecord,
  wanted: { role: Role | null; groups: readonly string[] },
): boolean {
  const present = new Set(directory?.groups ?? []);
  return (
    (directory?.role ?? null) !== wanted.role ||
    present.size !== wanted.groups.length ||
    wanted.groups.some((id) => !present.has(id))
  );
}
