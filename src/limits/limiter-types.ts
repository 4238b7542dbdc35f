/** Types of the limiter: subjects, shortages, leases and the state of limits. */

import type {
  CallerLimits,
  EstimatedUnit,
  MinuteKind,
  RateKind,
  RateLimits,
  Unit,
  WindowUnit,
} from "../records/limits.ts";

export type Scope = "key" | "user" | "group" | "account";

/** Scope and id identify one count. A subject occurs once in an admission, with all of its limits. */
export interface Subject {
  readonly scope: Scope;
  readonly id: string;
  readonly limits: CallerLimits | RateLimits;
}

export type LimitKind = RateKind | "window";

export type Amounts = Readonly<Record<Unit, number>>;
/** What a request may use, besides one request. An omitted unit is not used. */
export type EstimatedUse = Readonly<Partial<Record<EstimatedUnit, number>>>;
/** What a request has used. An omitted unit, or null, keeps its estimate. */
export type TrueUse = Readonly<Partial<Record<EstimatedUnit, number | null>>>;

export interface Shortage {
  scope: Scope;
  /** Of the subject. */
  id: string;
  kind: LimitKind;
  max: number;
  used: number;
  /** Time until it frees. Null for concurrency, which releases free, and for a maximum of zero. */
  freesInMs: number | null;
  perMs: number | null;
  unit: Unit;
  /** Only the reservations of requests in flight cause the shortage: it ends when one of them ends. */
  isReserved?: boolean;
}

/** The reservation of one admitted request. Its single owner ends it with `release` or `cancel`. */
export interface LimitLease {
  /** False if this node has lost contact with the coordinator for so long that others may use the reservation. */
  isHeld(): boolean;
  /**
   * Replaces the estimate with the true use. The last call counts. Counting may take longer than the request, so a
   * call after the release also counts while the windows still contain the estimate.
   */
  settle(use: TrueUse): void;
  /** Returns the concurrency slot. Idempotent. */
  release(): void;
  /** Undoes the admission completely, for a request that was never sent upstream. Idempotent. */
  cancel(): void;
  /** Undoes the admission for some of its subjects: the request continues under the limits of the others. */
  cancelSubjects(subjects: readonly Subject[]): void;
  /** The use is final, and its usage row is with billing. Idempotent. */
  finish(): void;
}

export type Admission =
  | { ok: true; lease: LimitLease }
  | {
      ok: false;
      shortage: Shortage;
      /** This node may borrow what is lacking. */
      mayGrow: boolean;
    };

/** `resetMs`: time until the whole limit is free again, as in `x-ratelimit-reset-*`; 0 if nothing is used. */
export interface Allowance {
  limit: number;
  used: number;
  remaining: number;
  resetMs: number;
}

type LimitWindowStatus = { perMs: number } & Record<WindowUnit, Allowance | null>;

export interface LimitStatus extends Record<MinuteKind, Allowance | null> {
  concurrency: { limit: number; inUse: number } | null;
  windows: LimitWindowStatus[];
}

/** Use of other processes. A roll-up has the time of its newest part. */
export interface PastUse extends Readonly<Partial<Record<Unit, number>>> {
  atAgoMs: number;
}

/** A subject without a free slot. `onRelease` is called after each release of it; null while no request waits. */
export interface ConcurrencyBlocker {
  onRelease: (() => void) | null;
}

export interface Limiter {
  /** One atomic step over all subjects: all or nothing. A rejection consumes nothing. */
  admit(subjects: readonly Subject[], estimate: EstimatedUse): Admission;
  /**
   * Raises what an admitted request has reserved to this estimate; its concurrency slot is unaffected. If a limit
   * would be exceeded, returns the shortage and changes nothing.
   */
  raise(lease: LimitLease, subjects: readonly Subject[], estimate: EstimatedUse): Shortage | null;
  /** The first subject without a free slot; null if there is none. */
  findBlocker(subjects: readonly Subject[]): ConcurrencyBlocker | null;
  /** The shortage that an admission would meet now, without taking anything; null if there is none. */
  checkShortage(subject: Subject, estimate: EstimatedUse): Shortage | null;
  /** The smallest remaining amount of all windows of these subjects, in nano-USD; Infinity if none limits money. */
  computeRemainingNano(subjects: readonly Subject[]): number;
  /** For x-ratelimit-* headers; null if the subject has no such limit. */
  allowance(subject: Subject, kind: MinuteKind): Allowance | null;
  /** For GET /v1/usage. */
  readStatus(subject: Subject): LimitStatus;
  /** For memory monitoring: the number of subjects with any state. */
  subjectCount(): number;
}

/** A limiter whose windows outlive no process. */
export interface SeededLimiter extends Limiter {
  /** Adds use of earlier processes to the long windows of a subject. Once, before the first admission. */
  seed(subject: Subject, used: readonly PastUse[]): void;
}
