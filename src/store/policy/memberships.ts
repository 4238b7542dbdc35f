/** Ordered lists of records that belong to another record: models and accounts of groups, and groups of users. */

import { enumerate, orDuplicate, rejectReferenced, StoreConflict } from "../engine/conflict.ts";
import { type Db, placeholder, transaction } from "../engine/db.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { bumpPolicyRevision } from "../engine/revisions.ts";
import { text } from "../engine/row.ts";
import { selectIn } from "../engine/select-in.ts";

/** A table with one row for each member. The first two columns are the owner and the member. */
interface Membership {
  readonly table: string;
  readonly columns: readonly [owner: string, member: string, position: "position"];
  /** The table of the members, and what a member is called. */
  readonly members: string;
  readonly noun: string;
}

/** The members of groups, which cannot be deleted while a group lists them. */
interface GroupList extends Membership {
  readonly verb: string;
}

export const PUBLICATIONS: GroupList = {
  table: "publication",
  columns: ["group_id", "model_id", "position"],
  members: "model",
  noun: "model",
  verb: "published",
};

export const POOLS: GroupList = {
  table: "pool",
  columns: ["group_id", "account_id", "position"],
  members: "account",
  noun: "account",
  verb: "used",
};

export const GROUP_MEMBERS: Membership = {
  table: "group_member",
  columns: ["user_id", "group_id", "position"],
  members: "key_group",
  noun: "group",
};

/** The members by owner, of all owners if `ownerIds` is omitted. */
export async function readMembers(
  tx: Db,
  { table, columns }: Membership,
  ownerIds?: readonly string[],
): Promise<ReadonlyMap<string, string[]>> {
  const [owner, member] = columns;
  const select = `SELECT ${columns.join(", ")} FROM ${table}`;
  const inOrder = `ORDER BY ${owner}, position`;
  const rows =
    ownerIds === undefined
      ? await tx.sql.text(`${select} ${inOrder}`, [])
      : await selectIn(tx, `${select} WHERE ${owner}`, ownerIds, inOrder);
  const members = new Map<string, string[]>();
  for (const row of rows) {
    const ownerId = text(row, owner);
    const present = members.get(ownerId);
    if (present === undefined) members.set(ownerId, [text(row, member)]);
    else present.push(text(row, member));
  }
  return members;
}

/** `phrase` is the beginning of an error: `The group "a" lists`. */
export async function replaceMembers(
  tx: Db,
  list: Membership,
  { ownerId, memberIds, phrase }: { ownerId: string; memberIds: readonly string[]; phrase: string },
): Promise<void> {
  await deleteMembers(tx, list, ownerId);
  const found = await selectIn(tx, `SELECT id FROM ${list.members} WHERE id`, memberIds);
  const present = new Set(found.map((row) => text(row, "id")));
  const missing = memberIds.filter((id) => !present.has(id));
  if (missing.length > 0) {
    throw new StoreConflict("missing", `${phrase} ${enumerate(list.noun, missing)}, which does not exist.`);
  }
  const rows = memberIds.map((id, position) => [ownerId, id, position]);
  await orDuplicate(`${phrase} the same ${list.noun} twice.`, insertRows(tx, list.table, list.columns, rows));
}

export async function deleteMembers(tx: Db, { table, columns }: Membership, ownerId: string): Promise<void> {
  await tx.sql.text(`DELETE FROM ${table} WHERE ${columns[0]} = ${placeholder(tx.engine, 1)}`, [ownerId]);
}

/** Deletes a model or an account that no group lists. Returns false if it did not exist. */
export async function deleteUnlessListed(
  db: Db,
  { table, columns, members, noun, verb }: GroupList,
  id: string,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    await bumpPolicyRevision(tx);
    const first = placeholder(tx.engine, 1);
    const groups = await tx.sql.text(
      `SELECT key_group.name AS name FROM ${table} JOIN key_group ON key_group.id = group_id WHERE ${columns[1]} = ${first} ORDER BY key_group.name`,
      [id],
    );
    rejectReferenced(`The ${noun} "${id}" is still ${verb} by`, "group", groups);
    const deleted = await tx.sql.text(`DELETE FROM ${members} WHERE id = ${first} RETURNING id`, [id]);
    return deleted.length > 0;
  });
}
