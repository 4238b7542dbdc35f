/** The words of the limiter: who is limited, what was short, what a request holds, how a subject stands. */

import type { CallerLimits, RateLimits } from "../records.ts";

export type Scope = "key" | "user" | "group" | "account";

/** Scope and id name one count: within an admission a subject stands once, with all of its limits. */
export interface Subject {
  readonly scope: Scope;
  readonly id: string;
  readonly limits: CallerLimits | RateLimits;
}

export type LimitKind = "concurrency" | "rpm" | "tpm" | "window";
/** `nano` is money, in nano-USD: whole numbers, exact up to $9 million. */
export type Unit = "requests" | "tokens" | "nano";

export interface Shortage {
  scope: Scope;
  kind: LimitKind;
  max: number;
  used: number;
  /** From now until it frees. Null for concurrency, which a release frees, and for a maximum of zero: never. */
  freesInMs: number | null;
  perMs: number | null;
  unit: Unit;
  /** Only what requests in flight have reserved is missing: it frees when one of them ends. */
  isReserved?: boolean;
}

/** What one admitted request holds. It has one owner, who ends it with `release` or `cancel`. */
export interface LimitLease {
  /**
   * The truth, once known; it replaces the estimate, and null leaves that. The last call counts, and one after the
   * release too, for counting may take longer than the request: as long as the windows still hold what it replaces.
   */
  settle(tokens: number | null, nano: number | null): void;
  /** Gives the concurrency back. Idempotent. */
  release(): void;
  /** Takes everything back as if it had never been admitted (the upstream never got it). Idempotent. */
  cancel(): void;
}

export type Admission = { ok: true; lease: LimitLease } | { ok: false; shortage: Shortage };

/** `resetMs`: until the whole limit is free again, as in `x-ratelimit-reset-*`; 0 when nothing is used. */
export interface Allowance {
  limit: number;
  used: number;
  remaining: number;
  resetMs: number;
}

export interface LimitWindowStanding {
  perMs: number;
  requests: Allowance | null;
  tokens: Allowance | null;
  nano: Allowance | null;
}

export interface LimitStanding {
  requests: Allowance | null;
  tokens: Allowance | null;
  concurrency: { limit: number; inUse: number } | null;
  windows: LimitWindowStanding[];
}

/** What was used before this process started. A roll-up is as old as its newest part. */
export interface PastUse {
  atAgoMs: number;
  requests: number;
  tokens: number;
  nano: number;
}

/** A subject without a free slot. `onRelease` is called after each release there; null while no request waits. */
export interface ConcurrencyBlocker {
  onRelease: (() => void) | null;
}

export interface Limiter {
  /** One atomic step over all subjects: all or nothing; a refusal consumes nothing. */
  admit(subjects: readonly Subject[], tokensEstimate: number, nanoEstimate: number): Admission;
  /**
   * Raises the tokens and money of an admitted request to this estimate; its place in flight stays its own. Returns the
   * shortage, and changes nothing, where a limit would be exceeded.
   */
  raise(
    lease: LimitLease,
    subjects: readonly Subject[],
    tokensEstimate: number,
    nanoEstimate: number,
  ): Shortage | null;
  /** The first of the subjects whose concurrency is used up; null if none is. */
  findBlocker(subjects: readonly Subject[]): ConcurrencyBlocker | null;
  /** What would be short now, without taking anything; null if nothing. */
  shortageOf(subject: Subject, tokensEstimate: number, nanoEstimate: number): Shortage | null;
  /** The least that any window of these subjects has left, in nano-USD; Infinity where none limits money. */
  windowRest(subjects: readonly Subject[]): number;
  /** For x-ratelimit-* headers and GET /v1/usage. */
  standing(subject: Subject): LimitStanding;
  /** Long windows survive restarts: call once a subject, with what the store knows of the time before. */
  seed(subject: Subject, used: readonly PastUse[]): void;
}
