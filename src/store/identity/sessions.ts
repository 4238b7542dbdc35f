/** Browser sessions. Each query decides in one statement whether a session is still valid. */

import type { Role } from "../../records/user.ts";
import { type Db, numberPlaceholders, type Row, type SqlValue, transaction } from "../engine/db.ts";
import { bumpKeyRevision } from "../engine/revisions.ts";
import { integer, text } from "../engine/row.ts";
import { rowReader } from "../engine/row-reader.ts";
import { endTemporarySecrets } from "../policy/temporary-secrets.ts";
import { readRole } from "./role-column.ts";

const toSession = rowReader({
  id: text,
  userId: text,
  createdAtMs: integer,
  seenAtMs: integer,
  address: text,
  userAgent: text,
});
export type SessionRecord = ReturnType<typeof toSession>;

/** Sessions created or last seen before these times have expired. */
export interface SessionBounds {
  createdAfterMs: number;
  seenAfterMs: number;
}

/** The user of a session or a token, with the fields that the API needs. */
export interface Owner {
  userId: string;
  email: string;
  role: Role;
}

export async function insertSession(db: Db, session: SessionRecord, digest: string): Promise<void> {
  await db.sql`
    INSERT INTO session (id, digest, user_id, created_at_ms, seen_at_ms, address, user_agent)
    VALUES (${session.id}, ${digest}, ${session.userId}, ${session.createdAtMs}, ${session.seenAtMs},
      ${session.address}, ${session.userAgent})`;
}

/** Returns null if the session does not exist or has expired, or if its user is not active. */
export async function findSession(
  db: Db,
  digest: string,
  { createdAfterMs, seenAfterMs }: SessionBounds,
): Promise<{ session: SessionRecord; owner: Owner } | null> {
  const [row] = await db.sql`
    SELECT session.id AS id, user_id, session.created_at_ms AS created_at_ms, seen_at_ms, address, user_agent,
      email, role, is_auditor
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

/** Returns false if the session has ended. Locks it: it cannot end before the transaction does. */
export async function lockSession(tx: Db, id: string): Promise<boolean> {
  const rows = await tx.sql`UPDATE session SET seen_at_ms = seen_at_ms WHERE id = ${id} RETURNING id`;
  return rows.length > 0;
}

/** Most recently used first. */
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

/** Returns false if this user has no such session. */
export async function deleteSession(db: Db, userId: string, id: string): Promise<boolean> {
  return (await endSessions(db, "id = ? AND user_id = ?", [id, userId])) > 0;
}

export async function deleteSessionByDigest(db: Db, digest: string): Promise<void> {
  await endSessions(db, "digest = ?", [digest]);
}

/** Deletes all sessions of a user except one; all of them if `except` is null. */
export async function deleteSessions(db: Db, userId: string, except: string | null): Promise<number> {
  return endSessions(db, "user_id = ? AND id <> ?", [userId, except ?? ""]);
}

export async function sweepSessions(db: Db, { createdAfterMs, seenAfterMs }: SessionBounds): Promise<void> {
  await endSessions(db, "seen_at_ms <= ? OR created_at_ms <= ?", [seenAfterMs, createdAfterMs]);
}

/**
 * Deletes the sessions that `condition` selects, and ends their temporary secrets; `?` stands for a value. Changes of
 * keys lock the key revision before a session, so it is locked first here too if there is a secret to end.
 */
async function endSessions(db: Db, condition: string, values: readonly SqlValue[]): Promise<number> {
  return transaction(db, async (tx) => {
    const run = (statement: string) => tx.sql.text(numberPlaceholders(tx.engine, statement), values);
    const secrets = await run(
      `SELECT digest FROM temporary_secret
       WHERE session_id IN (SELECT id FROM session WHERE ${condition}) LIMIT 1`,
    );
    if (secrets.length > 0) await bumpKeyRevision(tx);
    const rows = await run(`DELETE FROM session WHERE ${condition} RETURNING id`);
    await endTemporarySecrets(
      tx,
      rows.map((row) => text(row, "id")),
    );
    return rows.length;
  });
}

export function toOwner(row: Row): Owner {
  return { userId: text(row, "user_id"), email: text(row, "email"), role: readRole(row) };
}
