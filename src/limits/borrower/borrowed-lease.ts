/** The reservation of a request that was admitted from what this node has borrowed, until its owner ends it. */

import type { EstimatedUnit, Unit } from "../../records/limits.ts";
import { clampAmount, NO_AMOUNTS } from "../amounts.ts";
import { includesSubject } from "../lease.ts";
import type { Amounts, LimitLease, Subject, TrueUse } from "../limiter-types.ts";
import type { BorrowedSubject, RecordHolding, RecordLink } from "./borrowed-record.ts";
import type { UseBatch } from "./holding.ts";

/** What the request has taken of one meter over time. */
export interface BorrowedShare {
  readonly holding: RecordHolding;
  readonly unit: Unit;
  amount: number;
  atMs: number;
  /** Of a minute: where its use was booked. Null if nothing was booked. */
  batch: UseBatch | null;
}

/** Books windows when the usage rows of their requests are stored. */
export interface BookingQueue {
  add(lease: BorrowedLease): void;
}

interface BorrowedLeaseOptions {
  readonly subjects: readonly BorrowedSubject[];
  readonly slots: readonly RecordHolding[];
  readonly shares: readonly BorrowedShare[];
  readonly bookings: BookingQueue;
  nowMs(): number;
}

export class BorrowedLease implements LimitLease {
  #taken: BorrowedLeaseOptions;
  /** The contact that each link had at the admission; without an entry, each node used its share. */
  readonly #contacts = new Map<RecordLink, number>();
  #slots: "held" | "released" | "cancelled" = "held";
  /** Windows are reserved until the usage row is stored. */
  #windows: "reserved" | "booking" | "booked" = "reserved";

  constructor(taken: BorrowedLeaseOptions) {
    this.#taken = taken;
    const nowMs = taken.nowMs();
    for (const subject of taken.subjects) {
      subject.beginLease(nowMs);
      for (const { link } of subject.records)
        if (link.loss === null) this.#contacts.set(link, link.contactNo);
    }
  }

  isHeld(): boolean {
    const { slots, shares } = this.#taken;
    const nowMs = this.#taken.nowMs();
    const isUsable = ({ record: { link } }: RecordHolding) =>
      link.loss !== null ||
      (link.isValid(nowMs) && (this.#contacts.get(link) ?? link.contactNo) === link.contactNo);
    return slots.every(isUsable) && shares.every(({ holding }) => isUsable(holding));
  }

  settle(use: TrueUse): void {
    if (this.#slots === "cancelled") return;
    for (const share of this.#taken.shares) {
      if (share.unit === "requests") continue;
      const trueUse = use[share.unit as EstimatedUnit] ?? null;
      if (trueUse !== null) this.#change(share, clampAmount(share.unit, trueUse));
    }
  }

  release(): void {
    if (this.#end("released")) this.#announceRelease(this.#taken.slots);
  }

  cancel(): void {
    if (!this.#end("cancelled")) return;
    for (const share of this.#taken.shares) this.#change(share, 0);
    this.#windows = "booked";
    this.#announceRelease(this.#taken.slots);
  }

  cancelSubjects(subjects: readonly Subject[]): void {
    if (this.#slots !== "held") return;
    const all = this.#taken;
    const isCancelled = (holding: RecordHolding) => includesSubject(subjects, holding.record.subject);
    const nowMs = all.nowMs();
    for (const subject of all.subjects) if (includesSubject(subjects, subject)) subject.endLease(nowMs);
    const slots = all.slots.filter(isCancelled);
    for (const holding of slots) holding.free(1);
    for (const share of all.shares) if (isCancelled(share.holding)) this.#change(share, 0);
    this.#taken = {
      ...all,
      subjects: all.subjects.filter((subject) => !includesSubject(subjects, subject)),
      slots: all.slots.filter((holding) => !isCancelled(holding)),
      shares: all.shares.filter(({ holding }) => !isCancelled(holding)),
    };
    this.#announceRelease(slots);
  }

  finish(): void {
    if (this.#windows !== "reserved") return;
    this.#windows = "booking";
    if (!this.#taken.shares.some(isWindow)) return;
    for (const share of this.#taken.shares) if (isWindow(share)) share.holding.ended += share.amount;
    this.#taken.bookings.add(this);
  }

  /** The usage row is stored. */
  book(): void {
    if (this.#windows !== "booking") return;
    this.#windows = "booked";
    for (const share of this.#taken.shares) if (isWindow(share)) share.holding.book(share.amount);
  }

  /** What these amounts are more than what is reserved, by unit. */
  computeExtra(amounts: Amounts): Amounts {
    const extra = { ...NO_AMOUNTS };
    for (const { unit, amount } of this.#taken.shares)
      if (unit !== "requests") extra[unit] = Math.max(extra[unit], amounts[unit] - amount);
    return extra;
  }

  #change(share: BorrowedShare, amount: number): void {
    const { holding, batch } = share;
    const by = amount - share.amount;
    if (by === 0) return;
    const nowMs = this.#taken.nowMs();
    if (holding.kind === "minute") {
      if (by > 0) {
        share.batch = holding.take(by, nowMs);
        share.atMs = nowMs;
      } else if (batch !== null) holding.refund(batch, -by, share.atMs);
    } else if (this.#windows !== "booked") {
      if (this.#windows === "booking") holding.ended += by;
      if (by < 0) holding.free(-by);
      else holding.take(by, nowMs);
    } else if (by > 0) holding.addDebt(by);
    share.amount = amount;
  }

  #end(state: "released" | "cancelled"): boolean {
    if (this.#slots !== "held") return false;
    this.#slots = state;
    const nowMs = this.#taken.nowMs();
    for (const subject of this.#taken.subjects) subject.endLease(nowMs);
    for (const slots of this.#taken.slots) slots.free(1);
    return true;
  }

  /** Must run last: the requests that are woken take the released slots in the same step. */
  #announceRelease(released: readonly RecordHolding[]): void {
    const nowMs = this.#taken.nowMs();
    for (const slots of released) {
      // While requests of other nodes wait, the coordinator decides who is next.
      if (slots.contendedUntilMs <= nowMs) slots.record.subject.onRelease?.();
      slots.returnFreedSlots(nowMs);
    }
  }
}

function isWindow({ holding }: BorrowedShare): boolean {
  return holding.kind === "window";
}
