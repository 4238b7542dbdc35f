/** Limits of the product for one key, in addition to those that an operator sets. They are kept in memory. */

import type { MaybePromise } from "../../base/maybe-promise.ts";
import { ApiError } from "../../errors.ts";

interface KeySlotLimits {
  /** What one key may have in progress. */
  readonly inProgressMax: number;
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

interface KeyRateLimits {
  /** Calls of one key at once, after a pause. */
  readonly burst: number;
  /** Calls of one key that are added each second. */
  readonly perSecond: number;
}

interface KeyBucket {
  calls: number;
  atMs: number;
}

/**
 * Bounds how often a key calls endpoints that no operator limits, such as its models and its usage. Each key has at most
 * one entry, so the number of keys bounds the memory.
 */
export class KeyRate {
  readonly #limits: KeyRateLimits;
  readonly #monotonicMs: () => number;
  readonly #keys = new Map<string, KeyBucket>();

  constructor(limits: KeyRateLimits, monotonicMs: () => number) {
    this.#limits = limits;
    this.#monotonicMs = monotonicMs;
  }

  /** Throws if the key has called too often. */
  take(keyId: string): void {
    const { burst, perSecond } = this.#limits;
    const nowMs = this.#monotonicMs();
    const bucket = this.#keys.get(keyId) ?? { calls: burst, atMs: nowMs };
    bucket.calls = Math.min(burst, bucket.calls + ((nowMs - bucket.atMs) * perSecond) / 1_000);
    bucket.atMs = nowMs;
    this.#keys.set(keyId, bucket);
    if (bucket.calls < 1) throw tooManyCallsError();
    bucket.calls--;
  }
}

function tooManyCallsError(): ApiError {
  return new ApiError(
    "rate_limit_exceeded",
    "This API key calls the endpoints for models, usage, requests and stored responses too often. Please try again in 1s.",
    { headers: { "retry-after": "1" } },
  );
}
