/**
 * Credentials of users: password, second factor, recovery codes. They are separate from the user records: a
 * configuration file never contains them, and they are never shown.
 */

import { z } from "zod";
import { USER_STATUSES } from "../../records/user.ts";
import { type Db, type Row, transaction } from "../engine/db.ts";
import { bumpKeyRevision } from "../engine/revisions.ts";
import { integer, integerOrNull, text, textOrNull } from "../engine/row.ts";
import { choice, parsedJson, rowReader } from "../engine/row-reader.ts";
import { deleteDeviceRequests } from "./device-requests.ts";
import { deleteEntryLinks } from "./links.ts";
import { readRole } from "./role-column.ts";
import { deleteSessions } from "./sessions.ts";
import { foldEmail } from "./users.ts";

const digestsSchema = z.array(z.string());

const toCredentials = rowReader({
  userId: (row) => text(row, "id"),
  email: text,
  role: readRole,
  status: choice(USER_STATUSES),
  passwordHash: textOrNull,
  /** Null without a second factor. `sinceMs` is null until the owner has confirmed it with a code. */
  secondFactor: readSecondFactor,
  recoveryDigests: parsedJson(digestsSchema),
  /** When the owner last opened a link sent to the address; null if never. */
  emailVerifiedAtMs: integerOrNull,
  createdAtMs: integer,
  /** The provider at which the user signs in instead of with a password; null if none. */
  provider: textOrNull,
});
export type Credentials = ReturnType<typeof toCredentials>;

/** Case-insensitive. */
export async function findCredentialsByEmail(db: Db, email: string): Promise<Credentials | null> {
  const [row] = await db.sql`
    SELECT id, email, role, is_auditor, status, password_hash, sealed_totp, totp_since_ms, recovery_digests,
      email_verified_at_ms, created_at_ms,
      (SELECT provider FROM external_identity WHERE user_id = app_user.id) AS provider
    FROM app_user WHERE email_folded = ${foldEmail(email)}`;
  return row === undefined ? null : toCredentials(row);
}

export async function findCredentials(db: Db, userId: string): Promise<Credentials | null> {
  const [row] = await db.sql`
    SELECT id, email, role, is_auditor, status, password_hash, sealed_totp, totp_since_ms, recovery_digests,
      email_verified_at_ms, created_at_ms,
      (SELECT provider FROM external_identity WHERE user_id = app_user.id) AS provider
    FROM app_user WHERE id = ${userId}`;
  return row === undefined ? null : toCredentials(row);
}

/** Ends every session of the user, and deletes every link that signs in as the user. */
export async function writePassword(db: Db, userId: string, passwordHash: string): Promise<void> {
  await transaction(db, async (tx) => {
    // A file that was compared with the old password must not be applied afterwards.
    await bumpKeyRevision(tx);
    await tx.sql`UPDATE app_user SET password_hash = ${passwordHash} WHERE id = ${userId}`;
    await deleteSessions(tx, userId, null);
    await deleteEntryLinks(tx, userId);
  });
}

/** False if the password has changed since it was verified, or the user was disabled. Locks it. */
export async function lockPassword(
  tx: Db,
  { userId, passwordHash }: Pick<Credentials, "userId" | "passwordHash">,
): Promise<boolean> {
  const rows = await tx.sql`
    UPDATE app_user SET password_hash = password_hash
    WHERE id = ${userId} AND status = 'active' AND password_hash IS NOT DISTINCT FROM ${passwordHash} RETURNING id`;
  return rows.length > 0;
}

/** Disables sign-in by password until a new one is set. */
export async function removePassword(db: Db, userId: string): Promise<void> {
  await transaction(db, async (tx) => {
    // A file that was compared with the old password must not be applied afterwards.
    await bumpKeyRevision(tx);
    await tx.sql`UPDATE app_user SET password_hash = NULL WHERE id = ${userId}`;
  });
}

/** What `revokeAccess` deleted. */
interface AccessEnd {
  sessions: number;
  tokens: number;
  secondFactor: boolean;
}

/** Deletes every credential of the user except the password: sessions, tokens, links and the second factor. */
export async function revokeAccess(tx: Db, userId: string): Promise<AccessEnd> {
  const [before] = await tx.sql`SELECT totp_since_ms FROM app_user WHERE id = ${userId}`;
  await tx.sql`
    UPDATE app_user SET sealed_totp = NULL, totp_since_ms = NULL, recovery_digests = '[]' WHERE id = ${userId}`;
  const sessions = await deleteSessions(tx, userId, null);
  const tokens = await tx.sql`DELETE FROM access_token WHERE user_id = ${userId} RETURNING id`;
  await tx.sql`DELETE FROM one_time_link WHERE user_id = ${userId}`;
  await deleteDeviceRequests(tx, userId);
  return {
    sessions,
    tokens: tokens.length,
    secondFactor: before !== undefined && integerOrNull(before, "totp_since_ms") !== null,
  };
}

/** Stores a new secret that is not active yet. Returns false while another one is active. */
export async function beginSecondFactor(db: Db, userId: string, sealedSecret: string): Promise<boolean> {
  const updated = await db.sql`
    UPDATE app_user SET sealed_totp = ${sealedSecret}, totp_step = 0, recovery_digests = '[]'
    WHERE id = ${userId} AND totp_since_ms IS NULL RETURNING id`;
  return updated.length > 0;
}

/** Returns false if the secret has been replaced or removed, or was activated at another time. */
export async function confirmSecondFactor(
  db: Db,
  userId: string,
  { sealedSecret, sinceMs }: { sealedSecret: string; sinceMs: number },
  recoveryDigests: readonly string[],
): Promise<boolean> {
  const confirmed = await db.sql`
    UPDATE app_user SET totp_since_ms = ${sinceMs}, recovery_digests = ${JSON.stringify(recoveryDigests)}
    WHERE id = ${userId} AND sealed_totp = ${sealedSecret} AND (totp_since_ms IS NULL OR totp_since_ms = ${sinceMs})
    RETURNING id`;
  return confirmed.length > 0;
}

/** Returns false if no second factor was active. */
export async function removeSecondFactor(db: Db, userId: string): Promise<boolean> {
  const removed = await db.sql`
    UPDATE app_user SET sealed_totp = NULL, totp_since_ms = NULL, recovery_digests = '[]'
    WHERE id = ${userId} AND totp_since_ms IS NOT NULL RETURNING id`;
  return removed.length > 0;
}

/** Returns false if this time step, or a later one, was used before. */
export async function takeTotpStep(db: Db, userId: string, step: number): Promise<boolean> {
  const updated = await db.sql`
    UPDATE app_user SET totp_step = ${step} WHERE id = ${userId} AND totp_step < ${step} RETURNING id`;
  return updated.length > 0;
}

/** Returns false if the code is not one of the user's, or was used before. */
export async function takeRecoveryCode(db: Db, userId: string, digest: string): Promise<boolean> {
  return transaction(db, async (tx) => {
    // Takes the row lock: of two concurrent uses of a code, the second finds it used.
    await tx.sql`UPDATE app_user SET totp_step = totp_step WHERE id = ${userId}`;
    const credentials = await findCredentials(tx, userId);
    if (!credentials?.recoveryDigests.includes(digest)) return false;
    const remaining = JSON.stringify(credentials.recoveryDigests.filter((one) => one !== digest));
    await tx.sql`UPDATE app_user SET recovery_digests = ${remaining} WHERE id = ${userId}`;
    return true;
  });
}

export async function markSignedIn(db: Db, userId: string, atMs: number): Promise<void> {
  await db.sql`UPDATE app_user SET signed_in_at_ms = ${atMs} WHERE id = ${userId}`;
}

/** The owner has opened a link sent to the address: to verify it, accept an invitation, or choose a new password. */
export async function markVerified(db: Db, userId: string, atMs: number): Promise<void> {
  await db.sql`UPDATE app_user SET email_verified_at_ms = ${atMs} WHERE id = ${userId}`;
}

function readSecondFactor(row: Row) {
  const sealedSecret = textOrNull(row, "sealed_totp");
  return sealedSecret === null ? null : { sealedSecret, sinceMs: integerOrNull(row, "totp_since_ms") };
}
