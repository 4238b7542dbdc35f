/**
 * What this node has borrowed of one meter, and what it has done with it since its last report. The rules of when to
 * refill and when to return are here as well.
 */

import { MINUTE_MS } from "../../base/time.ts";
import type { Unit } from "../../records/limits.ts";
import type { MeterHolding, MeterNo, MeterReport, MeterState } from "../coordinator/protocol.ts";
import type { Amounts } from "../limiter-types.ts";
import { advance, listUses, openWindow, type SlidingWindow, subtract, take } from "../sliding-window.ts";

/** Slots are lent while in use. Minutes are booked at admission, windows when the usage row is stored. */
export type HoldingKind = "slots" | "minute" | "window";

const SECOND_MS = 1_000;
/** How much of the last tick is in the mean use of a second. */
const RATE_WEIGHT = 0.3;
const PEAK_DECAY = 0.9;
/** A peak below this is one request at a time: nothing is kept for a second one. */
const PEAK_MIN = 1.5;
/**
 * Of the use of a second. A refill goes with the report of that use, so it costs no call; a request that lacks something
 * does. Slots are refilled below half, because what exceeds the peak is returned soon.
 */
const REFILL_BELOW = 0.75;
/** Buckets of a second that may still count, and some for the delay of calls. */
const REFUND_BUCKETS = 65;

/** Use that was reported in one call. A refund names the bucket that the reply had. */
export interface UseBatch {
  status: "open" | "sent" | "booked" | "void";
  bucketNo: number;
  /** Refunded while the call was in flight. */
  refund: number;
}

/** The record that a holding belongs to. */
interface HoldingOwner {
  noteChange(): void;
  noteUrgent(): void;
}

export class Holding<Owner extends HoldingOwner = HoldingOwner> {
  readonly record: Owner;
  readonly meter: MeterNo;
  readonly kind: HoldingKind;
  readonly unit: Unit;
  max: number;
  /** Borrowed and free. Negative: more was used than borrowed. */
  idle = 0;
  /** Slots of requests in flight; the part of a window that is reserved, or used and not stored yet. */
  inUse = 0;
  /** The part of `inUse` of requests that have ended, whose usage rows are not stored yet. */
  ended = 0;
  /** Requests of this node that wait for it. */
  waiting = 0;
  /** The last report of the coordinator; null before the first. */
  known: MeterState | null = null;
  /** Others wait for it until then: nothing idle is kept. */
  contendedUntilMs = 0;
  /** The coordinator has nothing to lend until then. */
  exhaustedUntilMs = 0;
  freesAtMs: number | null = null;
  /** Nothing was left for later requests. */
  refillAfterMs = 0;
  lastUseMs = Number.NEGATIVE_INFINITY;
  /** Own use of the last minute, for the time without a coordinator, and for one that has lost its state. */
  readonly own: SlidingWindow | null;
  /** The part of a window for the time without a coordinator; null until it is needed after a report. */
  #lossPart: number | null = null;
  /** Whether it is in `idle`. */
  #isLossPartIdle = false;
  #knownAtMs = Number.NEGATIVE_INFINITY;
  #used = 0;
  #returned = 0;
  #confirms = 0;
  /** Amounts by bucket. */
  #refunds = new Map<number, number>();
  /** The newest bucket that use of this node was booked in. */
  #newestNo = 0;
  #batch: UseBatch | null = null;
  #usedInTick = 0;
  #rate = 0;
  #peak = 0;

  constructor(record: Owner, meter: MeterNo, { kind, unit, max }: HoldingTerms) {
    this.record = record;
    this.meter = meter;
    this.kind = kind;
    this.unit = unit;
    this.max = max;
    this.own = kind === "minute" ? openWindow(MINUTE_MS, SECOND_MS) : null;
  }

  /** Use that the coordinator does not know yet. */
  get unreported(): number {
    return this.#used;
  }

  get isEmpty(): boolean {
    return (
      this.idle === 0 &&
      this.inUse === 0 &&
      this.#used === 0 &&
      this.#returned === 0 &&
      this.#refunds.size === 0
    );
  }

  /** Few are free: one that is not needed is returned at once. */
  get isScarce(): boolean {
    return this.known === null || this.known.free < this.max / 2;
  }

  /** What a request needs of it. One that is larger than the limit needs all of it. */
  computeNeed(amounts: Amounts): number {
    if (this.max === Number.POSITIVE_INFINITY) return 0;
    return this.kind === "slots" ? 1 : Math.min(amounts[this.unit], this.max);
  }

  /** Returns the batch that a refund names; null for slots and windows. */
  take(amount: number, nowMs: number): UseBatch | null {
    this.idle -= amount;
    this.lastUseMs = nowMs;
    this.#usedInTick += amount;
    if (this.own === null) {
      this.inUse += amount;
      if (this.inUse > this.#peak) this.#peak = this.inUse;
      return null;
    }
    advance(this.own, nowMs);
    take(this.own, amount, nowMs);
    this.#used += amount;
    this.record.noteChange();
    this.#batch ??= { status: "open", bucketNo: 0, refund: 0 };
    return this.#batch;
  }

  /** A minute was booked with more than the request has used. */
  refund(batch: UseBatch, amount: number, atMs: number): void {
    if (this.own !== null) subtract(this.own, amount, atMs);
    switch (batch.status) {
      case "open":
        this.#used -= amount;
        this.idle += amount;
        return;
      case "sent":
        batch.refund += amount;
        return;
      case "booked":
        this.#addRefund(batch.bucketNo, amount);
        return;
      case "void":
    }
  }

  /** A slot, or the part of a window that was reserved and not used. */
  free(amount: number): void {
    this.inUse -= amount;
    this.idle += amount;
  }

  /** The usage row of a request is stored: its part of the window is used for good. */
  book(amount: number): void {
    this.ended -= amount;
    this.inUse -= amount;
    this.#used += amount;
    this.record.noteChange();
  }

  /**
   * The process ends. Requests that continue upstream are settled by another node: until then a window counts what they
   * have reserved.
   */
  bookReserved(): void {
    if (this.kind === "window" && this.inUse > 0) this.book(this.inUse);
  }

  /** Use of a window beyond what was booked. */
  addDebt(amount: number): void {
    this.idle -= amount;
    this.#used += amount;
    this.record.noteChange();
  }

  /** Returns what is idle. A slot that is scarce is returned at once. */
  giveBack(amount: number): void {
    if (amount <= 0) return;
    this.idle -= amount;
    this.#returned += amount;
    if (this.kind === "slots") this.record.noteUrgent();
    else this.record.noteChange();
  }

  /** Others lack this meter. */
  recall(no: number, nowMs: number, contendedMs: number): void {
    this.#confirms = Math.max(this.#confirms, no);
    this.contendedUntilMs = nowMs + contendedMs;
    // A slot that was lent for a waiting request stays with it: otherwise two nodes pass it to each other for ever.
    if (this.kind !== "slots" || this.waiting === 0) this.giveBack(this.idle);
    this.record.noteUrgent();
  }

  /** A slot that was freed here goes back if others wait, even if requests of this node wait as well. */
  returnFreedSlots(nowMs: number): void {
    if (this.contendedUntilMs > nowMs) this.giveBack(this.idle);
    else this.returnIdleSlots(nowMs);
  }

  /** Slots that were lent stay with the requests that wait for them. Those that nothing needs go back. */
  returnIdleSlots(nowMs: number): void {
    if (this.waiting === 0 && (this.isScarce || this.contendedUntilMs > nowMs)) this.giveBack(this.idle);
  }

  /** Takes what has to be reported; null if nothing has changed. */
  takeReport(record: number, sent: UseBatch[]): MeterReport | null {
    const { meter } = this;
    // The recall may have arrived before the reply that lent it.
    const keepsIdle = this.#isLossPartIdle || (this.kind === "slots" && this.waiting > 0);
    if (this.#confirms > 0 && this.idle > 0 && !keepsIdle) {
      this.#returned += this.idle;
      this.idle = 0;
    }
    const used = this.#used;
    const returned = this.#returned;
    const confirms = this.#confirms;
    const refunds = [...this.#refunds];
    if (used === 0 && returned === 0 && confirms === 0 && refunds.length === 0) return null;
    this.#used = 0;
    this.#returned = 0;
    this.#confirms = 0;
    this.#refunds.clear();
    if (this.#batch !== null) {
      this.#batch.status = "sent";
      sent.push(this.#batch);
      this.#batch = null;
    }
    return { record, meter, used, returned, confirms, refunds };
  }

  /** The call that reported it may not have been applied. */
  restoreUse(amount: number): void {
    if (this.kind === "window") this.#used += amount;
  }

  /** The reply says where the use of a call was booked. */
  noteBooked(batch: UseBatch, bucketNo: number): void {
    batch.status = "booked";
    batch.bucketNo = bucketNo;
    this.#newestNo = Math.max(this.#newestNo, bucketNo);
    if (batch.refund > 0) this.#addRefund(bucketNo, batch.refund);
    batch.refund = 0;
  }

  apply(state: MeterState, nowMs: number, contendedMs: number): void {
    this.known = state;
    this.#knownAtMs = nowMs;
    this.applyLent(state.lent);
    if (state.hasOthersWaiting) this.contendedUntilMs = nowMs + contendedMs;
  }

  applyLent(lent: number): void {
    this.#lossPart = null;
    this.#isLossPartIdle = false;
    this.idle = lent - this.inUse - this.#used - this.#returned;
  }

  /**
   * The term has ended. The coordinator has booked the minutes that were lent, and the sums of the database have the
   * windows; only what was used beyond that is still to be reported. Returns what the next term holds.
   */
  renew(terms: RenewalTerms): Omit<MeterHolding, "record"> | null {
    const { isNewEpoch, keepsIdle, nowMs } = terms;
    this.removeLossPart();
    const debt = this.kind === "slots" ? 0 : Math.min(this.#used, Math.max(0, -this.idle));
    const kept = keepsIdle ? Math.max(0, this.idle) : 0;
    this.#returned = 0;
    this.#refunds.clear();
    this.#newestNo = 0;
    this.#confirms = 0;
    if (this.#batch !== null) this.#batch.status = "void";
    this.#batch = null;
    const usedAgo = isNewEpoch ? this.#listOwnUse(nowMs) : [];
    // The sums may have been read before the last rows were stored: a window reports them again.
    if (!isNewEpoch) this.#used = debt;
    else if (this.kind !== "window") this.#used = 0;
    const lent = this.inUse + kept + (isNewEpoch ? this.#used : 0);
    this.applyLent(lent);
    return lent === 0 && usedAgo.length === 0 ? null : { meter: this.meter, lent, usedAgo };
  }

  /** Without a coordinator, each node may use a part of what was free in the minute of the loss. */
  addLossPart(nodes: number, nowMs: number): void {
    if (this.kind !== "window" || this.known === null || this.#isLossPartIdle) return;
    if (this.#lossPart === null && nowMs - this.#knownAtMs > MINUTE_MS) return;
    // Once for each report: the node may lose the coordinator again before the next one.
    this.#lossPart ??= Math.floor(Math.max(0, this.known.free) / nodes);
    this.#isLossPartIdle = true;
    this.idle += this.#lossPart;
  }

  /** A node reaches the coordinator again, so only what is lent may be used. */
  removeLossPart(): void {
    if (this.#isLossPartIdle) this.idle -= this.#lossPart ?? 0;
    this.#isLossPartIdle = false;
  }

  /** Whether it is known what this node may use without a coordinator. */
  get hasLossPart(): boolean {
    return this.kind !== "window" || this.#isLossPartIdle;
  }

  /** Use of this node within the last minute. */
  countOwnUse(nowMs: number): number {
    if (this.own === null) return 0;
    advance(this.own, nowMs);
    return this.own.used;
  }

  /** Measures the use of the last tick. Returns what exceeds twice of what a second needs. */
  tick(nowMs: number, tickMs: number, keepMs: number): void {
    this.#peak = Math.max(this.inUse, PEAK_DECAY * this.#peak);
    this.#rate = (1 - RATE_WEIGHT) * this.#rate + (RATE_WEIGHT * this.#usedInTick * SECOND_MS) / tickMs;
    this.#usedInTick = 0;
    if (this.#rate < 0.01) this.#rate = 0;
    if (this.idle <= 0 || this.#isLossPartIdle) return;
    const kept = nowMs - this.lastUseMs > keepMs ? 0 : this.computeReserve();
    if (this.idle > 2 * kept && this.waiting === 0) this.giveBack(this.idle - kept);
  }

  /** What the requests of the next second are expected to use. */
  computeReserve(): number {
    if (this.kind !== "slots") return Math.ceil(this.#rate);
    return this.#peak < PEAK_MIN ? 1 : Math.max(0, Math.ceil(1.25 * this.#peak) + 1 - this.inUse);
  }

  /** How much to borrow before a request lacks it; 0 if enough is idle. */
  computeRefill(nowMs: number): number {
    const reserve = this.computeReserve();
    const isVain = Math.max(this.refillAfterMs, this.exhaustedUntilMs, this.contendedUntilMs) > nowMs;
    const enough = this.kind === "slots" ? reserve / 2 : REFILL_BELOW * reserve;
    if (isVain || this.idle >= enough) return 0;
    if (this.kind === "slots") {
      if (this.#peak < PEAK_MIN || this.isScarce) return 0;
    } else if (reserve <= 1) return 0;
    return reserve - Math.max(0, this.idle);
  }

  /** A bucket that has left the minute takes no refund. */
  #addRefund(bucketNo: number, amount: number): void {
    if (bucketNo < this.#newestNo - REFUND_BUCKETS) return;
    this.#refunds.set(bucketNo, (this.#refunds.get(bucketNo) ?? 0) + amount);
    this.record.noteChange();
  }

  #listOwnUse(nowMs: number): (readonly [agoMs: number, amount: number])[] {
    if (this.own === null) return [];
    advance(this.own, nowMs);
    return listUses(this.own).map(({ atMs, amount }) => [nowMs - atMs, amount] as const);
  }
}

interface HoldingTerms {
  readonly kind: HoldingKind;
  readonly unit: Unit;
  readonly max: number;
}

export interface RenewalTerms {
  /** The coordinator has lost its state, and the own use of the last minute with it. */
  readonly isNewEpoch: boolean;
  /** What is idle is still valid. */
  readonly keepsIdle: boolean;
  readonly nowMs: number;
}
