/**
 * A client that did not see its answer may ask again under the same `Idempotency-Key`: no account works twice for
 * it. It gets the first answer where that was kept, and otherwise hears how the first request stands.
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

import { type ClaimEnd, openLateEnds } from "./late-ends.ts";

export type { IdempotencyClaim, StoredAnswer } from "../../store/money/idempotency.ts";

export type IdempotencyStart =
  | { kind: "new" }
  | { kind: "running"; requestId: string }
  | { kind: "done"; requestId: string; stored: StoredAnswer | null }
  | { kind: "other_body"; requestId: string };

export interface Idempotency {
  /** Durable before it resolves. Whoever gets `new` ends it, with `finish` or with `forget`. */
  begin(claim: IdempotencyClaim): Promise<IdempotencyStart>;
  /**
   * The answer is kept if it is a whole one and small; null for a stream, or one that broke off. Rejects when the store
   * cannot be told, as `forget` does: it is told later then, and until that the request counts as under way.
   */
  finish(claim: IdempotencyClaim, answer: StoredAnswer | null): Promise<void>;
  /** Refused before any account worked: the client may try again under the same key. */
  forget(claim: IdempotencyClaim): Promise<void>;
  /** Ends the requests of processes that were found dead and removed. Returns how many there were. */
  recover(): Promise<number>;
  /** Drops what is older than it is kept. */
  sweep(): Promise<void>;
}

export interface IdempotencyOptions {
  db: Db;
  clock: Pick<Clock, "nowMs">;
  keyring: Keyring;
  /** This process: its row in `incarnation` stands before the first `begin`. */
  incarnation: string;
  keptMs: number;
  answerBytesMax: number;
  /** Before a store that was away is told again; then twice as long each time. */
  pauseMs?: number;
}

const PAUSE_MS = 1_000;

/** A row can go between two looks only by ending, and nobody can end one this often. */
const LOOKS_MAX = 5;

export function openIdempotency(options: IdempotencyOptions): Idempotency {
  const { db, clock, keyring, incarnation, keptMs, answerBytesMax } = options;

  const late = openLateEnds(write, clock.nowMs, options.pauseMs ?? PAUSE_MS);

  function write(claim: IdempotencyClaim, end: ClaimEnd): Promise<void> {
    return end === "forget" ? forgetIdempotency(db, claim) : finishIdempotency(db, claim, end);
  }

  async function ended(claim: IdempotencyClaim, end: ClaimEnd): Promise<void> {
    try {
      await write(claim, end);
    } catch (error) {
      late.add(claim, end);
      throw error;
    }
  }

  async function begin(claim: IdempotencyClaim): Promise<IdempotencyStart> {
    for (let look = 0; look < LOOKS_MAX; look += 1) {
      const nowMs = clock.nowMs();
      const found = await claimIdempotency(db, claim, { incarnation, nowMs, keptSinceMs: nowMs - keptMs });
      if (found === "claimed") return { kind: "new" };
      if (found !== null) return begunBefore(claim, found);
    }
    throw new Error("An idempotency key was begun and forgotten by others again and again.");
  }

  function begunBefore(claim: IdempotencyClaim, { requestId, ...row }: IdempotencyRow): IdempotencyStart {
    if (row.fingerprint !== claim.fingerprint) return { kind: "other_body", requestId };
    if (row.state === "running") return { kind: "running", requestId };
    return { kind: "done", requestId, stored: row.answer === null ? null : opened(claim, row.answer) };
  }

  /** Nothing that models say lies readable in the store otherwise, so neither does this. */
  function sealed(claim: IdempotencyClaim, answer: StoredAnswer): StoredAnswer | null {
    try {
      return { ...answer, body: seal(keyring, bindingOf(claim), answer.body) };
    } catch {
      // A master key that cannot be read must not leave the request under way for a day.
      return null;
    }
  }

  function opened(claim: IdempotencyClaim, answer: StoredAnswer): StoredAnswer | null {
    try {
      return { ...answer, body: unseal(keyring, bindingOf(claim), answer.body) };
    } catch (error) {
      // The master key was changed within the day: the answer is gone, the promise not to ask twice stays.
      if (error instanceof SealError) return null;
      throw error;
    }
  }

  return {
    begin,
    async finish(claim, answer) {
      const kept = answer !== null && Buffer.byteLength(answer.body) <= answerBytesMax;
      await ended(claim, kept ? sealed(claim, answer) : null);
    },
    forget: (claim) => ended(claim, "forget"),
    recover: () => endOrphanedIdempotency(db, incarnation),
    async sweep() {
      const keptSinceMs = clock.nowMs() - keptMs;
      while (await sweepIdempotency(db, keptSinceMs));
    },
  };
}

function bindingOf({ scope, token }: IdempotencyClaim): string {
  return `idempotency|${scope}|${token}|body`;
}
