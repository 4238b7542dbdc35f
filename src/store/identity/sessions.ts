/** Browsers that are signed in. Whether one is still good is decided where the question is asked, in one statement. */

import type { Role } from "../../records.ts";
import type { Db, Row } from "../engine/db.ts";
import { integer, oneOf, text } from "../engine/row.ts";

export interface SessionRecord {
  id: string;
  userId: string;
  createdAtMs: number;
  seenAtMs: number;
  address: string;
  userAgent: string;
}

/** Sessions begun or last seen before these moments are over. */
export interface SessionBounds {
  createdAfterMs: number;
  seenAfterMs: number;
}

/** Whoever a session or a token stands for, as the API needs it. */
export interface Owner {
  userId: string;
  email: string;
  role: Role;
}

const ROLES: readonly Role[] = ["admin", "user"];

export async function insertSession(db: Db, session: SessionRecord, digest: string): Promise<void> {
  await db.sql`
    INSERT INTO session (id, digest, user_id, created_at_ms, seen_at_ms, address, user_agent)
    VALUES (${session.id}, ${digest}, ${session.userId}, ${session.createdAtMs}, ${session.seenAtMs},
      ${session.address}, ${session.userAgent})`;
}

/** Null when there is none, it is over, or its user may not come in. */
export async function findSession(
  db: Db,
  digest: string,
  { createdAfterMs, seenAfterMs }: SessionBounds,
): Promise<{ session: SessionRecord; owner: Owner } | null> {
  const [row] = await db.sql`
    SELECT session.id AS id, user_id, session.created_at_ms AS created_at_ms, seen_at_ms, address, user_agent,
      email, role
    FROM session JOIN app_user ON app_user.id = session.user_id
    WHERE digest = ${digest} AND status = 'active'
      AND session.created_at_ms > ${createdAfterMs} AND seen_at_ms > ${seenAfterMs}`;
  return row === undefined ? null : { session: toSession(row), owner: toOwner(row) };
}

export async function touchSession(
  db: Db,
  id: string,
  { seenAtMs, address, userAgent }: Pick<SessionRecord, "seenAtMs" | "address" | "userAgent">,
): Promise<void> {
  await db.sql`
    UPDATE session SET seen_at_ms = ${seenAtMs}, address = ${address}, user_agent = ${userAgent} WHERE id = ${id}`;
}

/** False if the session has ended. It cannot end before the transaction does. */
export async function lockSession(tx: Db, id: string): Promise<boolean> {
  const rows = await tx.sql`UPDATE session SET seen_at_ms = seen_at_ms WHERE id = ${id} RETURNING id`;
  return rows.length > 0;
}

/** The one used last comes first. */
export async function listSessions(
  db: Db,
  userId: string,
  { createdAfterMs, seenAfterMs }: SessionBounds,
): Promise<SessionRecord[]> {
  const rows = await db.sql`
    SELECT id, user_id, created_at_ms, seen_at_ms, address, user_agent FROM session
    WHERE user_id = ${userId} AND created_at_ms > ${createdAfterMs} AND seen_at_ms > ${seenAfterMs}
    ORDER BY seen_at_ms DESC, id DESC`;
  return rows.map(toSession);
}

/** False if this user has no such session. */
export async function deleteSession(db: Db, userId: string, id: string): Promise<boolean> {
  const gone = await db.sql`DELETE FROM session WHERE id = ${id} AND user_id = ${userId} RETURNING id`;
  return gone.length > 0;
}

export async function deleteSessionByDigest(db: Db, digest: string): Promise<void> {
  await db.sql`DELETE FROM session WHERE digest = ${digest}`;
}

/** All of a user's but one, or all with `null`. */
export async function deleteSessions(db: Db, userId: string, except: string | null): Promise<number> {
  const gone = await db.sql`
    DELETE FROM session WHERE user_id = ${userId} AND id <> ${except ?? ""} RETURNING id`;
  return gone.length;
}

export async function sweepSessions(db: Db, { createdAfterMs, seenAfterMs }: SessionBounds): Promise<void> {
  await db.sql`DELETE FROM session WHERE seen_at_ms <= ${seenAfterMs} OR created_at_ms <= ${createdAfterMs}`;
}

export function toOwner(row: Row): Owner {
  return { userId: text(row, "user_id"), email: text(row, "email"), role: oneOf(row, "role", ROLES) };
}

function toSession(row: Row): SessionRecord {
  return {
    id: text(row, "id"),
    userId: text(row, "user_id"),
    createdAtMs: integer(row, "created_at_ms"),
    seenAtMs: integer(row, "seen_at_ms"),
    address: text(row, "address"),
    userAgent: text(row, "user_agent"),
  };
}
