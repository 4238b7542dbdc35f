/**
 * Idempotency of client requests. A client that did not see its response may repeat the request under the same
 * `Idempotency-Key` without executing it twice. It gets the stored response if there is one, otherwise the state of
 * the first request.
 */

import type { Clock } from "../../base/clock.ts";
import { nextTurn } from "../../base/next-turn.ts";
import type { Keyring } from "../../secrets/keyring.ts";
import { SealError, seal, unseal } from "../../secrets/seal.ts";
import type { Db } from "../../store/engine/db.ts";
import {
  claimIdempotency,
  endOrphanedIdempotency,
  endProcessIdempotency,
  finishIdempotency,
  forgetIdempotency,
  type IdempotencyClaim,
  type IdempotencyRow,
  type StoredResult,
  sweepIdempotency,
} from "../../store/money/idempotency.ts";

import { type ClaimEnd, openPendingClaimEnds, type PendingClaimEnds } from "./pending-claim-ends.ts";

export type { IdempotencyClaim, StoredResult } from "../../store/money/idempotency.ts";

export type IdempotencyStart =
  | { kind: "new" }
  | { kind: "running"; requestId: string }
  | { kind: "done"; requestId: string; stored: StoredResult | null }
  | { kind: "other_body"; requestId: string };

export interface IdempotencyOptions {
  db: Db;
  clock: Pick<Clock, "nowMs">;
  keyring: Keyring;
  /** This process. Its row in `process` must exist before the first `begin`. */
  processId: string;
  keptMs: number;
  responseBytesMax: number;
  /** Delay before the first retry after a failed write. Each further delay is twice as long. */
  pauseMs?: number;
}

const PAUSE_MS = 1_000;

/** Between two tries a row can disappear only because its request ended. That does not happen this often. */
const TRIES_MAX = 5;

export class Idempotency {
  readonly #options: IdempotencyOptions;
  readonly #pendingEnds: PendingClaimEnds;

  constructor(options: IdempotencyOptions) {
    this.#options = options;
    this.#pendingEnds = openPendingClaimEnds(
      (claim, end) => this.#write(claim, end),
      options.clock.nowMs,
      options.pauseMs ?? PAUSE_MS,
    );
  }

  /** A longer response is not stored. */
  get responseBytesMax(): number {
    return this.#options.responseBytesMax;
  }

  /** Durable before it resolves. The caller that gets `new` must end the claim with `finish` or `releaseClaim`. */
  async begin(claim: IdempotencyClaim): Promise<IdempotencyStart> {
    const { db, clock, processId, keptMs } = this.#options;
    for (let attempt = 0; attempt < TRIES_MAX; attempt += 1) {
      const nowMs = clock.nowMs();
      const times = { processId, nowMs, keptSinceMs: nowMs - keptMs };
      const existing = await claimIdempotency(db, claim, times).catch((error: unknown) => {
        // The claim may have been written before the connection failed. The caller will not execute the request.
        this.#pendingEnds.add(claim, "forget");
        throw error;
      });
      if (existing === "claimed") return { kind: "new" };
      if (existing !== null) return this.#describeExisting(claim, existing);
    }
    throw new Error("An idempotency key was claimed and released by other requests too many times.");
  }

  /**
   * Stores the response if it is complete and small; pass null for a stream or an incomplete response. Rejects when
   * the database is unavailable, as `releaseClaim` does: the end is then retried, and until it is written the request
   * counts as running.
   */
  async finish(claim: IdempotencyClaim, response: StoredResult | null): Promise<void> {
    const isStored = response !== null && Buffer.byteLength(response.body) <= this.#options.responseBytesMax;
    await this.#endClaim(claim, isStored ? this.#sealResult(claim, response) : null);
  }

  /** The request was rejected before any account worked on it: the client may retry under the same key. */
  releaseClaim(claim: IdempotencyClaim): Promise<void> {
    return this.#endClaim(claim, "forget");
  }

  /** Ends the claims of processes that were removed or are silent. Returns their number. */
  async endOrphanedClaims(silentIds: readonly string[] = []): Promise<number> {
    const { db, processId } = this.#options;
    let ended = await endOrphanedIdempotency(db, processId);
    for (const id of silentIds) ended += await endProcessIdempotency(db, id);
    return ended;
  }

  /** Deletes claims older than the retention. */
  async deleteExpired(): Promise<void> {
    const { db, clock, keptMs } = this.#options;
    const keptSinceMs = clock.nowMs() - keptMs;
    // A minute of many requests expires together.
    while (await sweepIdempotency(db, keptSinceMs)) await nextTurn();
  }

  async #endClaim(claim: IdempotencyClaim, end: ClaimEnd): Promise<void> {
    try {
      await this.#write(claim, end);
    } catch (error) {
      this.#pendingEnds.add(claim, end);
      throw error;
    }
  }

  #write(claim: IdempotencyClaim, end: ClaimEnd): Promise<void> {
    const { db } = this.#options;
    return end === "forget" ? forgetIdempotency(db, claim) : finishIdempotency(db, claim, end);
  }

  #describeExisting(claim: IdempotencyClaim, { requestId, ...row }: IdempotencyRow): IdempotencyStart {
    if (row.fingerprint !== claim.fingerprint) return { kind: "other_body", requestId };
    if (row.state === "running") return { kind: "running", requestId };
    const stored = row.response === null ? null : this.#unsealResult(claim, row.response);
    return { kind: "done", requestId, stored };
  }

  /** Model output is never stored readable, so the response is encrypted too. */
  #sealResult(claim: IdempotencyClaim, response: StoredResult): StoredResult | null {
    try {
      return { ...response, body: seal(this.#options.keyring, buildBinding(claim), response.body) };
    } catch {
      // An unreadable master key must not leave the request running for a day.
      return null;
    }
  }

  #unsealResult(claim: IdempotencyClaim, response: StoredResult): StoredResult | null {
    try {
      return { ...response, body: unseal(this.#options.keyring, buildBinding(claim), response.body) };
    } catch (error) {
      // The master key was changed since. The response is lost, but the request is still not executed twice.
      if (error instanceof SealError) return null;
      throw error;
    }
  }
}

function buildBinding({ scope, token }: IdempotencyClaim): string {
  return `idempotency|${scope}|${token}|body`;
}
