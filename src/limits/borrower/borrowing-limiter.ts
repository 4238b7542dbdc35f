/**
 * The limits of several nodes: admits from what this node has borrowed of each meter, in memory and in one step. What is
 * lacking is borrowed by `limit-borrower.ts`.
 */

import { MINUTE_MS } from "../../base/time.ts";
import type { MinuteKind } from "../../records/limits.ts";
import { toAmounts } from "../amounts.ts";
import { FREE_LEASE } from "../lease.ts";
import { type AllowanceReader, describeAllowance, readLimitStatus, readMinute } from "../limit-status.ts";
import type {
  Admission,
  Allowance,
  Amounts,
  ConcurrencyBlocker,
  EstimatedUse,
  Limiter,
  LimitLease,
  LimitStatus,
  Shortage,
  Subject,
} from "../limiter-types.ts";
import type { SubjectRegistry } from "../subject-registry.ts";
import { isClosed, laterShortage } from "../subject-state.ts";
import { type BookingQueue, BorrowedLease, type BorrowedShare } from "./borrowed-lease.ts";
import type { BorrowedSubject, RecordHolding } from "./borrowed-record.ts";

const UNLIMITED: Admission = { ok: true, lease: FREE_LEASE };

interface BorrowingLimiterOptions {
  readonly subjects: SubjectRegistry<BorrowedSubject>;
  readonly bookings: BookingQueue;
  monotonicMs(): number;
}

export class BorrowingLimiter implements Limiter {
  readonly #subjects: SubjectRegistry<BorrowedSubject>;
  readonly #bookings: BookingQueue;
  readonly #nowMs: () => number;

  constructor({ subjects, bookings, monotonicMs }: BorrowingLimiterOptions) {
    this.#subjects = subjects;
    this.#bookings = bookings;
    this.#nowMs = monotonicMs;
  }

  admit(subjects: readonly Subject[], estimate: EstimatedUse): Admission {
    const nowMs = this.#nowMs();
    this.#subjects.dropIdle(nowMs);
    const limited = this.#subjects.findLimited(subjects);
    if (limited.length === 0) return UNLIMITED;
    const amounts = toAmounts(1, estimate);
    let shortage: Shortage | null = null;
    let mayGrow = true;
    for (const state of limited)
      for (const { holdings } of state.records)
        for (const holding of holdings) {
          const amount = holding.computeNeed(amounts);
          if (fits(holding, amount, nowMs)) continue;
          shortage = laterShortage(shortage, describeShortage(holding, amount, nowMs));
          if (!mayBorrow(holding, nowMs)) mayGrow = false;
        }
    if (shortage !== null) return { ok: false, shortage: withRetry(shortage), mayGrow };
    return { ok: true, lease: this.#take(limited, amounts, nowMs) };
  }

  #take(subjects: readonly BorrowedSubject[], amounts: Amounts, nowMs: number): LimitLease {
    const slots: RecordHolding[] = [];
    const shares: BorrowedShare[] = [];
    for (const { records } of subjects)
      for (const { holdings } of records)
        for (const holding of holdings) {
          const amount = holding.computeNeed(amounts);
          const batch = amount === 0 ? null : holding.take(amount, nowMs);
          if (holding.kind !== "slots")
            shares.push({ holding, unit: holding.unit, amount, atMs: nowMs, batch });
          else if (amount > 0) slots.push(holding);
        }
    return new BorrowedLease({ subjects, slots, shares, bookings: this.#bookings, nowMs: this.#nowMs });
  }

  raise(lease: LimitLease, subjects: readonly Subject[], estimate: EstimatedUse): Shortage | null {
    const nowMs = this.#nowMs();
    const amounts = { ...toAmounts(0, estimate) };
    if (!(lease instanceof BorrowedLease)) return null;
    const extra = lease.computeExtra(amounts);
    let shortage: Shortage | null = null;
    for (const subject of subjects) {
      for (const { holdings } of this.#subjects.find(subject)?.records ?? []) {
        for (const holding of holdings) {
          if (holding.kind === "slots") continue;
          const amount = holding.computeNeed(extra);
          if (!fits(holding, amount, nowMs))
            shortage = laterShortage(shortage, describeShortage(holding, amount, nowMs));
        }
      }
    }
    if (shortage === null) lease.settle(amounts);
    return shortage === null ? null : withRetry(shortage);
  }

  findBlocker(subjects: readonly Subject[]): ConcurrencyBlocker | null {
    const nowMs = this.#nowMs();
    for (const subject of subjects) {
      const state = this.#subjects.find(subject);
      if (state?.slots && state.slots.max > 0 && !fits(state.slots, 1, nowMs)) return state;
    }
    return null;
  }

  checkShortage(subject: Subject, estimate: EstimatedUse): Shortage | null {
    const state = this.#subjects.find(subject);
    if (state === null && !isClosed(subject.limits)) return null;
    const amounts = toAmounts(1, estimate);
    const nowMs = this.#nowMs();
    let shortage: Shortage | null = null;
    for (const { holdings } of (state ?? this.#subjects.findOrOpen(subject))?.records ?? []) {
      for (const holding of holdings) {
        const amount = holding.computeNeed(amounts);
        const { known, idle } = holding;
        const mayFit = holding.max > 0 && (known === null || idle + known.free >= amount);
        if (!mayFit && !fits(holding, amount, nowMs))
          shortage = laterShortage(shortage, describeShortage(holding, amount, nowMs));
      }
    }
    return shortage === null ? null : withRetry(shortage);
  }

  computeRemainingNano(subjects: readonly Subject[]): number {
    let remaining = Number.POSITIVE_INFINITY;
    for (const subject of subjects)
      for (const { holdings } of this.#subjects.findOrOpen(subject)?.records ?? [])
        for (const { unit, idle, max } of holdings)
          if (unit === "nano" && max !== Number.POSITIVE_INFINITY)
            remaining = Math.min(remaining, Math.max(0, idle));
    return remaining;
  }

  allowance(subject: Subject, kind: MinuteKind): Allowance | null {
    return readMinute(subject, kind, this.#readAllowance(subject));
  }

  readStatus(subject: Subject): LimitStatus {
    const slots = this.#subjects.find(subject)?.slots ?? null;
    return readLimitStatus(subject, this.#readAllowance(subject), (limit) => countSlots(slots, limit));
  }

  /** By the last reply of the coordinator, and the own use since. */
  #readAllowance(subject: Subject): AllowanceReader {
    const records = this.#subjects.find(subject)?.records ?? [];
    return ({ kind, unit, perMs, limit }) => {
      const record = records.find((one) => one.perMs === (kind === "window" ? perMs : null));
      const holding = record?.holdings.find((one) => one.unit === unit && one.kind !== "slots");
      if (holding === undefined) return describeAllowance(limit, 0, 0);
      const { known, unreported, inUse, lastUseMs } = holding;
      const used = Math.max(0, (known?.used ?? 0) + unreported + inUse);
      const ownMs = Math.max(0, lastUseMs + perMs - this.#nowMs());
      return describeAllowance(limit, used, used === 0 ? 0 : Math.max(ownMs, known?.resetMs ?? 0));
    };
  }

  subjectCount(): number {
    return this.#subjects.size;
  }
}

/** Requests in flight of all nodes, as far as it is known. */
function countSlots(slots: RecordHolding | null, limit: number): number {
  if (slots === null) return 0;
  if (slots.known === null) return slots.inUse;
  return Math.max(slots.inUse, Math.min(limit, limit - slots.known.free - Math.max(0, slots.idle)));
}

function fits(holding: RecordHolding, amount: number, nowMs: number): boolean {
  const { max, idle } = holding;
  if (max <= 0) return false;
  if (amount === 0) return true;
  const { link } = holding.record;
  if (link.loss !== null)
    return fitsShare(holding, amount, nowMs, Math.max(1, Math.floor(max / link.loss.nodes)));
  return idle >= amount && link.isValid(nowMs);
}

/** No node reaches the coordinator: each serves its share of the limit, less its own use of the last minute. */
function fitsShare(holding: RecordHolding, amount: number, nowMs: number, share: number): boolean {
  switch (holding.kind) {
    case "slots":
      return holding.inUse + amount <= share;
    case "minute":
      return holding.countOwnUse(nowMs) + Math.min(amount, share) <= share;
    case "window":
      return holding.idle >= amount;
  }
}

function mayBorrow(holding: RecordHolding, nowMs: number): boolean {
  const { max, exhaustedUntilMs, hasLossPart } = holding;
  if (max <= 0) return false;
  if (holding.record.link.loss !== null) return !hasLossPart;
  return exhaustedUntilMs <= nowMs;
}

function describeShortage(holding: RecordHolding, amount: number, nowMs: number): Shortage {
  const { kind, unit, max, known, unreported, inUse, ended } = holding;
  const { subject, perMs } = holding.record;
  const { scope, id } = subject;
  if (kind === "slots")
    return {
      scope,
      id,
      kind: "concurrency",
      max,
      used: countSlots(holding, max),
      freesInMs: null,
      perMs: null,
      unit,
    };
  const booked = (known?.used ?? 0) + unreported + ended;
  // Requests in flight have reserved the rest, on any node.
  const isReserved = unit === "nano" && max > 0 && booked + amount <= max;
  const isExhausted = holding.exhaustedUntilMs > nowMs || holding.record.link.loss !== null;
  const shortage: Shortage = {
    scope,
    id,
    kind: kind === "window" ? "window" : unit === "tokens" ? "tpm" : "rpm",
    max,
    used: Math.min(max, booked + inUse - ended),
    freesInMs: max <= 0 ? null : isExhausted ? computeFreesIn(holding, isReserved, nowMs) : UNKNOWN_MS,
    perMs: perMs ?? MINUTE_MS,
    unit,
  };
  if (isReserved) shortage.isReserved = true;
  return shortage;
}

/** The coordinator does not know the use of requests that have just ended: it leaves after the whole window. */
function computeFreesIn({ freesAtMs, record }: RecordHolding, isReserved: boolean, nowMs: number): number {
  if (freesAtMs !== null) return Math.max(1, freesAtMs - nowMs);
  return isReserved ? RETRY_MS : (record.perMs ?? MINUTE_MS);
}

/** If only a return helps, and it is not known when. */
const RETRY_MS = 1_000;
/** Not asked for yet: less than the wait for a slot, which has to be shown. */
const UNKNOWN_MS = -1;

function withRetry(shortage: Shortage): Shortage {
  return shortage.freesInMs === UNKNOWN_MS ? { ...shortage, freesInMs: RETRY_MS } : shortage;
}
