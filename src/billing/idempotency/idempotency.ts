/**
 * Idempotency of client requests. A client that did not see its response may repeat the request under the same
 * `Idempotency-Key` without executing it twice. It gets the stored response if there is one, otherwise the state of
 * the first request.
 */

import type { Clock } from "../../net/wire/clock.ts";
import type { Keyring } from "../../secrets/keyring.ts";
import { SealError, seal, unseal } from "../../secrets/seal.ts";
import type { Db } from "../../store/engine/db.ts";
import {
  claimIdempotency,
  endOrphanedIdempotency,
  finishIdempotency,
  forgetIdempotency,
  type IdempotencyClaim,
  type IdempotencyRow,
  type StoredAnswer,
  sweepIdempotency,
} from "../../store/money/idempotency.ts";

import { type ClaimEnd, openPendingClaimEnds } from "./late-ends.ts";

export type { IdempotencyClaim, StoredAnswer } from "../../store/money/idempotency.ts";

export type IdempotencyStart =
  | { kind: "new" }
  | { kind: "running"; requestId: string }
  | { kind: "done"; requestId: string; stored: StoredAnswer | null }
  | { kind: "other_body"; requestId: string };

export interface Idempotency {
  /** Durable before it resolves. The caller that gets `new` must end the claim with `finish` or `forget`. */
  begin(claim: IdempotencyClaim): Promise<IdempotencyStart>;
  /**
   * Stores the response if it is complete and small; pass null for a stream or an incomplete response. Rejects when
   * the database is unavailable, as `forget` does: the end is then retried, and until it is written the request
   * counts as running.
   */
  finish(claim: IdempotencyClaim, answer: StoredAnswer | null): Promise<void>;
  /** The request was refused before any account worked on it: the client may retry under the same key. */
  forget(claim: IdempotencyClaim): Promise<void>;
  /** Ends the claims of dead processes that were removed. Returns their number. */
  recover(): Promise<number>;
  /** Deletes claims older than the retention. */
  sweep(): Promise<void>;
}

export interface IdempotencyOptions {
  db: Db;
  clock: Pick<Clock, "nowMs">;
  keyring: Keyring;
  /** This process. Its row in `incarnation` must exist before the first `begin`. */
  incarnation: string;
  keptMs: number;
  answerBytesMax: number;
  /** Delay before the first retry after a failed write. Each further delay is twice as long. */
  pauseMs?: number;
}

const PAUSE_MS = 1_000;

/** Between two tries a row can disappear only because its request ended. That does not happen this often. */
const TRIES_MAX = 5;

export function openIdempotency(options: IdempotencyOptions): Idempotency {
  const { db, clock, keyring, incarnation, keptMs, answerBytesMax } = options;

  const late = openPendingClaimEnds(write, clock.nowMs, options.pauseMs ?? PAUSE_MS);

  function write(claim: IdempotencyClaim, end: ClaimEnd): Promise<void> {
    return end === "forget" ? forgetIdempotency(db, claim) : finishIdempotency(db, claim, end);
  }

  async function endClaim(claim: IdempotencyClaim, end: ClaimEnd): Promise<void> {
    try {
      await write(claim, end);
    } catch (error) {
      late.add(claim, end);
      throw error;
    }
  }

  async function begin(claim: IdempotencyClaim): Promise<IdempotencyStart> {
    for (let attempt = 0; attempt < TRIES_MAX; attempt += 1) {
      const nowMs = clock.nowMs();
      const existing = await claimIdempotency(db, claim, { incarnation, nowMs, keptSinceMs: nowMs - keptMs });
      if (existing === "claimed") return { kind: "new" };
      if (existing !== null) return describeExisting(claim, existing);
    }
    throw new Error("An idempotency key was begun and forgotten by others again and again.");
  }

  function describeExisting(
    claim: IdempotencyClaim,
    { requestId, ...row }: IdempotencyRow,
  ): IdempotencyStart {
    if (row.fingerprint !== claim.fingerprint) return { kind: "other_body", requestId };
    if (row.state === "running") return { kind: "running", requestId };
    return { kind: "done", requestId, stored: row.answer === null ? null : unsealAnswer(claim, row.answer) };
  }

  /** Model output is never stored readable, so the response is encrypted too. */
  function sealAnswer(claim: IdempotencyClaim, answer: StoredAnswer): StoredAnswer | null {
    try {
      return { ...answer, body: seal(keyring, buildBinding(claim), answer.body) };
    } catch {
      // An unreadable master key must not leave the request running for a day.
      return null;
    }
  }

  function unsealAnswer(claim: IdempotencyClaim, answer: StoredAnswer): StoredAnswer | null {
    try {
      return { ...answer, body: unseal(keyring, buildBinding(claim), answer.body) };
    } catch (error) {
      // The master key was changed since. The response is lost, but the request is still not executed twice.
      if (error instanceof SealError) return null;
      throw error;
    }
  }

  return {
    begin,
    async finish(claim, answer) {
      const isStored = answer !== null && Buffer.byteLength(answer.body) <= answerBytesMax;
      await endClaim(claim, isStored ? sealAnswer(claim, answer) : null);
    },
    forget: (claim) => endClaim(claim, "forget"),
    recover: () => endOrphanedIdempotency(db, incarnation),
    async sweep() {
      const keptSinceMs = clock.nowMs() - keptMs;
      while (await sweepIdempotency(db, keptSinceMs));
    },
  };
}

function buildBinding({ scope, token }: IdempotencyClaim): string {
  return `idempotency|${scope}|${token}|body`;
}
