/** Keys by the digest of their secret. Large and often changed, so it is patched per key. */

import type { KeyCapture } from "../records/capture.ts";
import type { KeyFallback } from "../records/fallback.ts";
import type { KeyOfUser } from "../records/key.ts";
import type { CallerLimits } from "../records/limits.ts";
import { importedDigest, isImportedDigest } from "../secrets/api-key.ts";
import { ENDED_TOKEN_KNOWN_MS } from "../store/policy/tool-keys.ts";

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
  /** The name of its own request policy. */
  readonly requestPolicy: string | null;
  /** Whether its requests may take fallback steps; null: yes. */
  readonly fallback: KeyFallback;
  /** Limits of all keys of its user together; none if the key has no user. */
  readonly userLimits: CallerLimits;
  /** Null if nothing was ordered for this key: the mode of its group applies. */
  readonly capture: KeyCapture | null;
  /** Whether it is the key of a signed-in tool: its secrets are access tokens. */
  readonly isTool: boolean;
}

export interface PresentedSecret {
  readonly sha256Hex: string;
  readonly digest: string;
}

export class KeyIndex {
  readonly #byDigest = new Map<string, Key>();
  readonly #digestById = new Map<string, string>();
  readonly #formerByDigest = new Map<string, { key: Key; worksUntilMs: number }>();
  readonly #formerById = new Map<string, readonly string[]>();
  /** Access tokens of tools whose key is revoked, with the time until which they are recognized. */
  readonly #endedByDigest = new Map<string, number>();
  readonly #endedById = new Map<string, readonly string[]>();
  #hasImported = false;

  get size(): number {
    return this.#byDigest.size;
  }

  /** Finds a key by its secret, or by a former secret that is still valid. */
  find(digest: string, nowMs: number): Key | undefined {
    return this.#byDigest.get(digest) ?? this.#findFormer(digest, nowMs);
  }

  /** Whether a secret that finds no key is an access token of a tool that ended less than a day ago. */
  isEndedToken(digest: string, nowMs: number): boolean {
    const former = this.#formerByDigest.get(digest);
    if (former?.key.isTool === true) return nowMs < former.worksUntilMs + ENDED_TOKEN_KNOWN_MS;
    const knownUntilMs = this.#endedByDigest.get(digest);
    return knownUntilMs !== undefined && nowMs < knownUntilMs;
  }

  /**
   * Finds a key that still has the plain SHA-256 of its secret from another gateway. `digest` finds it from then on, so
   * that the hash is computed once.
   */
  findImported(
    { sha256Hex, digest }: PresentedSecret,
    { nowMs, lifeMs }: { nowMs: number; lifeMs: number },
  ): Key | undefined {
    const imported = importedDigest(sha256Hex);
    const key = this.find(imported, nowMs);
    if (key === undefined) return undefined;
    const worksUntilMs = Math.min(
      key.createdAtMs + lifeMs,
      this.#formerByDigest.get(imported)?.worksUntilMs ?? Number.POSITIVE_INFINITY,
    );
    if (nowMs >= worksUntilMs) return undefined;
    this.#formerByDigest.set(digest, { key, worksUntilMs });
    this.#formerById.set(key.id, [...(this.#formerById.get(key.id) ?? []), digest]);
    return key;
  }

  /** Whether a key may have a secret of another gateway that was not used here yet. */
  get hasImported(): boolean {
    return this.#hasImported;
  }

  get(id: string): Key | undefined {
    const digest = this.#digestById.get(id);
    return digest === undefined ? undefined : this.#byDigest.get(digest);
  }

  values(): Iterable<Key> {
    return this.#byDigest.values();
  }

  patch(records: readonly KeyOfUser[]): void {
    for (const record of records) {
      this.#remove(record.id);
      if (record.status !== "active") {
        this.#putEnded(record);
        continue;
      }
      const key = toIndexedKey(record);
      this.#digestById.set(key.id, record.digest);
      this.#byDigest.set(record.digest, key);
      this.#hasImported ||= [record, ...record.formerSecrets].some(({ digest }) => isImportedDigest(digest));
      this.#putFormer(key, [...record.formerSecrets, ...(record.endedTokens ?? [])]);
    }
  }

  /** Removes all other keys. */
  keepOnly(ids: readonly string[]): void {
    const kept = new Set(ids);
    for (const id of [...this.#digestById.keys(), ...this.#endedById.keys()])
      if (!kept.has(id)) this.#remove(id);
  }

  #findFormer(digest: string, nowMs: number): Key | undefined {
    const former = this.#formerByDigest.get(digest);
    return former !== undefined && nowMs < former.worksUntilMs ? former.key : undefined;
  }

  #putFormer(key: Key, secrets: KeyOfUser["formerSecrets"]): void {
    for (const { digest, worksUntilMs } of secrets) this.#formerByDigest.set(digest, { key, worksUntilMs });
    if (secrets.length > 0)
      this.#formerById.set(
        key.id,
        secrets.map(({ digest }) => digest),
      );
  }

  #putEnded({ id, digest, revokedAtMs, expiresAtMs, formerSecrets, endedTokens }: KeyOfUser): void {
    if (endedTokens === undefined) return;
    // The keys of a disabled user have no time of revocation.
    const knownUntilMs = (revokedAtMs ?? expiresAtMs ?? 0) + ENDED_TOKEN_KNOWN_MS;
    const digests = [digest, ...[...formerSecrets, ...endedTokens].map((secret) => secret.digest)];
    for (const one of digests) this.#endedByDigest.set(one, knownUntilMs);
    this.#endedById.set(id, digests);
  }

  /** Removes by id, because a rotated secret leaves its old digest behind. */
  #remove(id: string): void {
    const digest = this.#digestById.get(id);
    if (digest !== undefined) this.#byDigest.delete(digest);
    this.#digestById.delete(id);
    for (const former of this.#formerById.get(id) ?? []) this.#formerByDigest.delete(former);
    this.#formerById.delete(id);
    for (const ended of this.#endedById.get(id) ?? []) this.#endedByDigest.delete(ended);
    this.#endedById.delete(id);
  }
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
    requestPolicy: record.requestPolicy,
    fallback: record.fallback,
    userLimits: record.userLimits,
    capture: record.capture,
    isTool: record.endedTokens !== undefined,
  };
}
