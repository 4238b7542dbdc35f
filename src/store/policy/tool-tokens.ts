/**
 * The tokens of signed-in tools. Access tokens are the secrets of a key, replaced by each refresh; every change stamps
 * the key with the new key revision, as all changes of keys do.
 */

import { type Db, transaction } from "../engine/db.ts";
import { bumpKeyRevision } from "../engine/revisions.ts";
import { integer, integerOrNull, text } from "../engine/row.ts";
import { rowReader } from "../engine/row-reader.ts";
import { revokeKey, rotateKey } from "./keys.ts";
import { ENDED_TOKEN_KNOWN_MS, type ToolKeyRecord } from "./tool-keys.ts";

const toRefreshToken = rowReader({
  digest: text,
  keyId: text,
  createdAtMs: integer,
  expiresAtMs: integer,
  /** When its first successor was issued; null: never. */
  replacedAtMs: integerOrNull,
});
export type RefreshToken = ReturnType<typeof toRefreshToken>;

export async function insertToolKey(tx: Db, tool: ToolKeyRecord, refreshDigest: string): Promise<void> {
  const { keyId, address, createdAtMs, idleEndMs } = tool;
  await tx.sql`
    INSERT INTO tool_key (key_id, address, created_at_ms, idle_end_ms)
    VALUES (${keyId}, ${address}, ${createdAtMs}, ${idleEndMs})`;
  await insertRefreshToken(tx, { digest: refreshDigest, keyId, createdAtMs, expiresAtMs: idleEndMs });
}

async function insertRefreshToken(
  tx: Db,
  { digest, keyId, createdAtMs, expiresAtMs }: Omit<RefreshToken, "replacedAtMs">,
): Promise<void> {
  await tx.sql`
    INSERT INTO refresh_token (digest, key_id, created_at_ms, expires_at_ms)
    VALUES (${digest}, ${keyId}, ${createdAtMs}, ${expiresAtMs})`;
}

export async function findRefreshToken(db: Db, digest: string): Promise<RefreshToken | null> {
  const [row] = await db.sql`
    SELECT digest, key_id, created_at_ms, expires_at_ms, replaced_at_ms FROM refresh_token
    WHERE digest = ${digest}`;
  return row === undefined ? null : toRefreshToken(row);
}

interface TokenSuccessor {
  readonly access: { readonly digest: string; readonly last4: string };
  /** The end of the new access token. */
  readonly accessEndMs: number;
  readonly refreshDigest: string;
  readonly idleEndMs: number;
}

/**
 * Issues successors of a refresh token and of the newest access token, which works until its own end. Replaced tokens
 * are forgotten once they are no longer recognized.
 */
export async function replaceTokens(
  tx: Db,
  present: RefreshToken,
  { access, accessEndMs, refreshDigest, idleEndMs }: TokenSuccessor,
  { atMs, presentEndMs, formerMax }: TokenTimes,
): Promise<void> {
  const { keyId } = present;
  await tx.sql`DELETE FROM former_secret WHERE key_id = ${keyId} AND works_until_ms <= ${atMs - ENDED_TOKEN_KNOWN_MS}`;
  await rotateKey(tx, keyId, access, { atMs, worksUntilMs: presentEndMs, formerMax });
  await tx.sql`UPDATE api_key SET expires_at_ms = ${accessEndMs} WHERE id = ${keyId}`;
  await tx.sql`DELETE FROM refresh_token WHERE key_id = ${keyId} AND expires_at_ms <= ${atMs}`;
  await tx.sql`
    UPDATE refresh_token SET replaced_at_ms = ${atMs} WHERE digest = ${present.digest} AND replaced_at_ms IS NULL`;
  await insertRefreshToken(tx, { digest: refreshDigest, keyId, createdAtMs: atMs, expiresAtMs: idleEndMs });
  await tx.sql`UPDATE tool_key SET idle_end_ms = ${idleEndMs} WHERE key_id = ${keyId}`;
}

interface TokenTimes {
  readonly atMs: number;
  /** The end of the newest access token until now. */
  readonly presentEndMs: number;
  /** Access tokens that work beside the newest one. */
  readonly formerMax: number;
}

export async function countTokensSince(tx: Db, keyId: string, sinceMs: number): Promise<number> {
  const [row] = await tx.sql`
    SELECT COUNT(*) AS many FROM refresh_token WHERE key_id = ${keyId} AND created_at_ms >= ${sinceMs}`;
  return row === undefined ? 0 : integer(row, "many");
}

/** Revokes the keys of tools that were not used until their end. Returns how many. */
export async function endIdleTools(db: Db, nowMs: number, max: number): Promise<number> {
  const due = await db.sql`
    SELECT key_id FROM tool_key JOIN api_key ON api_key.id = key_id
    WHERE idle_end_ms <= ${nowMs} AND status = 'active' ORDER BY idle_end_ms LIMIT ${max}`;
  for (const row of due)
    await transaction(db, async (tx) => {
      await bumpKeyRevision(tx);
      // A refresh may have come first.
      const [idle] = await tx.sql`
        SELECT key_id FROM tool_key WHERE key_id = ${text(row, "key_id")} AND idle_end_ms <= ${nowMs}`;
      if (idle !== undefined) await revokeKey(tx, text(row, "key_id"), nowMs);
    });
  return due.length;
}
