/**
 * Keys that are suspended because their owner lost a group, or all access, at a provider. They are stored as revoked, so
 * that every node rejects them, and are restored when the group or the person returns.
 */

import { type Db, transaction } from "../engine/db.ts";
import { bumpKeyRevision } from "../engine/revisions.ts";
import { integer, text, textOrNull } from "../engine/row.ts";
import { selectIn } from "../engine/select-in.ts";

/** Which keys of a person are suspended: those of lost groups, or all. */
type SuspensionReason = { readonly groups: readonly string[] } | "person";

/** Suspends active keys. Returns their names. */
export async function suspendKeys(
  db: Db,
  userId: string,
  reason: SuspensionReason,
  atMs: number,
): Promise<string[]> {
  return transaction(db, async (tx) => {
    // First, to take the lock: a key that is being created must not be missed.
    const revision = await bumpKeyRevision(tx);
    const active = await tx.sql`
      SELECT id, name, group_id FROM api_key WHERE user_id = ${userId} AND status = 'active'`;
    const lost = reason === "person" ? null : new Set(reason.groups);
    const keys = active.filter((row) => lost === null || lost.has(text(row, "group_id")));
    for (const row of keys) {
      const id = text(row, "id");
      await tx.sql`
        UPDATE api_key SET status = 'revoked', revoked_at_ms = ${atMs}, revision = ${revision} WHERE id = ${id}`;
      await tx.sql`
        INSERT INTO suspended_key (key_id, user_id, group_id, suspended_at_ms)
        VALUES (${id}, ${userId}, ${lost === null ? null : text(row, "group_id")}, ${atMs})
        ON CONFLICT (key_id) DO UPDATE SET group_id = excluded.group_id`;
    }
    return keys.map((row) => text(row, "name"));
  });
}

/**
 * Restores the keys of a person who has access again, except those of groups that the person has lost. Returns their
 * names. A key whose name another key has taken meanwhile gets a suffix.
 */
export async function restoreKeys(db: Db, userId: string, memberOf: readonly string[]): Promise<string[]> {
  return transaction(db, async (tx) => {
    const suspended = await tx.sql`
      SELECT key_id, name, suspended_key.group_id AS lost_group_id
      FROM suspended_key JOIN api_key ON api_key.id = key_id
      WHERE suspended_key.user_id = ${userId} AND status = 'revoked'`;
    const members = new Set(memberOf);
    const returning = suspended.filter(
      (row) => row.lost_group_id === null || members.has(text(row, "lost_group_id")),
    );
    if (returning.length === 0) return [];
    const revision = await bumpKeyRevision(tx);
    const names = await readActiveNames(tx, userId);
    for (const row of returning) {
      const id = text(row, "key_id");
      const name = unusedName(text(row, "name"), id, names);
      names.add(name);
      await tx.sql`
        UPDATE api_key SET status = 'active', revoked_at_ms = NULL, name = ${name}, revision = ${revision}
        WHERE id = ${id}`;
      await tx.sql`DELETE FROM suspended_key WHERE key_id = ${id}`;
    }
    return returning.map((row) => text(row, "name"));
  });
}

async function readActiveNames(tx: Db, userId: string): Promise<Set<string>> {
  const rows = await tx.sql`SELECT name FROM api_key WHERE user_id = ${userId} AND status = 'active'`;
  return new Set(rows.map((row) => text(row, "name")));
}

const NAME_CHARS_MAX = 64;

function unusedName(name: string, id: string, taken: ReadonlySet<string>): string {
  if (!taken.has(name)) return name;
  const suffix = ` ${id}`;
  return name.slice(0, NAME_CHARS_MAX - suffix.length) + suffix;
}

/** A suspended key that is revoked is never restored. Returns whether it was suspended. */
export async function endSuspension(tx: Db, keyId: string): Promise<boolean> {
  const rows = await tx.sql`DELETE FROM suspended_key WHERE key_id = ${keyId} RETURNING key_id`;
  return rows.length > 0;
}

export async function endSuspensions(tx: Db, userId: string): Promise<void> {
  await tx.sql`DELETE FROM suspended_key WHERE user_id = ${userId}`;
}

/** Why and since when a key is suspended. */
export interface KeySuspension {
  /** The group that its owner lost; null: the owner lost all access. */
  groupId: string | null;
  sinceMs: number;
}

/** By key id: the keys among `keyIds` that are suspended. */
export async function readSuspensions(
  db: Db,
  keyIds: readonly string[],
): Promise<ReadonlyMap<string, KeySuspension>> {
  const rows = await selectIn(
    db,
    "SELECT key_id, group_id, suspended_at_ms FROM suspended_key WHERE key_id",
    keyIds,
  );
  return new Map(
    rows.map((row) => [
      text(row, "key_id"),
      { groupId: textOrNull(row, "group_id"), sinceMs: integer(row, "suspended_at_ms") },
    ]),
  );
}

export async function readSuspendedKeys(db: Db): Promise<ReadonlySet<string>> {
  const rows = await db.sql`SELECT key_id FROM suspended_key`;
  return new Set(rows.map((row) => text(row, "key_id")));
}
