/** The temporary secrets of the page, in memory only. */

import { api } from "../../api.ts";

/** A stream must begin before its secret ends. */
const RENEWED_BEFORE_MS = 60_000;

export class TemporarySecrets {
  readonly #byKey = new Map<string, Promise<{ secret: string; works_until_at: number }>>();

  /** Columns that ask at the same time share one secret. */
  async get(keyId: string): Promise<string> {
    const { secret, works_until_at: untilMs } = await (this.#byKey.get(keyId) ?? this.#create(keyId));
    return untilMs - Date.now() > RENEWED_BEFORE_MS ? secret : (await this.#create(keyId)).secret;
  }

  #create(keyId: string): Promise<{ secret: string; works_until_at: number }> {
    const created = api("keys.temporary_secret", { params: { id: keyId }, body: {} });
    this.#byKey.set(keyId, created);
    created.catch(() => this.#byKey.delete(keyId));
    return created;
  }
}
