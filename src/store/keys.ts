/**
 * Callers' keys. Every change stamps the row with the new key revision in the same transaction, so that an
 * index patched with "everything after revision n" misses nothing.
 */

import { type KeyOfUser, type KeyRecord, NO_LIMITS } from "../records.ts";
import { orDuplicate, StoreConflict } from "./conflict.ts";
import { type Db, type Row, snapshot, transaction } from "./db.ts";
import { callerLimits, callerLimitsText } from "./limits-column.ts";
import { bumpKeyRevision, readRevisions } from "./revisions.ts";
import { integer, integerOrNull, oneOf, text, textOrNull } from "./row.ts";

const STATUSES: readonly KeyRecord["status"][] = ["active", "revoked"];

/** Changed after that revision, revoked ones too; 0 means all. */
export async function readKeys(
  db: Db,
  afterRevision: number,
): Promise<{ keys: KeyOfUser[]; revision: number }> {
  return snapshot(db, async (tx) => {
    const { keys: revision } = await readRevisions(tx);
    const rows = await tx.sql`
      SELECT api_key.id AS id, name, user_id, group_id, digest, public_id, last4, status, expires_at_ms,
        api_key.limits AS limits, api_key.created_at_ms AS created_at_ms, revoked_at_ms,
        app_user.limits AS user_limits
      FROM api_key LEFT JOIN app_user ON app_user.id = api_key.user_id
      WHERE api_key.revision > ${afterRevision}`;
    return { keys: rows.map(toKeyOfUser), revision };
  });
}

export async function listKeys(db: Db): Promise<KeyRecord[]> {
  const rows = await db.sql`
    SELECT id, name, user_id, group_id, digest, public_id, last4, status, expires_at_ms, limits, created_at_ms,
      revoked_at_ms
    FROM api_key ORDER BY created_at_ms, id`;
  return rows.map(toKey);
}

export async function findKeyByPublicId(db: Db, publicId: string): Promise<KeyRecord | null> {
  const [row] = await db.sql`
    SELECT id, name, user_id, group_id, digest, public_id, last4, status, expires_at_ms, limits, created_at_ms,
      revoked_at_ms
    FROM api_key WHERE public_id = ${publicId}`;
  return row === undefined ? null : toKey(row);
}

export async function insertKey(db: Db, key: KeyRecord): Promise<void> {
  await transaction(db, async (tx) => {
    const revision = await bumpKeyRevision(tx);
    await refuseMissingGroup(tx, key.groupId);
    await refuseMissingUser(tx, key.userId);
    await orDuplicate(
      `The key "${key.name}" exists already: its id, secret or public id is taken.`,
      tx.sql`
        INSERT INTO api_key (id, name, user_id, group_id, digest, public_id, last4, status, expires_at_ms,
          limits, created_at_ms, revoked_at_ms, revision)
        VALUES (${key.id}, ${key.name}, ${key.userId}, ${key.groupId}, ${key.digest}, ${key.publicId}, ${key.last4},
          ${key.status}, ${key.expiresAtMs}, ${callerLimitsText(key.limits)}, ${key.createdAtMs},
          ${key.revokedAtMs}, ${revision})`,
    );
  });
}

/** False if there is no such key, or it was revoked before: the first time stands. */
export async function revokeKey(db: Db, id: string, atMs: number): Promise<boolean> {
  return transaction(db, async (tx) => {
    const active = await tx.sql`SELECT id FROM api_key WHERE id = ${id} AND status = 'active'`;
    if (active.length === 0) return false;
    const revision = await bumpKeyRevision(tx);
    const revoked = await tx.sql`
      UPDATE api_key SET status = 'revoked', revoked_at_ms = ${atMs}, revision = ${revision}
      WHERE id = ${id} AND status = 'active' RETURNING id`;
    return revoked.length > 0;
  });
}

/** False if there is no such key. */
export async function changeKey(
  db: Db,
  id: string,
  { groupId, expiresAtMs, limits }: Pick<KeyRecord, "groupId" | "expiresAtMs" | "limits">,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const revision = await bumpKeyRevision(tx);
    await refuseMissingGroup(tx, groupId);
    const changed = await tx.sql`
      UPDATE api_key SET group_id = ${groupId}, expires_at_ms = ${expiresAtMs},
        limits = ${callerLimitsText(limits)}, revision = ${revision}
      WHERE id = ${id} RETURNING id`;
    return changed.length > 0;
  });
}

async function refuseMissingGroup(tx: Db, groupId: string): Promise<void> {
  const found = await tx.sql`SELECT id FROM grp WHERE id = ${groupId}`;
  if (found.length === 0) throw new StoreConflict("missing", `The group "${groupId}" does not exist.`);
}

async function refuseMissingUser(tx: Db, userId: string | null): Promise<void> {
  if (userId === null) return;
  const found = await tx.sql`SELECT id FROM app_user WHERE id = ${userId}`;
  if (found.length === 0) throw new StoreConflict("missing", `The user "${userId}" does not exist.`);
}

function toKeyOfUser(row: Row): KeyOfUser {
  return {
    ...toKey(row),
    userLimits: row.user_limits === null ? NO_LIMITS : callerLimits(row, "user_limits"),
  };
}

function toKey(row: Row): KeyRecord {
  return {
    id: text(row, "id"),
    name: text(row, "name"),
    userId: textOrNull(row, "user_id"),
    groupId: text(row, "group_id"),
    digest: text(row, "digest"),
    publicId: text(row, "public_id"),
    last4: text(row, "last4"),
    status: oneOf(row, "status", STATUSES),
    expiresAtMs: integerOrNull(row, "expires_at_ms"),
    limits: callerLimits(row, "limits"),
    createdAtMs: integer(row, "created_at_ms"),
    revokedAtMs: integerOrNull(row, "revoked_at_ms"),
  };
}
