/**
 * Temporary secrets: a key has them beside its own secret, for pages that call models as their signed-in user. Every
 * change stamps the key with the new key revision, as all changes of keys do.
 */

import { type Db, transaction } from "../engine/db.ts";
import { bumpKeyRevision } from "../engine/revisions.ts";
import { text } from "../engine/row.ts";
import { selectIn } from "../engine/select-in.ts";

interface TemporarySecret {
  readonly digest: string;
  readonly keyId: string;
  /** The secret ends with this session. */
  readonly sessionId: string;
  readonly createdAtMs: number;
  readonly worksUntilMs: number;
}

/** Returns false if there is no such active key. Above `secretsMax` for one key, the oldest ones end. */
export async function insertTemporarySecret(
  db: Db,
  { digest, keyId, sessionId, createdAtMs, worksUntilMs }: TemporarySecret,
  secretsMax: number,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const revision = await bumpKeyRevision(tx);
    const stamped = await tx.sql`
      UPDATE api_key SET revision = ${revision} WHERE id = ${keyId} AND status = 'active' RETURNING id`;
    if (stamped.length === 0) return false;
    // Expired ones of all keys: the table stays as small as the use of it.
    await tx.sql`DELETE FROM temporary_secret WHERE works_until_ms <= ${createdAtMs}`;
    await tx.sql`
      INSERT INTO temporary_secret (digest, key_id, session_id, created_at_ms, works_until_ms)
      VALUES (${digest}, ${keyId}, ${sessionId}, ${createdAtMs}, ${worksUntilMs})`;
    await tx.sql`
      DELETE FROM temporary_secret WHERE key_id = ${keyId} AND digest NOT IN (
        SELECT digest FROM temporary_secret WHERE key_id = ${keyId}
        ORDER BY created_at_ms DESC, digest LIMIT ${secretsMax})`;
    return true;
  });
}

/** For a rotation: they end with the secret that it replaces. The caller stamps the key. */
export async function shortenTemporarySecrets(tx: Db, keyId: string, worksUntilMs: number): Promise<void> {
  await tx.sql`
    UPDATE temporary_secret SET works_until_ms = ${worksUntilMs}
    WHERE key_id = ${keyId} AND works_until_ms > ${worksUntilMs}`;
}

/** Ends the secrets of sessions that were deleted. */
export async function endTemporarySecrets(tx: Db, sessionIds: readonly string[]): Promise<void> {
  const head = "DELETE FROM temporary_secret WHERE session_id";
  const ended = await selectIn(tx, head, sessionIds, "RETURNING key_id");
  if (ended.length === 0) return;
  const revision = await bumpKeyRevision(tx);
  const keyIds = new Set(ended.map((row) => text(row, "key_id")));
  for (const id of keyIds) await tx.sql`UPDATE api_key SET revision = ${revision} WHERE id = ${id}`;
}
