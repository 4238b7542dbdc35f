/** Links that work once, until they expire: known by the digest of what they carry. */

import type { Role } from "../../records.ts";
import type { Db, Row } from "../engine/db.ts";
import { integer, oneOf, text, textOrNull } from "../engine/row.ts";

export const LINK_PURPOSES = ["invite", "reset", "verify", "sign_in"] as const;
export type LinkPurpose = (typeof LINK_PURPOSES)[number];

export interface LinkRecord {
  id: string;
  purpose: LinkPurpose;
  email: string;
  /** What an invitation makes of whoever takes it; null for the others. */
  role: Role | null;
  /** Whom it is for; null for an invitation, and for the verification of an address that has no account yet. */
  userId: string | null;
  createdAtMs: number;
  /** A user's address, or the operator's name on the machine. */
  createdBy: string;
  expiresAtMs: number;
}

const ROLES: readonly Role[] = ["admin", "user"];

/**
 * Earlier ones of the same purpose for the same address stop working: the newest is the one that counts. Not so those
 * that verify an address: anybody may have one sent, and must not end the owner's by it.
 */
export async function insertLink(tx: Db, link: LinkRecord, digest: string): Promise<void> {
  if (link.purpose !== "verify") {
    await tx.sql`
      DELETE FROM one_time_link WHERE purpose = ${link.purpose} AND email = ${link.email} AND used_at_ms IS NULL`;
  }
  await tx.sql`
    INSERT INTO one_time_link (id, digest, purpose, email, role, user_id, created_at_ms, created_by, expires_at_ms)
    VALUES (${link.id}, ${digest}, ${link.purpose}, ${link.email}, ${link.role}, ${link.userId},
      ${link.createdAtMs}, ${link.createdBy}, ${link.expiresAtMs})`;
}

/** Null when there is none, or it was used, or has expired. */
export async function findLink(db: Db, digest: string, nowMs: number): Promise<LinkRecord | null> {
  const [row] = await db.sql`
    SELECT id, purpose, email, role, user_id, created_at_ms, created_by, expires_at_ms FROM one_time_link
    WHERE digest = ${digest} AND used_at_ms IS NULL AND expires_at_ms > ${nowMs}`;
  return row === undefined ? null : toLink(row);
}

/** One statement, so that of two at once one gets it. */
export async function takeLink(
  tx: Db,
  digest: string,
  purpose: LinkPurpose,
  nowMs: number,
): Promise<LinkRecord | null> {
  const [row] = await tx.sql`
    UPDATE one_time_link SET used_at_ms = ${nowMs}
    WHERE digest = ${digest} AND purpose = ${purpose} AND used_at_ms IS NULL AND expires_at_ms > ${nowMs}
    RETURNING id, purpose, email, role, user_id, created_at_ms, created_by, expires_at_ms`;
  return row === undefined ? null : toLink(row);
}

/** Those that still work, the newest first. */
export async function listLinks(
  db: Db,
  nowMs: number,
  { after, limit }: { after: string | null; limit: number },
): Promise<LinkRecord[]> {
  // Ids are time-ordered, so they are the page's place too.
  const rows = await db.sql`
    SELECT id, purpose, email, role, user_id, created_at_ms, created_by, expires_at_ms FROM one_time_link
    WHERE used_at_ms IS NULL AND expires_at_ms > ${nowMs} AND id < ${after ?? "~"}
    ORDER BY id DESC LIMIT ${limit}`;
  return rows.map(toLink);
}

/** Null if there was none that still worked. */
export async function deleteLink(db: Db, id: string): Promise<Pick<LinkRecord, "purpose" | "email"> | null> {
  const [row] = await db.sql`
    DELETE FROM one_time_link WHERE id = ${id} AND used_at_ms IS NULL RETURNING purpose, email`;
  return row === undefined
    ? null
    : { purpose: oneOf(row, "purpose", LINK_PURPOSES), email: text(row, "email") };
}

/** Those that would let somebody in past a new password. */
export async function deleteEntryLinks(db: Db, userId: string): Promise<void> {
  await db.sql`
    DELETE FROM one_time_link
    WHERE user_id = ${userId} AND purpose IN ('reset', 'sign_in', 'verify') AND used_at_ms IS NULL`;
}

/** Every link to an address, of whatever purpose, that was not used yet. */
export async function deleteLinksTo(tx: Db, email: string): Promise<void> {
  await tx.sql`DELETE FROM one_time_link WHERE email = ${email} AND used_at_ms IS NULL`;
}

export async function sweepLinks(db: Db, expiredBeforeMs: number): Promise<void> {
  await db.sql`DELETE FROM one_time_link WHERE expires_at_ms < ${expiredBeforeMs}`;
}

function toLink(row: Row): LinkRecord {
  return {
    id: text(row, "id"),
    purpose: oneOf(row, "purpose", LINK_PURPOSES),
    email: text(row, "email"),
    role: row.role === null ? null : oneOf(row, "role", ROLES),
    userId: textOrNull(row, "user_id"),
    createdAtMs: integer(row, "created_at_ms"),
    createdBy: text(row, "created_by"),
    expiresAtMs: integer(row, "expires_at_ms"),
  };
}
