/** People whom a directory pushes by SCIM. Each is a user with a row of `external_identity`. */

import { z } from "zod";
import { nextTurn } from "../../base/next-turn.ts";
import type { UserStatus } from "../../records/user.ts";
import { orDuplicate } from "../engine/conflict.ts";
import { type Db, placeholder, type SqlValue } from "../engine/db.ts";
import { flag, integer, integerOrNull, text, textOrNull } from "../engine/row.ts";
import { parsedJson, rowReader } from "../engine/row-reader.ts";
import { selectIn } from "../engine/select-in.ts";
import { foldEmail } from "./users.ts";

const profileSchema = z.object({
  displayName: z.string().nullable(),
  name: z.object({
    formatted: z.string().nullable(),
    familyName: z.string().nullable(),
    givenName: z.string().nullable(),
  }),
  emails: z.array(z.object({ value: z.string(), type: z.string().nullable(), primary: z.boolean() })),
});

/** What the directory sends about a person, beside what identifies the person. */
export type ScimProfile = z.output<typeof profileSchema>;

const toScimUser = rowReader({
  /** The id of the user, which never changes. */
  userId: text,
  issuer: text,
  /** The subject of the person at the provider; null if the directory has not sent it. */
  externalId: textOrNull,
  userName: text,
  profile: parsedJson(profileSchema),
  isActive: flag,
  /** Whether the directory has suspended the keys: the person is inactive, or has lost a required group. */
  isSuspended: flag,
  /** Grows with each change. */
  version: integer,
  createdAtMs: integer,
  changedAtMs: integer,
  /** Since when the directory no longer lists the person; null while it does. */
  removedAtMs: integerOrNull,
});
export type ScimUserRecord = ReturnType<typeof toScimUser>;

const COLUMNS =
  "scim_user.user_id AS user_id, issuer, external_id, user_name, profile, is_active, is_suspended, version, scim_user.created_at_ms AS created_at_ms, changed_at_ms, removed_at_ms";

/** The listed person with this id. */
export async function findScimUser(db: Db, issuer: string, userId: string): Promise<ScimUserRecord | null> {
  const [user] = await findScimUsers(db, [userId]);
  return user !== undefined && user.issuer === issuer && user.removedAtMs === null ? user : null;
}

/** Also removed ones, in no order. */
export async function findScimUsers(db: Db, userIds: readonly string[]): Promise<ScimUserRecord[]> {
  const rows = await selectIn(db, `SELECT ${COLUMNS} FROM scim_user WHERE user_id`, userIds);
  return rows.map(toScimUser);
}

/** Those of the ids that are listed people, without reading what the directory sends about them. */
export async function findListedScimIds(
  db: Db,
  issuer: string,
  userIds: readonly string[],
): Promise<ReadonlySet<string>> {
  const head = `SELECT user_id FROM scim_user WHERE issuer = ${placeholder(db.engine, 1)} AND removed_at_ms IS NULL AND user_id`;
  const rows = await selectIn(db, head, userIds, "", [issuer]);
  return new Set(rows.map((row) => text(row, "user_id")));
}

/** Also a removed one. */
export async function findScimUserByExternalId(
  db: Db,
  issuer: string,
  externalId: string,
): Promise<ScimUserRecord | null> {
  const [row] = await db.sql.text(
    `SELECT ${COLUMNS} FROM scim_user WHERE issuer = ${placeholder(db.engine, 1)} AND external_id = ${placeholder(db.engine, 2)}`,
    [issuer, externalId],
  );
  return row === undefined ? null : toScimUser(row);
}

/** Listed people match all of these. */
export interface ScimUserFilter {
  readonly id?: string;
  readonly externalId?: string;
  readonly userName?: string;
  readonly displayName?: string;
  /** The address of the user. */
  readonly email?: string;
  readonly isActive?: boolean;
  readonly groupId?: string;
}

export async function listScimUsers(
  db: Db,
  issuer: string,
  filter: ScimUserFilter,
  page: { offset: number; limit: number },
): Promise<{ total: number; users: ScimUserRecord[] }> {
  const values: SqlValue[] = [];
  const mark = (value: SqlValue) => placeholder(db.engine, values.push(value));
  const where = [`issuer = ${mark(issuer)}`, "removed_at_ms IS NULL"];
  const { id, externalId, userName, displayName, email, isActive, groupId } = filter;
  if (id !== undefined) where.push(`scim_user.user_id = ${mark(id)}`);
  if (externalId !== undefined) where.push(`external_id = ${mark(externalId)}`);
  if (userName !== undefined) where.push(`user_name_folded = ${mark(foldEmail(userName))}`);
  if (displayName !== undefined) where.push(`display_name_folded = ${mark(foldEmail(displayName))}`);
  if (email !== undefined) where.push(`email_folded = ${mark(foldEmail(email))}`);
  if (isActive !== undefined) where.push(`is_active = ${mark(isActive ? 1 : 0)}`);
  if (groupId !== undefined)
    where.push(`scim_user.user_id IN (SELECT user_id FROM scim_member WHERE group_id = ${mark(groupId)})`);
  const from = `FROM scim_user JOIN app_user ON app_user.id = scim_user.user_id WHERE ${where.join(" AND ")}`;
  const [counted] = await db.sql.text(`SELECT COUNT(*) AS total ${from}`, [...values]);
  const total = counted === undefined ? 0 : integer(counted, "total");
  // SQLite runs on this thread, so other requests are served in between.
  await nextTurn();
  const rows = await db.sql.text(
    `SELECT ${COLUMNS} ${from} ORDER BY scim_user.created_at_ms, scim_user.user_id
     LIMIT ${mark(page.limit)} OFFSET ${mark(page.offset)}`,
    values,
  );
  return { total, users: rows.map(toScimUser) };
}

/** `localStatus` is the status that file or console gave. */
export async function insertScimUser(tx: Db, user: ScimUserRecord, localStatus: UserStatus): Promise<void> {
  const { userId, issuer, externalId, userName, createdAtMs } = user;
  await orDuplicate(
    DUPLICATE,
    tx.sql`
      INSERT INTO scim_user (user_id, issuer, external_id, user_name, user_name_folded, display_name_folded, profile,
        is_active, local_status, is_suspended, version, created_at_ms, changed_at_ms)
      VALUES (${userId}, ${issuer}, ${externalId}, ${userName}, ${foldEmail(userName)}, ${foldDisplayName(user)},
        ${JSON.stringify(user.profile)}, ${user.isActive ? 1 : 0}, ${localStatus}, 0, 1, ${createdAtMs}, ${createdAtMs})`,
  );
}

/** Increases the version. */
export async function updateScimUser(tx: Db, user: ScimUserRecord, changedAtMs: number): Promise<void> {
  const { userId, externalId, userName, removedAtMs } = user;
  await orDuplicate(
    DUPLICATE,
    tx.sql`
      UPDATE scim_user SET external_id = ${externalId}, user_name = ${userName},
        user_name_folded = ${foldEmail(userName)}, display_name_folded = ${foldDisplayName(user)},
        profile = ${JSON.stringify(user.profile)}, is_active = ${user.isActive ? 1 : 0}, version = version + 1,
        changed_at_ms = ${changedAtMs}, removed_at_ms = ${removedAtMs}
      WHERE user_id = ${userId}`,
  );
}

export async function writeScimSuspension(tx: Db, userId: string, isSuspended: boolean): Promise<void> {
  await tx.sql`UPDATE scim_user SET is_suspended = ${isSuspended ? 1 : 0} WHERE user_id = ${userId}`;
}

/** Ids of the listed people of a provider, for a check of all of them. */
export async function listScimUserIds(db: Db, issuer: string): Promise<string[]> {
  const rows = await db.sql`SELECT user_id FROM scim_user WHERE issuer = ${issuer} AND removed_at_ms IS NULL`;
  return rows.map((row) => text(row, "user_id"));
}

const DUPLICATE = "Another person of the directory has this userName or externalId.";

function foldDisplayName({ profile }: Pick<ScimUserRecord, "profile">): string | null {
  return profile.displayName === null ? null : foldEmail(profile.displayName);
}
