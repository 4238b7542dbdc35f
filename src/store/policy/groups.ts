/** Group records, with their publications and account pools. */

import { GROUP_FIELDS, type GroupRecord } from "../../records/group.ts";
import { orDuplicate, rejectReferenced } from "../engine/conflict.ts";
import { type Db, snapshot, transaction } from "../engine/db.ts";
import { bumpPolicyRevision } from "../engine/revisions.ts";
import { rejectUnknownFallback } from "./earlier-nodes.ts";
import { deleteMembers, POOLS, PUBLICATIONS, readMembers, replaceMembers } from "./memberships.ts";
import { RecordTable } from "./record-table.ts";
import { rejectMissingPolicy } from "./request-policies.ts";

const GROUPS = new RecordTable("key_group", GROUP_FIELDS);

export async function listGroups(db: Db): Promise<GroupRecord[]> {
  return snapshot(db, async (tx) => {
    const rows = await GROUPS.list(tx);
    const models = await readMembers(tx, PUBLICATIONS);
    const accounts = await readMembers(tx, POOLS);
    return rows.map((group) => ({
      ...group,
      models: models.get(group.id) ?? [],
      accounts: accounts.get(group.id) ?? [],
    }));
  });
}

/** Also replaces the group's publications and pool. */
export async function putGroup(db: Db, group: GroupRecord): Promise<void> {
  await transaction(db, async (tx) => {
    await bumpPolicyRevision(tx);
    await rejectMissingPolicy(tx, group.requestPolicy);
    await rejectUnknownFallback(tx, `the group "${group.name}"`, group);
    await orDuplicate(`Another group is already named "${group.name}".`, GROUPS.put(tx, group));
    const owner = { ownerId: group.id, phrase: `The group "${group.name}" lists` };
    await replaceMembers(tx, PUBLICATIONS, { ...owner, memberIds: group.models });
    await replaceMembers(tx, POOLS, { ...owner, memberIds: group.accounts });
  });
}

/** Returns false if the group did not exist. Revoked keys do not prevent the deletion. */
export async function deleteGroup(db: Db, id: string): Promise<boolean> {
  return transaction(db, async (tx) => {
    await bumpPolicyRevision(tx);
    const keys = await tx.sql`
      SELECT name FROM api_key WHERE group_id = ${id} AND status = 'active' ORDER BY created_at_ms, id`;
    rejectReferenced(`The group "${id}" still has`, "key", keys);
    await deleteMembers(tx, PUBLICATIONS, id);
    await deleteMembers(tx, POOLS, id);
    await tx.sql`DELETE FROM group_member WHERE group_id = ${id}`;
    await tx.sql`DELETE FROM directory_group WHERE group_id = ${id}`;
    const deleted = await tx.sql`DELETE FROM key_group WHERE id = ${id} RETURNING id`;
    return deleted.length > 0;
  });
}
