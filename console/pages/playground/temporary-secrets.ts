/** The temporary secrets of the page, in memory only. */

import { api } from "../../api.ts";

/** A stream must begin before its secret ends. */
const RENEWED_BEFORE_MS = 60_000;

export class TemporarySecrets {
  readonly #byKey = new Map<string, Promise<{ secret: string; works_until_at: number }>>();

  /** Columns that ask at the same time share one secret. */
  async get(keyId: string): Promise<string> {
    const known = this.#byKey.get(keyId) ?? this.#create(keyId);
    const { secret, works_until_at: untilMs } = await known;
    if (untilMs - Date.now() > RENEWED_BEFORE_MS) return secret;
    const newer = this.#byKey.get(keyId);
    return (await (newer === undefined || newer === known ? this.#create(keyId) : newer)).secret;
  }

  /** After a rejection: it may have ended with another session, or the clock of this computer may be slow. */
  forget(keyId: string): void {
    this.#byKey.delete(keyId);
  }

  #create(keyId: string): Promise<{ secret: string; works_until_at: number }> {
    const created = api("keys.temporary_secret", { params: { id: keyId }, body: {} });
    this.#byKey.set(keyId, created);
    created.catch(() => this.#byKey.delete(keyId));
    return created;
  }
}
