/**
 * API keys. Every change stamps the row with the new key revision in the same transaction, so an index that is
 * updated with "everything after revision n" misses nothing.
 */

import type { FileRecord } from "../../records/fields.ts";
import { type FormerSecret, KEY_FIELDS, type KeyOfUser, type KeyRecord } from "../../records/key.ts";
import { NO_LIMITS } from "../../records/limits.ts";
import { importedDigest } from "../../secrets/api-key.ts";
import { toKeyCapture } from "../captures/key-captures.ts";
import { orDuplicate, StoreConflict } from "../engine/conflict.ts";
import { type Db, placeholder, type Row, snapshot, transaction } from "../engine/db.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { bumpKeyRevision, readRevisions } from "../engine/revisions.ts";
import { integer, integerOrNull, text } from "../engine/row.ts";
import { selectIn } from "../engine/select-in.ts";
import { callerLimits, callerLimitsText } from "./limits-column.ts";
import { RecordTable } from "./record-table.ts";
import { rejectMissingPolicy } from "./request-policies.ts";
import { endSuspension, endSuspensions } from "./suspended-keys.ts";
import { shortenTemporarySecrets } from "./temporary-secrets.ts";
import { readEndedTokens, readToolKeys } from "./tool-keys.ts";

const KEYS = new RecordTable("api_key", KEY_FIELDS);
const INSERTED_COLUMNS = [...KEYS.columns, "ceiling_expires_at_ms", "ceiling_limits", "revision"];

export const KEY_COLUMNS = KEYS.columns.join(", ");
/** Reads a row that has all of `KEY_COLUMNS`. */
export const toKey = KEYS.read;

/** The columns of a key beside those of its user. The keys of a disabled user are read as revoked. */
const JOINED_COLUMNS = KEYS.columns
  .map((column) =>
    column === "status"
      ? "CASE WHEN app_user.status = 'disabled' THEN 'revoked' ELSE api_key.status END AS status"
      : `api_key.${column} AS ${column}`,
  )
  .join(", ");

/** The keys that changed after a revision, including revoked ones; 0 lists all. */
export async function listChangedKeys(
  db: Db,
  afterRevision: number,
): Promise<{ ids: string[]; revision: number }> {
  return snapshot(db, async (tx) => {
    const { keys: revision } = await readRevisions(tx);
    const rows = await tx.sql`SELECT id FROM api_key WHERE revision > ${afterRevision}`;
    return { ids: rows.map((row) => text(row, "id")), revision };
  });
}

/** Keys of a disabled user are returned as revoked. `nowMs` decides which former and temporary secrets still work. */
export async function readKeys(db: Db, ids: readonly string[], nowMs: number): Promise<KeyOfUser[]> {
  return snapshot(db, async (tx) => {
    const rows = await selectIn(
      tx,
      `SELECT ${JOINED_COLUMNS}, app_user.limits AS user_limits, key_capture.mode AS capture_mode,
         key_capture.remaining AS capture_remaining, key_capture.until_ms AS capture_until_ms
       FROM api_key LEFT JOIN app_user ON app_user.id = api_key.user_id
         LEFT JOIN key_capture ON key_capture.key_id = api_key.id
       WHERE api_key.id`,
      ids,
    );
    const formerRows = await readWorkingSecrets(tx, "former_secret", ids, nowMs);
    const temporaryRows = await readWorkingSecrets(tx, "temporary_secret", ids, nowMs);
    const formerByKey = Map.groupBy([...formerRows, ...temporaryRows], (row) => text(row, "key_id"));
    const toolKeys = await readToolKeys(tx, ids);
    const endedByKey = Map.groupBy(await readEndedTokens(tx, [...toolKeys], nowMs), (row) =>
      text(row, "key_id"),
    );
    return rows.map((row) => {
      const id = text(row, "id");
      const key = toUserKey(row, formerByKey.get(id) ?? []);
      return toolKeys.has(id) ? { ...key, endedTokens: (endedByKey.get(id) ?? []).map(toSecretEnd) } : key;
    });
  });
}

function readWorkingSecrets(
  tx: Db,
  table: "former_secret" | "temporary_secret",
  keyIds: readonly string[],
  nowMs: number,
): Promise<Row[]> {
  const after = placeholder(tx.engine, 1);
  const head = `SELECT key_id, digest, works_until_ms FROM ${table} WHERE works_until_ms > ${after} AND key_id`;
  return selectIn(tx, head, keyIds, "", [nowMs]);
}

export function listKeys(db: Db): Promise<KeyRecord[]> {
  return KEYS.list(db);
}

export function findKeyByPublicId(db: Db, publicId: string): Promise<KeyRecord | null> {
  return findKeyBy(db, "public_id", publicId);
}

export function findKey(db: Db, id: string): Promise<KeyRecord | null> {
  return findKeyBy(db, "id", id);
}

async function findKeyBy(db: Db, column: "id" | "public_id", value: string): Promise<KeyRecord | null> {
  const [row] = await db.sql.text(
    `SELECT ${KEY_COLUMNS} FROM api_key WHERE ${column} = ${placeholder(db.engine, 1)}`,
    [value],
  );
  return row === undefined ? null : toKey(row);
}

/** Key names are unique among the active keys of a user. */
export async function isKeyNameTaken(
  db: Db,
  { userId, name, otherThan }: { userId: string | null; name: string; otherThan: string },
): Promise<boolean> {
  const taken = await db.sql`
    SELECT id FROM api_key
    WHERE user_id IS NOT DISTINCT FROM ${userId} AND name = ${name} AND status = 'active' AND id <> ${otherThan}
    LIMIT 1`;
  return taken.length > 0;
}

export async function countActiveKeys(db: Db, userId: string): Promise<number> {
  const [row] = await db.sql`
    SELECT COUNT(*) AS many FROM api_key WHERE user_id = ${userId} AND status = 'active'`;
  return row === undefined ? 0 : integer(row, "many");
}

/**
 * Expiry and limits that an operator set for a key, by a file, the command line or the console. The owner may set
 * stricter values, never looser ones.
 */
export type KeyCeiling = Pick<KeyRecord, "expiresAtMs" | "limits">;

export const NO_CEILING: KeyCeiling = { expiresAtMs: null, limits: NO_LIMITS };

export async function readKeyCeiling(db: Db, id: string): Promise<KeyCeiling> {
  const [row] = await db.sql`SELECT ceiling_expires_at_ms, ceiling_limits FROM api_key WHERE id = ${id}`;
  if (row === undefined) return NO_CEILING;
  return {
    expiresAtMs: integerOrNull(row, "ceiling_expires_at_ms"),
    limits: callerLimits(row, "ceiling_limits"),
  };
}

export async function insertKey(db: Db, key: KeyRecord, ceiling: KeyCeiling = key): Promise<void> {
  await transaction(db, async (tx) => {
    const revision = await bumpKeyRevision(tx);
    await rejectMissingGroup(tx, key.groupId);
    await rejectMissingUser(tx, key.userId);
    await rejectMissingPolicy(tx, key.requestPolicy);
    await rejectFormerSecret(tx, key);
    await orDuplicate(
      `The key "${key.name}" already exists: its id, secret or public id is taken.`,
      insertRows(tx, KEYS.name, INSERTED_COLUMNS, [
        [...KEYS.values(key), ceiling.expiresAtMs, callerLimitsText(ceiling.limits), revision],
      ]),
    );
  });
}

/**
 * Returns false if the key does not exist or was already revoked; the time of the first revocation is kept. A suspended
 * key is not restored afterwards.
 */
export async function revokeKey(db: Db, id: string, atMs: number): Promise<boolean> {
  return transaction(db, async (tx) => {
    const active = await tx.sql`SELECT id FROM api_key WHERE id = ${id} AND status = 'active'`;
    if (active.length === 0) return endSuspension(tx, id);
    const revision = await bumpKeyRevision(tx);
    const revoked = await tx.sql`
      UPDATE api_key SET status = 'revoked', revoked_at_ms = ${atMs}, revision = ${revision}
      WHERE id = ${id} AND status = 'active' RETURNING id`;
    return revoked.length > 0;
  });
}

/** When each active key of a user was last rotated. Keys that were never rotated are not included. */
export async function readRotations(db: Db, userId: string): Promise<ReadonlyMap<string, number>> {
  const rows = await db.sql`
    SELECT key_id, MAX(replaced_at_ms) AS rotated_at_ms FROM former_secret
    JOIN api_key ON api_key.id = key_id WHERE user_id = ${userId} AND status = 'active' GROUP BY key_id`;
  return new Map(rows.map((row) => [text(row, "key_id"), integer(row, "rotated_at_ms")]));
}

export interface NamedKeys {
  readonly ids: readonly string[];
  /** Also keys created or rotated from this time on; null for none of them. */
  readonly sinceMs: number | null;
}

/** Revokes the named keys of one user, or all. Returns the keys that were active until now. */
export async function revokeUserKeys(
  db: Db,
  userId: string,
  which: NamedKeys | "all",
  atMs: number,
): Promise<Pick<KeyRecord, "id" | "name">[]> {
  return transaction(db, async (tx) => {
    if (which !== "all" && which.ids.length === 0 && which.sinceMs === null) return [];
    // First, to take the lock: a key that is being created must not be missed.
    const revision = await bumpKeyRevision(tx);
    if (which === "all") await endSuspensions(tx, userId);
    const active = await tx.sql`
      SELECT id, name, created_at_ms FROM api_key WHERE user_id = ${userId} AND status = 'active'`;
    const rotations = await readRotations(tx, userId);
    const namedIds = new Set(which === "all" ? [] : which.ids);
    const sinceMs = which === "all" ? 0 : (which.sinceMs ?? Number.POSITIVE_INFINITY);
    const keys = active
      .map((row) => ({
        id: text(row, "id"),
        name: text(row, "name"),
        secretSinceMs: Math.max(integer(row, "created_at_ms"), rotations.get(text(row, "id")) ?? 0),
      }))
      .filter(({ id, secretSinceMs }) => namedIds.has(id) || secretSinceMs >= sinceMs)
      .map(({ id, name }) => ({ id, name }));
    for (const { id } of keys) {
      await tx.sql`
        UPDATE api_key SET status = 'revoked', revoked_at_ms = ${atMs}, revision = ${revision} WHERE id = ${id}`;
    }
    return keys;
  });
}

/** Returns false if the key does not exist. */
export async function changeKey(
  db: Db,
  id: string,
  settings: Partial<FileRecord<typeof KEY_FIELDS>> & KeyCeiling & Pick<KeyRecord, "groupId">,
  ceiling: KeyCeiling = settings,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const revision = await bumpKeyRevision(tx);
    await rejectMissingGroup(tx, settings.groupId);
    await rejectMissingPolicy(tx, settings.requestPolicy ?? null);
    return KEYS.update(tx, id, settings, {
      ceiling_expires_at_ms: ceiling.expiresAtMs,
      ceiling_limits: callerLimitsText(ceiling.limits),
      revision,
    });
  });
}

interface Rotation {
  atMs: number;
  worksUntilMs: number;
  /** Maximum number of former secrets that still work. The oldest ones above it stop working. */
  formerMax: number;
}

/**
 * Gives the key a new secret. The current secret and all earlier ones stop working at `worksUntilMs` at the latest,
 * so ending a secret also ends all earlier ones. Returns false if there is no such active key.
 */
export async function rotateKey(
  db: Db,
  id: string,
  secret: Pick<KeyRecord, "digest" | "last4">,
  { atMs, worksUntilMs, formerMax }: Rotation,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const revision = await bumpKeyRevision(tx);
    const [current] = await tx.sql`
      SELECT id, digest, last4 FROM api_key WHERE id = ${id} AND status = 'active'`;
    if (current === undefined) return false;
    await tx.sql`
      INSERT INTO former_secret (digest, key_id, last4, replaced_at_ms, works_until_ms)
      VALUES (${text(current, "digest")}, ${id}, ${text(current, "last4")}, ${atMs}, ${worksUntilMs})`;
    await tx.sql`
      UPDATE former_secret SET works_until_ms = ${worksUntilMs}
      WHERE key_id = ${id} AND works_until_ms > ${worksUntilMs}`;
    await expireOldestSecrets(tx, id, atMs, formerMax);
    await shortenTemporarySecrets(tx, id, worksUntilMs);
    await tx.sql`
      UPDATE api_key SET digest = ${secret.digest}, last4 = ${secret.last4}, revision = ${revision}
      WHERE id = ${id}`;
    return true;
  });
}

/** The secrets that another gateway had replaced before the key was imported. */
export async function insertFormerSecrets(
  db: Db,
  { id, createdAtMs }: KeyRecord,
  secrets: readonly FormerSecret[],
): Promise<void> {
  for (const { digest, last4, worksUntilMs } of secrets)
    await db.sql`
      INSERT INTO former_secret (digest, key_id, last4, replaced_at_ms, works_until_ms)
      VALUES (${digest}, ${id}, ${last4}, ${createdAtMs}, ${worksUntilMs})`;
}

/**
 * Replaces the plain hash of a secret of another gateway by the keyed digest of the same secret. A former secret keeps
 * its form until it expires.
 */
export async function adoptImportedDigest(
  db: Db,
  id: string,
  { sha256Hex, digest }: { sha256Hex: string; digest: string },
): Promise<void> {
  await transaction(db, async (tx) => {
    const revision = await bumpKeyRevision(tx);
    await tx.sql`
      UPDATE api_key SET digest = ${digest}, revision = ${revision}
      WHERE id = ${id} AND digest = ${importedDigest(sha256Hex)}`;
  });
}

async function expireOldestSecrets(tx: Db, keyId: string, atMs: number, formerMax: number): Promise<void> {
  await tx.sql`
    UPDATE former_secret SET works_until_ms = ${atMs}
    WHERE key_id = ${keyId} AND works_until_ms > ${atMs} AND digest NOT IN (
      SELECT digest FROM former_secret WHERE key_id = ${keyId} AND works_until_ms > ${atMs}
      ORDER BY replaced_at_ms DESC, digest LIMIT ${formerMax})`;
}

/** Former secrets of a key that still work, latest expiry first. */
export async function listFormerSecrets(db: Db, keyId: string, nowMs: number): Promise<FormerSecret[]> {
  const rows = await db.sql`
    SELECT digest, last4, works_until_ms FROM former_secret
    WHERE key_id = ${keyId} AND works_until_ms > ${nowMs} ORDER BY works_until_ms DESC`;
  return rows.map((row) => ({
    digest: text(row, "digest"),
    last4: text(row, "last4"),
    worksUntilMs: integer(row, "works_until_ms"),
  }));
}

/** Digests of the former secrets of all keys, including expired ones. */
export async function readFormerDigests(db: Db): Promise<Set<string>> {
  const rows = await db.sql`SELECT digest FROM former_secret`;
  return new Set(rows.map((row) => text(row, "digest")));
}

async function rejectFormerSecret(tx: Db, { name, digest }: KeyRecord): Promise<void> {
  const found = await tx.sql`SELECT digest FROM former_secret WHERE digest = ${digest}`;
  if (found.length === 0) return;
  throw new StoreConflict(
    "duplicate",
    `The secret of the key "${name}" was replaced when a key was rotated. Use a new one.`,
  );
}

async function rejectMissingGroup(tx: Db, groupId: string): Promise<void> {
  const found = await tx.sql`SELECT id FROM key_group WHERE id = ${groupId}`;
  if (found.length === 0) throw new StoreConflict("missing", `The group "${groupId}" does not exist.`);
}

async function rejectMissingUser(tx: Db, userId: string | null): Promise<void> {
  if (userId === null) return;
  const found = await tx.sql`SELECT id FROM app_user WHERE id = ${userId}`;
  if (found.length === 0) throw new StoreConflict("missing", `The user "${userId}" does not exist.`);
}

function toUserKey(row: Row, former: readonly Row[]): KeyOfUser {
  return {
    ...toKey(row),
    userLimits: row.user_limits === null ? NO_LIMITS : callerLimits(row, "user_limits"),
    capture: row.capture_remaining === null ? null : toKeyCapture(row),
    formerSecrets: former.map(toSecretEnd),
  };
}

function toSecretEnd(secret: Row): Pick<FormerSecret, "digest" | "worksUntilMs"> {
  return { digest: text(secret, "digest"), worksUntilMs: integer(secret, "works_until_ms") };
}
