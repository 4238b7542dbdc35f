/** One-time links that expire. The store has only the digest of their token. */

import type { Db } from "../engine/db.ts";
import { enumText, integer, text, textOrNull } from "../engine/row.ts";
import { choice, rowReader } from "../engine/row-reader.ts";
import { readRole, roleColumns } from "./role-column.ts";

export const LINK_PURPOSES = ["invite", "reset", "verify", "sign_in"] as const;
export type LinkPurpose = (typeof LINK_PURPOSES)[number];

const toLink = rowReader({
  id: text,
  purpose: choice(LINK_PURPOSES),
  email: text,
  /** The role that an invitation grants; null for other purposes. */
  role: (row) => (row.role === null ? null : readRole(row)),
  /** The user the link is for; null for an invitation and for a verification, which create the account. */
  userId: textOrNull,
  createdAtMs: integer,
  /** The creator's e-mail address, or the operator's login name on the machine. */
  createdBy: text,
  expiresAtMs: integer,
});
export type LinkRecord = ReturnType<typeof toLink>;

/**
 * Deletes earlier unused links of the same purpose for the same address: only the newest works. Verification links
 * are an exception: anyone can request one, and must not thereby invalidate the owner's.
 */
export async function insertLink(tx: Db, link: LinkRecord, digest: string): Promise<void> {
  if (link.purpose !== "verify") {
    await tx.sql`
      DELETE FROM one_time_link WHERE purpose = ${link.purpose} AND email = ${link.email} AND used_at_ms IS NULL`;
  }
  const { role, isAuditor } = link.role === null ? { role: null, isAuditor: 0 } : roleColumns(link.role);
  await tx.sql`
    INSERT INTO one_time_link
      (id, digest, purpose, email, role, is_auditor, user_id, created_at_ms, created_by, expires_at_ms)
    VALUES (${link.id}, ${digest}, ${link.purpose}, ${link.email}, ${role}, ${isAuditor}, ${link.userId},
      ${link.createdAtMs}, ${link.createdBy}, ${link.expiresAtMs})`;
}

/** Returns null if the link does not exist, was used, or has expired. */
export async function findLink(db: Db, digest: string, nowMs: number): Promise<LinkRecord | null> {
  const [row] = await db.sql`
    SELECT id, purpose, email, role, is_auditor, user_id, created_at_ms, created_by, expires_at_ms FROM one_time_link
    WHERE digest = ${digest} AND used_at_ms IS NULL AND expires_at_ms > ${nowMs}`;
  return row === undefined ? null : toLink(row);
}

/** Consumes the link in one statement, so that of two concurrent calls only one succeeds. */
export async function takeLink(
  tx: Db,
  digest: string,
  purpose: LinkPurpose,
  nowMs: number,
): Promise<LinkRecord | null> {
  const [row] = await tx.sql`
    UPDATE one_time_link SET used_at_ms = ${nowMs}
    WHERE digest = ${digest} AND purpose = ${purpose} AND used_at_ms IS NULL AND expires_at_ms > ${nowMs}
    RETURNING id, purpose, email, role, is_auditor, user_id, created_at_ms, created_by, expires_at_ms`;
  return row === undefined ? null : toLink(row);
}

/** Case-insensitive, as addresses of users. */
export async function hasInvitation(db: Db, email: string, nowMs: number): Promise<boolean> {
  const found = await db.sql`
    SELECT id FROM one_time_link
    WHERE purpose = 'invite' AND email = ${email} AND used_at_ms IS NULL AND expires_at_ms > ${nowMs} LIMIT 1`;
  return found.length > 0;
}

/** Links that still work, newest first. */
export async function listLinks(
  db: Db,
  nowMs: number,
  { after, limit }: { after: string | null; limit: number },
): Promise<LinkRecord[]> {
  // Ids are time-ordered, so they also serve as the page cursor.
  const rows = await db.sql`
    SELECT id, purpose, email, role, is_auditor, user_id, created_at_ms, created_by, expires_at_ms FROM one_time_link
    WHERE used_at_ms IS NULL AND expires_at_ms > ${nowMs} AND id < ${after ?? "~"}
    ORDER BY id DESC LIMIT ${limit}`;
  return rows.map(toLink);
}

/** Returns null if no unused link has this id. */
export async function deleteLink(db: Db, id: string): Promise<Pick<LinkRecord, "purpose" | "email"> | null> {
  const [row] = await db.sql`
    DELETE FROM one_time_link WHERE id = ${id} AND used_at_ms IS NULL RETURNING purpose, email`;
  return row === undefined
    ? null
    : { purpose: enumText(row, "purpose", LINK_PURPOSES), email: text(row, "email") };
}

/** Deletes the links that would still sign in after a password change. */
export async function deleteEntryLinks(db: Db, userId: string): Promise<void> {
  await db.sql`
    DELETE FROM one_time_link
    WHERE user_id = ${userId} AND purpose IN ('reset', 'sign_in') AND used_at_ms IS NULL`;
}

/** Deletes every unused link to an address, of any purpose. */
export async function deleteLinksTo(tx: Db, email: string): Promise<void> {
  await tx.sql`DELETE FROM one_time_link WHERE email = ${email} AND used_at_ms IS NULL`;
}

export async function sweepLinks(db: Db, expiredBeforeMs: number): Promise<void> {
  await db.sql`DELETE FROM one_time_link WHERE expires_at_ms < ${expiredBeforeMs}`;
}
