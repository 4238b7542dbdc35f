/** Limits of the product for one key, in addition to those that an operator sets. They are kept in memory. */

import type { MaybePromise } from "../../net/wire/maybe-promise.ts";

export interface KeySlotLimits {
  /** What one key may have in progress. */
  readonly inProgressMax: number;
  /** What waits for it. */
  readonly waitingMax: number;
}

interface KeyUse {
  inProgress: number;
  readonly waiting: (() => void)[];
}

/** Bounds how much of one kind of work a key has in progress. Further work waits, oldest first. */
export class KeySlots {
  readonly #limits: KeySlotLimits;
  readonly #keys = new Map<string, KeyUse>();

  constructor(limits: KeySlotLimits) {
    this.#limits = limits;
  }

  /** Resolves when the key has a free slot. Returns null if too much work waits for one. */
  take(keyId: string): MaybePromise<void> | null {
    const use = this.#keys.get(keyId) ?? { inProgress: 0, waiting: [] };
    this.#keys.set(keyId, use);
    if (use.inProgress < this.#limits.inProgressMax) {
      use.inProgress++;
      return;
    }
    if (use.waiting.length >= this.#limits.waitingMax) return null;
    return new Promise((resolve) => use.waiting.push(resolve));
  }

  /** The slot passes to the oldest work that waits. */
  free(keyId: string): void {
    const use = this.#keys.get(keyId);
    if (use === undefined) return;
    const next = use.waiting.shift();
    if (next !== undefined) next();
    else if (--use.inProgress === 0) this.#keys.delete(keyId);
  }
}
