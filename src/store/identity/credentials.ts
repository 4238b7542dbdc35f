/** How users prove who they are. Beside the records: nothing of this is ever said by a file or shown to anybody. */

import { z } from "zod";
import { type Role, USER_STATUSES, type UserStatus } from "../../records.ts";
import { type Db, type Row, transaction } from "../engine/db.ts";
import { bumpKeyRevision } from "../engine/revisions.ts";
import { flag, integer, integerOrNull, json, oneOf, text, textOrNull } from "../engine/row.ts";
import { deleteEntryLinks } from "./links.ts";
import { foldEmail } from "./users.ts";

export interface Credentials {
  userId: string;
  email: string;
  role: Role;
  status: UserStatus;
  passwordHash: string | null;
  /** Null while there is none; `sinceMs` is null until its owner has shown a code of it. */
  secondFactor: { sealedSecret: string; sinceMs: number | null } | null;
  recoveryDigests: string[];
  /** Of accounts that were registered while an account came before its verification: they verify it first. */
  mustVerify: boolean;
  /** When the owner last opened a link to the address; null if never. */
  emailVerifiedAtMs: number | null;
  createdAtMs: number;
}

const ROLES: readonly Role[] = ["admin", "user"];
const digestsForm = z.array(z.string());

/** Case makes no difference. */
export async function findCredentialsByEmail(db: Db, email: string): Promise<Credentials | null> {
  const [row] = await db.sql`
    SELECT id, email, role, status, password_hash, sealed_totp, totp_since_ms, recovery_digests, must_verify,
      email_verified_at_ms, created_at_ms
    FROM app_user WHERE email_folded = ${foldEmail(email)}`;
  return row === undefined ? null : toCredentials(row);
}

export async function findCredentials(db: Db, userId: string): Promise<Credentials | null> {
  const [row] = await db.sql`
    SELECT id, email, role, status, password_hash, sealed_totp, totp_since_ms, recovery_digests, must_verify,
      email_verified_at_ms, created_at_ms
    FROM app_user WHERE id = ${userId}`;
  return row === undefined ? null : toCredentials(row);
}

/** Ends every session of the user, and every link that lets somebody in as the user. */
export async function writePassword(db: Db, userId: string, passwordHash: string): Promise<void> {
  await transaction(db, async (tx) => {
    // A file that was compared with the old password must not be applied on top.
    await bumpKeyRevision(tx);
    await tx.sql`UPDATE app_user SET password_hash = ${passwordHash} WHERE id = ${userId}`;
    await tx.sql`DELETE FROM session WHERE user_id = ${userId}`;
    await deleteEntryLinks(tx, userId);
  });
}

/**
 * False if the password is no longer the one that was proven, or the user was disabled. It stays until the transaction
 * ends.
 */
export async function lockPassword(
  tx: Db,
  { userId, passwordHash }: Pick<Credentials, "userId" | "passwordHash">,
): Promise<boolean> {
  const rows = await tx.sql`
    UPDATE app_user SET password_hash = password_hash
    WHERE id = ${userId} AND status = 'active' AND password_hash IS NOT DISTINCT FROM ${passwordHash} RETURNING id`;
  return rows.length > 0;
}

/** Nobody signs in by a password before a new one is chosen. */
export async function removePassword(db: Db, userId: string): Promise<void> {
  await transaction(db, async (tx) => {
    // A file that was compared with the old password must not be applied on top.
    await bumpKeyRevision(tx);
    await tx.sql`UPDATE app_user SET password_hash = NULL WHERE id = ${userId}`;
  });
}

/** How much of each was there. */
export interface EndedAccess {
  sessions: number;
  tokens: number;
  secondFactor: boolean;
}

/** Ends everything that lets somebody in as the user but the password, whoever made it. */
export async function forgetWaysIn(tx: Db, userId: string): Promise<EndedAccess> {
  const [before] = await tx.sql`SELECT totp_since_ms FROM app_user WHERE id = ${userId}`;
  await tx.sql`
    UPDATE app_user SET sealed_totp = NULL, totp_since_ms = NULL, recovery_digests = '[]' WHERE id = ${userId}`;
  const sessions = await tx.sql`DELETE FROM session WHERE user_id = ${userId} RETURNING id`;
  const tokens = await tx.sql`DELETE FROM access_token WHERE user_id = ${userId} RETURNING id`;
  await tx.sql`DELETE FROM one_time_link WHERE user_id = ${userId}`;
  return {
    sessions: sessions.length,
    tokens: tokens.length,
    secondFactor: before !== undefined && integerOrNull(before, "totp_since_ms") !== null,
  };
}

/** A new secret, not in force yet. False while another is in force. */
export async function beginSecondFactor(db: Db, userId: string, sealedSecret: string): Promise<boolean> {
  const begun = await db.sql`
    UPDATE app_user SET sealed_totp = ${sealedSecret}, totp_step = 0, recovery_digests = '[]'
    WHERE id = ${userId} AND totp_since_ms IS NULL RETURNING id`;
  return begun.length > 0;
}

/** False if by now there is another secret or none, or it came into force at another moment. */
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

/** False if there was none in force. */
export async function removeSecondFactor(db: Db, userId: string): Promise<boolean> {
  const removed = await db.sql`
    UPDATE app_user SET sealed_totp = NULL, totp_since_ms = NULL, recovery_digests = '[]'
    WHERE id = ${userId} AND totp_since_ms IS NOT NULL RETURNING id`;
  return removed.length > 0;
}

/** False if that step of the clock, or a later one, was taken before. */
export async function takeTotpStep(db: Db, userId: string, step: number): Promise<boolean> {
  const taken = await db.sql`
    UPDATE app_user SET totp_step = ${step} WHERE id = ${userId} AND totp_step < ${step} RETURNING id`;
  return taken.length > 0;
}

/** False if it is none of theirs, or was used before. */
export async function takeRecoveryCode(db: Db, userId: string, digest: string): Promise<boolean> {
  return transaction(db, async (tx) => {
    // For its lock: of two at once with the same code, one finds it gone.
    await tx.sql`UPDATE app_user SET totp_step = totp_step WHERE id = ${userId}`;
    const found = await findCredentials(tx, userId);
    if (!found?.recoveryDigests.includes(digest)) return false;
    const left = JSON.stringify(found.recoveryDigests.filter((one) => one !== digest));
    await tx.sql`UPDATE app_user SET recovery_digests = ${left} WHERE id = ${userId}`;
    return true;
  });
}

export async function markSignedIn(db: Db, userId: string, atMs: number): Promise<void> {
  await db.sql`UPDATE app_user SET signed_in_at_ms = ${atMs} WHERE id = ${userId}`;
}

/** The owner has opened a link to the address: to verify it, to accept an invitation, or to choose a new password. */
export async function markVerified(db: Db, userId: string, atMs: number): Promise<void> {
  await db.sql`UPDATE app_user SET must_verify = 0, email_verified_at_ms = ${atMs} WHERE id = ${userId}`;
}

function toCredentials(row: Row): Credentials {
  const sealedSecret = textOrNull(row, "sealed_totp");
  return {
    userId: text(row, "id"),
    email: text(row, "email"),
    role: oneOf(row, "role", ROLES),
    status: oneOf(row, "status", USER_STATUSES),
    passwordHash: textOrNull(row, "password_hash"),
    secondFactor:
      sealedSecret === null ? null : { sealedSecret, sinceMs: integerOrNull(row, "totp_since_ms") },
    recoveryDigests: json(row, "recovery_digests", digestsForm),
    mustVerify: flag(row, "must_verify"),
    emailVerifiedAtMs: integerOrNull(row, "email_verified_at_ms"),
    createdAtMs: integer(row, "created_at_ms"),
  };
}
