/** Groups that a directory pushes by SCIM, and their members. They grant what the configuration maps their names to. */

import { nextTurn } from "../../base/next-turn.ts";
import { orDuplicate } from "../engine/conflict.ts";
import { type Db, placeholder, type SqlValue } from "../engine/db.ts";
import { integer, text, textOrNull } from "../engine/row.ts";
import { rowReader } from "../engine/row-reader.ts";
import { selectIn } from "../engine/select-in.ts";
import { foldEmail } from "./users.ts";

const toScimGroup = rowReader({
  id: text,
  issuer: text,
  externalId: textOrNull,
  /** Unique, without regard to case. */
  displayName: text,
  version: integer,
  createdAtMs: integer,
  changedAtMs: integer,
});
export type ScimGroupRecord = ReturnType<typeof toScimGroup>;

const COLUMNS =
  "id, issuer, external_id, display_name, version, scim_group.created_at_ms AS created_at_ms, scim_group.changed_at_ms AS changed_at_ms";
const DUPLICATE = "Another group of the directory has this displayName or externalId.";

export async function findScimGroup(db: Db, issuer: string, id: string): Promise<ScimGroupRecord | null> {
  const { groups } = await listScimGroups(db, issuer, { id }, { offset: 0, limit: 1 });
  return groups[0] ?? null;
}

/** Groups match all of these. */
export interface ScimGroupFilter {
  readonly id?: string;
  readonly externalId?: string;
  readonly displayName?: string;
  readonly memberId?: string;
}

export async function listScimGroups(
  db: Db,
  issuer: string,
  { id, externalId, displayName, memberId }: ScimGroupFilter,
  page: { offset: number; limit: number },
): Promise<{ total: number; groups: ScimGroupRecord[] }> {
  const values: SqlValue[] = [];
  const mark = (value: SqlValue) => placeholder(db.engine, values.push(value));
  const where = [`issuer = ${mark(issuer)}`];
  if (id !== undefined) where.push(`id = ${mark(id)}`);
  if (externalId !== undefined) where.push(`external_id = ${mark(externalId)}`);
  if (displayName !== undefined) where.push(`display_name_folded = ${mark(foldEmail(displayName))}`);
  if (memberId !== undefined)
    where.push(`id IN (SELECT group_id FROM scim_member WHERE user_id = ${mark(memberId)})`);
  const from = `FROM scim_group WHERE ${where.join(" AND ")}`;
  const [counted] = await db.sql.text(`SELECT COUNT(*) AS total ${from}`, [...values]);
  const rows = await db.sql.text(
    `SELECT ${COLUMNS} ${from} ORDER BY scim_group.created_at_ms, id LIMIT ${mark(page.limit)} OFFSET ${mark(page.offset)}`,
    values,
  );
  return { total: counted === undefined ? 0 : integer(counted, "total"), groups: rows.map(toScimGroup) };
}

export async function insertScimGroup(tx: Db, group: ScimGroupRecord): Promise<void> {
  const { id, issuer, externalId, displayName, version, createdAtMs, changedAtMs } = group;
  await orDuplicate(
    DUPLICATE,
    tx.sql`
      INSERT INTO scim_group (id, issuer, external_id, display_name, display_name_folded, version, created_at_ms, changed_at_ms)
      VALUES (${id}, ${issuer}, ${externalId}, ${displayName}, ${foldEmail(displayName)}, ${version}, ${createdAtMs}, ${changedAtMs})`,
  );
}

/** Increases the version. */
export async function updateScimGroup(
  tx: Db,
  { id, externalId, displayName }: Pick<ScimGroupRecord, "id" | "externalId" | "displayName">,
  changedAtMs: number,
): Promise<void> {
  await orDuplicate(
    DUPLICATE,
    tx.sql`
      UPDATE scim_group SET external_id = ${externalId}, display_name = ${displayName},
        display_name_folded = ${foldEmail(displayName)}, version = version + 1, changed_at_ms = ${changedAtMs}
      WHERE id = ${id}`,
  );
}

export async function deleteScimGroup(tx: Db, id: string): Promise<void> {
  await tx.sql`DELETE FROM scim_group WHERE id = ${id}`;
}

/** SQLite runs on this thread, so other requests are served in between. */
const MEMBERS_PER_TURN = 4_096;

/** In a fixed order. */
export async function listScimMembers(db: Db, groupId: string): Promise<string[]> {
  const ids: string[] = [];
  for (let last = ""; ; last = ids.at(-1) ?? "") {
    const rows = await db.sql`
      SELECT user_id FROM scim_member WHERE group_id = ${groupId} AND user_id > ${last}
      ORDER BY user_id LIMIT ${MEMBERS_PER_TURN}`;
    for (const row of rows) ids.push(text(row, "user_id"));
    if (rows.length < MEMBERS_PER_TURN) return ids;
    await nextTurn();
  }
}

export async function countScimMembers(
  db: Db,
  groupIds: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const select = "SELECT group_id, COUNT(*) AS members FROM scim_member WHERE group_id";
  const rows = await selectIn(db, select, groupIds, "GROUP BY group_id");
  return new Map(rows.map((row) => [text(row, "group_id"), integer(row, "members")]));
}

/** `added` are people of the directory. */
export async function writeScimMembers(
  tx: Db,
  groupId: string,
  { added, removed }: { added: readonly string[]; removed: readonly string[] },
): Promise<void> {
  const group = placeholder(tx.engine, 1);
  const deleting = `DELETE FROM scim_member WHERE group_id = ${group} AND user_id`;
  await selectIn(tx, deleting, removed, "", [groupId]);
  const inserting = `INSERT INTO scim_member (group_id, user_id)
    SELECT CAST(${group} AS TEXT), user_id FROM scim_user WHERE user_id`;
  await selectIn(tx, inserting, added, "ON CONFLICT (group_id, user_id) DO NOTHING", [groupId]);
}

/** A removed person is in no group. */
export async function leaveScimGroups(tx: Db, userId: string): Promise<void> {
  await tx.sql`DELETE FROM scim_member WHERE user_id = ${userId}`;
}

/** The pushed groups of each person, by name. */
export async function readScimMemberships(
  db: Db,
  userIds: readonly string[],
): Promise<ReadonlyMap<string, readonly { id: string; displayName: string }[]>> {
  const rows = await selectIn(
    db,
    `SELECT user_id, id, display_name FROM scim_member JOIN scim_group ON scim_group.id = group_id WHERE user_id`,
    userIds,
    "ORDER BY display_name_folded",
  );
  const byUser = Map.groupBy(rows, (row) => text(row, "user_id"));
  return new Map(
    [...byUser].map(([userId, list]) => [
      userId,
      list.map((row) => ({ id: text(row, "id"), displayName: text(row, "display_name") })),
    ]),
  );
}
