/**
 * In-memory index of keys by the digest of their secret. It is large and changes often, so it is patched per key and
 * not rebuilt.
 */

import type { KeyCapture } from "../capture-records.ts";
import type { CallerLimits, KeyOfUser } from "../records.ts";

export interface Key {
  readonly id: string;
  readonly name: string;
  readonly publicId: string;
  readonly userId: string | null;
  readonly groupId: string;
  readonly expiresAtMs: number | null;
  readonly createdAtMs: number;
  /** Limits of this key, in addition to the per-key limits of its group. */
  readonly limits: CallerLimits;
  /** Limits of all keys of its user together; none if the key has no user. */
  readonly userLimits: CallerLimits;
  /** Null if nothing was ordered for this key: the mode of its group applies. */
  readonly capture: KeyCapture | null;
}

export interface KeyIndex {
  /** Finds a key by its secret, or by a former secret that is still valid. */
  find(digest: string, nowMs: number): Key | undefined;
  get(id: string): Key | undefined;
  patch(records: readonly KeyOfUser[]): void;
  readonly size: number;
}

export function createKeyIndex(): KeyIndex {
  const byDigest = new Map<string, Key>();
  const digestById = new Map<string, string>();
  const formerByDigest = new Map<string, { key: Key; worksUntilMs: number }>();
  const formerById = new Map<string, readonly string[]>();

  function findFormer(digest: string, nowMs: number): Key | undefined {
    const former = formerByDigest.get(digest);
    return former !== undefined && nowMs < former.worksUntilMs ? former.key : undefined;
  }

  function putFormer(key: Key, secrets: KeyOfUser["formerSecrets"]): void {
    for (const { digest, worksUntilMs } of secrets) formerByDigest.set(digest, { key, worksUntilMs });
    if (secrets.length > 0)
      formerById.set(
        key.id,
        secrets.map(({ digest }) => digest),
      );
  }

  /** Removes by id, because a rotated secret leaves its old digest behind. */
  function remove(id: string): void {
    const digest = digestById.get(id);
    if (digest !== undefined) byDigest.delete(digest);
    digestById.delete(id);
    for (const former of formerById.get(id) ?? []) formerByDigest.delete(former);
    formerById.delete(id);
  }

  return {
    find: (digest, nowMs) => byDigest.get(digest) ?? findFormer(digest, nowMs),
    get(id) {
      const digest = digestById.get(id);
      return digest === undefined ? undefined : byDigest.get(digest);
    },
    get size() {
      return byDigest.size;
    },
    patch(records) {
      for (const record of records) {
        remove(record.id);
        if (record.status !== "active") continue;
        const key = toIndexedKey(record);
        digestById.set(key.id, record.digest);
        byDigest.set(record.digest, key);
        putFormer(key, record.formerSecrets);
      }
    },
  };
}

/** Copies only these fields: the record has the digests of its secrets. */
function toIndexedKey(record: KeyOfUser): Key {
  return {
    id: record.id,
    name: record.name,
    publicId: record.publicId,
    userId: record.userId,
    groupId: record.groupId,
    expiresAtMs: record.expiresAtMs,
    createdAtMs: record.createdAtMs,
    limits: record.limits,
    userLimits: record.userLimits,
    capture: record.capture,
  };
}
