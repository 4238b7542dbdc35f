/** Personal access tokens. The store has only their digests; the token itself is shown once. */

import type { Db } from "../engine/db.ts";
import { enumText, integer, integerOrNull, text } from "../engine/row.ts";
import { choice, rowReader } from "../engine/row-reader.ts";
import { type Owner, toOwner } from "./sessions.ts";

export const TOKEN_SCOPES = ["read", "keys", "admin", "export"] as const;
export type TokenScope = (typeof TOKEN_SCOPES)[number];

/** `export` is for a program that copies usage elsewhere: it includes nothing else. */
const INCLUDED_SCOPES: Readonly<Record<TokenScope, readonly TokenScope[]>> = {
  read: ["read"],
  keys: ["read", "keys"],
  admin: TOKEN_SCOPES,
  export: ["export"],
};

export function includesScope(scope: TokenScope, needed: TokenScope): boolean {
  return INCLUDED_SCOPES[scope].includes(needed);
}

/** Only administrators may have a token with this scope. */
export function needsAdmin(scope: TokenScope): boolean {
  return scope === "admin" || scope === "export";
}

const toToken = rowReader({
  id: text,
  userId: text,
  name: text,
  last4: text,
  /**
   * `read` may read, `keys` may also change its owner's API keys, `admin` may also administer the gateway. `export` may
   * only read the usage feed.
   */
  scope: choice(TOKEN_SCOPES),
  createdAtMs: integer,
  expiresAtMs: integerOrNull,
  usedAtMs: integerOrNull,
});
export type AccessTokenRecord = ReturnType<typeof toToken>;

export async function insertAccessToken(db: Db, token: AccessTokenRecord, digest: string): Promise<void> {
  await db.sql`
    INSERT INTO access_token (id, digest, user_id, name, last4, scope, created_at_ms, expires_at_ms, used_at_ms)
    VALUES (${token.id}, ${digest}, ${token.userId}, ${token.name}, ${token.last4}, ${token.scope},
      ${token.createdAtMs}, ${token.expiresAtMs}, ${token.usedAtMs})`;
}

/** Returns null if the token does not exist or has expired, or if its owner is not active. */
export async function findAccessToken(
  db: Db,
  digest: string,
  nowMs: number,
): Promise<{ token: AccessTokenRecord; owner: Owner } | null> {
  const [row] = await db.sql`
    SELECT access_token.id AS id, user_id, name, last4, scope, access_token.created_at_ms AS created_at_ms,
      expires_at_ms, used_at_ms, email, role, is_auditor
    FROM access_token JOIN app_user ON app_user.id = access_token.user_id
    WHERE digest = ${digest} AND status = 'active' AND (expires_at_ms IS NULL OR expires_at_ms > ${nowMs})`;
  return row === undefined ? null : { token: toToken(row), owner: toOwner(row) };
}

export async function touchAccessToken(db: Db, id: string, usedAtMs: number): Promise<void> {
  await db.sql`UPDATE access_token SET used_at_ms = ${usedAtMs} WHERE id = ${id}`;
}

/** Returns false if the token was revoked. Locks the token: it cannot be revoked before the transaction ends. */
export async function lockAccessToken(tx: Db, id: string): Promise<boolean> {
  const rows = await tx.sql`UPDATE access_token SET used_at_ms = used_at_ms WHERE id = ${id} RETURNING id`;
  return rows.length > 0;
}

/** Newest first. */
export async function listAccessTokens(db: Db, userId: string): Promise<AccessTokenRecord[]> {
  const rows = await db.sql`
    SELECT id, user_id, name, last4, scope, created_at_ms, expires_at_ms, used_at_ms FROM access_token
    WHERE user_id = ${userId} ORDER BY created_at_ms DESC, id DESC`;
  return rows.map(toToken);
}

/** Returns null if this user has no such token. */
export async function deleteAccessToken(
  db: Db,
  userId: string,
  id: string,
): Promise<Pick<AccessTokenRecord, "name" | "scope"> | null> {
  const [row] = await db.sql`
    DELETE FROM access_token WHERE id = ${id} AND user_id = ${userId} RETURNING name, scope`;
  return row === undefined ? null : { name: text(row, "name"), scope: enumText(row, "scope", TOKEN_SCOPES) };
}

/** The owner of a token; null if the token does not exist. */
export async function findTokenOwner(db: Db, id: string): Promise<{ id: string; email: string } | null> {
  const [row] = await db.sql`
    SELECT app_user.id AS id, email FROM access_token JOIN app_user ON app_user.id = access_token.user_id
    WHERE access_token.id = ${id}`;
  return row === undefined ? null : { id: text(row, "id"), email: text(row, "email") };
}

/** Deletes all tokens of a user and returns their number. */
export async function deleteAccessTokens(db: Db, userId: string): Promise<number> {
  const deleted = await db.sql`DELETE FROM access_token WHERE user_id = ${userId} RETURNING id`;
  return deleted.length;
}
