/** Creates, updates and deletes the groups that a directory pushes, and applies them to their members. */

import { limits } from "../../config/limits/product-limits.ts";
import { ApiError } from "../../errors.ts";
import type { FieldChange } from "../../records/policy.ts";
import type { PushedGroup } from "../../scim/group.ts";
import { ScimError } from "../../scim/scim-error.ts";
import type { Db } from "../../store/engine/db.ts";
import {
  countScimMembers,
  deleteScimGroup,
  findScimGroup,
  insertScimGroup,
  listScimMembers,
  type ScimGroupRecord,
  updateScimGroup,
  writeScimMembers,
} from "../../store/identity/scim-groups.ts";
import { findListedScimIds } from "../../store/identity/scim-users.ts";
import { auditLogActor } from "../changes/audit-log-entry.ts";
import { applyDirectory } from "./apply-directory.ts";
import { changeDirectory, type Push, recordDirectoryChange, requireVersion } from "./push.ts";

export async function createGroup(
  push: Push,
  { externalId, displayName, members }: PushedGroup,
): Promise<string> {
  const { clock, newId } = push.installation;
  const nowMs = clock.nowMs();
  const { issuer } = push.scim.provider;
  const id = newId("dgr");
  await changeDirectory(push, async (tx) => {
    const times = { createdAtMs: nowMs, changedAtMs: nowMs };
    await insertScimGroup(tx, { id, issuer, externalId, displayName, version: 1, ...times });
    const added = await requireMembers(tx, push, [...members]);
    await writeScimMembers(tx, id, { added, removed: [] });
    await record(tx, push, { verb: "create", displayName, changes: describeMembers(added, []) });
  });
  await applyTo(push, [...members]);
  return id;
}

/** `change` returns the group as it will be. Writes nothing if nothing changes. */
export async function changeGroup(
  push: Push,
  id: string,
  change: (before: PushedGroup) => PushedGroup,
): Promise<void> {
  const affected = await changeDirectory(push, async (tx) => {
    const group = await requireGroup(tx, push, id);
    requireVersion(push, group.version);
    const before = { ...group, members: new Set(await listScimMembers(tx, id)) };
    const after = change(before);
    const added = [...after.members].filter((member) => !before.members.has(member));
    const removed = [...before.members].filter((member) => !after.members.has(member));
    const isRenamed = after.displayName !== before.displayName;
    const isSame = !isRenamed && after.externalId === before.externalId;
    if (isSame && added.length === 0 && removed.length === 0) return [];
    await requireMembers(tx, push, added);
    const { externalId, displayName } = after;
    await updateScimGroup(tx, { id, externalId, displayName }, push.installation.clock.nowMs());
    await writeScimMembers(tx, id, { added, removed });
    const renamed = isRenamed
      ? [{ field: "display_name", from: before.displayName, to: after.displayName }]
      : [];
    const changes = [...renamed, ...describeMembers(added, removed)];
    await record(tx, push, { verb: "change", displayName, changes });
    return isRenamed ? [...after.members, ...removed] : [...added, ...removed];
  });
  await applyTo(push, affected);
}

export async function deleteGroup(push: Push, id: string): Promise<void> {
  const members = await changeDirectory(push, async (tx) => {
    const group = await requireGroup(tx, push, id);
    requireVersion(push, group.version);
    const removed = await listScimMembers(tx, id);
    await deleteScimGroup(tx, id);
    const { displayName } = group;
    await record(tx, push, { verb: "remove", displayName, changes: describeMembers([], removed) });
    return removed;
  });
  await applyTo(push, members);
}

export async function requireGroup(db: Db, { scim }: Push, id: string): Promise<ScimGroupRecord> {
  const group = await findScimGroup(db, scim.provider.issuer, id);
  if (group === null) throw new ApiError("not_found", `The directory has no group with the id ${id} here.`);
  return group;
}

/** The first groups of a page whose members fit into one response; at least one. */
export async function fitPage(
  db: Db,
  groups: readonly ScimGroupRecord[],
): Promise<readonly ScimGroupRecord[]> {
  const counts = await countScimMembers(
    db,
    groups.map(({ id }) => id),
  );
  let members = 0;
  const end = groups.findIndex(({ id }, i) => {
    members += counts.get(id) ?? 0;
    return i > 0 && members > limits.scim.pageMembersMax;
  });
  return end === -1 ? groups : groups.slice(0, end);
}

/** Returns the ids. Throws if one is no person of the directory. */
async function requireMembers(tx: Db, { scim }: Push, ids: readonly string[]): Promise<readonly string[]> {
  const listed = await findListedScimIds(tx, scim.provider.issuer, ids);
  const unknown = ids.find((id) => !listed.has(id));
  if (unknown === undefined) return ids;
  throw new ScimError("invalidValue", `members: the directory has no person with the id ${unknown} here.`);
}

async function applyTo(
  { installation, scim, input, refresh }: Push,
  userIds: readonly string[],
): Promise<void> {
  const author = { actor: auditLogActor(input.actor), address: input.clientAddress };
  if (await applyDirectory(installation, { scim, userIds, author })) await refresh();
}

function record(
  tx: Db,
  push: Push,
  { verb, displayName, changes }: { verb: string; displayName: string; changes: FieldChange[] },
): Promise<void> {
  const target = `directory_group ${displayName}`;
  return recordDirectoryChange(tx, push, { action: `directory_group.${verb}`, target, changes });
}

function describeMembers(added: readonly string[], removed: readonly string[]): FieldChange[] {
  return [
    ...(added.length === 0 ? [] : [{ field: "members_added", from: null, to: String(added.length) }]),
    ...(removed.length === 0 ? [] : [{ field: "members_removed", from: null, to: String(removed.length) }]),
  ];
}
