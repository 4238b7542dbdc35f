/** Digest → key, in memory. Large and often touched, so it is patched per key instead of being rebuilt. */

import type { CallerLimits, KeyOfUser } from "../records.ts";

export interface Key {
  readonly id: string;
  readonly name: string;
  readonly publicId: string;
  readonly userId: string | null;
  readonly groupId: string;
  readonly expiresAtMs: number | null;
  readonly createdAtMs: number;
  /** This key's own, beside what its group says for each key. */
  readonly limits: CallerLimits;
  /** For all keys of its user together; none when it has no user. */
  readonly userLimits: CallerLimits;
}

export interface KeyIndex {
  find(digest: string): Key | undefined;
  get(id: string): Key | undefined;
  patch(records: readonly KeyOfUser[]): void;
  readonly size: number;
}

export function createKeyIndex(): KeyIndex {
  const byDigest = new Map<string, Key>();
  const digestById = new Map<string, string>();
  return {
    find: (digest) => byDigest.get(digest),
    get(id) {
      const digest = digestById.get(id);
      return digest === undefined ? undefined : byDigest.get(digest);
    },
    get size() {
      return byDigest.size;
    },
    patch(records) {
      for (const record of records) {
        // A replaced secret leaves its old digest behind: the row's id is what stays.
        const known = digestById.get(record.id);
        if (known !== undefined) byDigest.delete(known);
        if (record.status !== "active") {
          digestById.delete(record.id);
          continue;
        }
        digestById.set(record.id, record.digest);
        byDigest.set(record.digest, {
          id: record.id,
          name: record.name,
          publicId: record.publicId,
          userId: record.userId,
          groupId: record.groupId,
          expiresAtMs: record.expiresAtMs,
          createdAtMs: record.createdAtMs,
          limits: record.limits,
          userLimits: record.userLimits,
        });
      }
    },
  };
}
