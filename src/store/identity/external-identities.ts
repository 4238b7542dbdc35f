/** Links between users and persons at OpenID Connect providers. A person is an issuer and a subject, never an address. */

import type { Role } from "../../records/user.ts";
import { orDuplicate } from "../engine/conflict.ts";
import { type Db, placeholder, type SqlValue } from "../engine/db.ts";
import { enumText, integer, integerOrNull, text } from "../engine/row.ts";
import { rowReader } from "../engine/row-reader.ts";
import { contains } from "../engine/search.ts";
import { selectIn } from "../engine/select-in.ts";

const toIdentity = rowReader({
  userId: text,
  issuer: text,
  subject: text,
  /** The name of the provider at the last sign-in. */
  provider: text,
  createdAtMs: integer,
  signedInAtMs: integer,
  /** Since when all keys of the person are suspended; null while the person has access. */
  suspendedAtMs: integerOrNull,
});
export type ExternalIdentity = ReturnType<typeof toIdentity>;

const COLUMNS = "user_id, issuer, subject, provider, created_at_ms, signed_in_at_ms, suspended_at_ms";

export function findIdentity(db: Db, issuer: string, subject: string): Promise<ExternalIdentity | null> {
  return findBy(db, ["issuer", "subject"], [issuer, subject]);
}

export function findIdentityOfUser(db: Db, userId: string): Promise<ExternalIdentity | null> {
  return findBy(db, ["user_id"], [userId]);
}

async function findBy(
  db: Db,
  columns: readonly string[],
  values: SqlValue[],
): Promise<ExternalIdentity | null> {
  const where = columns.map((column, i) => `${column} = ${placeholder(db.engine, i + 1)}`).join(" AND ");
  const [row] = await db.sql.text(`SELECT ${COLUMNS} FROM external_identity WHERE ${where}`, values);
  return row === undefined ? null : toIdentity(row);
}

/** `localRole` is the role that the user has without the directory. */
export async function insertIdentity(tx: Db, identity: ExternalIdentity, localRole: Role): Promise<void> {
  const { userId, issuer, subject, provider, createdAtMs, signedInAtMs } = identity;
  await orDuplicate(
    "This person at the provider, or this user, is already linked.",
    tx.sql`
      INSERT INTO external_identity (user_id, issuer, subject, provider, local_role, created_at_ms, signed_in_at_ms)
      VALUES (${userId}, ${issuer}, ${subject}, ${provider}, ${localRole}, ${createdAtMs}, ${signedInAtMs})`,
  );
}

/** The person at the provider of a user is another one, or becomes known. Grants and keys stay with the user. */
export async function writeSubject(
  tx: Db,
  userId: string,
  { issuer, subject }: Pick<ExternalIdentity, "issuer" | "subject">,
): Promise<void> {
  await orDuplicate(
    "This person at the provider is already linked to another user.",
    tx.sql`UPDATE external_identity SET issuer = ${issuer}, subject = ${subject} WHERE user_id = ${userId}`,
  );
}

/** Which of these users are suspended. */
export async function readSuspended(db: Db, userIds: readonly string[]): Promise<ReadonlySet<string>> {
  const select = "SELECT user_id FROM external_identity WHERE suspended_at_ms IS NOT NULL AND user_id";
  return new Set((await selectIn(db, select, userIds)).map((row) => text(row, "user_id")));
}

const PUSHED_STATES = ["active", "deactivated", "removed"] as const;

interface ListedIdentity extends ExternalIdentity {
  email: string;
  suspendedKeys: number;
  /** Whether the directory pushes the person by SCIM, and the state that it pushed last. */
  pushed: "no" | "active" | "deactivated" | "removed";
}

/** Last sign-in first. `after` is the last entry of the previous page. */
export async function listIdentities(
  db: Db,
  {
    search,
    after,
    limit,
  }: { search?: string; after: [signedInAtMs: number, userId: string] | null; limit: number },
): Promise<ListedIdentity[]> {
  const values: SqlValue[] = [];
  const mark = (value: SqlValue) => placeholder(db.engine, values.push(value));
  const where = ["1 = 1"];
  if (after !== null) where.push(`(signed_in_at_ms, user_id) < (${mark(after[0])}, ${mark(after[1])})`);
  if (search) where.push(contains("email", search, mark));
  const columns = COLUMNS.split(", ").map((column) => `external_identity.${column} AS ${column}`);
  const rows = await db.sql.text(
    `SELECT ${columns.join(", ")}, email,
       (SELECT COUNT(*) FROM suspended_key WHERE suspended_key.user_id = external_identity.user_id) AS suspended_keys,
       (SELECT CASE WHEN removed_at_ms IS NOT NULL THEN 'removed' WHEN is_active = 0 THEN 'deactivated' ELSE 'active' END
        FROM scim_user WHERE scim_user.user_id = external_identity.user_id) AS pushed
     FROM (SELECT external_identity.*, app_user.email AS email
       FROM external_identity JOIN app_user ON app_user.id = user_id) AS external_identity
     WHERE ${where.join(" AND ")} ORDER BY signed_in_at_ms DESC, user_id DESC LIMIT ${mark(limit)}`,
    values,
  );
  return rows.map((row) => ({
    ...toIdentity(row),
    email: text(row, "email"),
    suspendedKeys: integer(row, "suspended_keys"),
    pushed: row.pushed === null ? "no" : enumText(row, "pushed", PUSHED_STATES),
  }));
}

/** Persons of a provider with access whose last sign-in is older, oldest first. */
export async function listOverdueIdentities(
  db: Db,
  { provider, signedInBeforeMs, limit }: { provider: string; signedInBeforeMs: number; limit: number },
): Promise<ExternalIdentity[]> {
  const rows = await db.sql`
    SELECT user_id, issuer, subject, provider, created_at_ms, signed_in_at_ms, suspended_at_ms FROM external_identity
    WHERE provider = ${provider} AND signed_in_at_ms < ${signedInBeforeMs} AND suspended_at_ms IS NULL
    ORDER BY signed_in_at_ms LIMIT ${limit}`;
  return rows.map(toIdentity);
}
