/**
 * Requests that were booked in the last seconds. If the database is replaced by a standby that had not received the last
 * commits, they are booked again from here.
 */

import type { UsageRow } from "../../store/usage/usage-row.ts";
import type { Settlement } from "./billing-types.ts";

export interface RecentBookingLimits {
  /** How long a booking is kept after the database was last seen unchanged. */
  keptMs: number;
  /** Beyond this number of requests, the oldest are dropped. */
  requestsMax: number;
}

interface RecentBookingsOptions {
  limits: RecentBookingLimits;
  monotonicMs(): number;
}

/** Rows that were booked together. */
interface BookedRows {
  readonly count: number;
  /** The first journal segment that contains one of them. */
  readonly segment: number;
  rows(): UsageRow[];
}

interface Booking extends BookedRows {
  atMs: number;
}

/** Changes a row that was booked before. Called again, it changes nothing. */
type Change = () => Promise<unknown>;

export class RecentBookings {
  readonly #options: RecentBookingsOptions;
  /** In the order of their commits. */
  #bookings: Booking[] = [];
  #count = 0;
  /** In the order of their commits. */
  #changes: { readonly atMs: number; readonly change: Change }[] = [];

  constructor(options: RecentBookingsOptions) {
    this.#options = options;
  }

  /** `booked` must not change any more. */
  add(booked: BookedRows): void {
    if (booked.count === 0) return;
    const { count, segment } = booked;
    this.#bookings.push({ count, segment, rows: () => booked.rows(), atMs: this.#options.monotonicMs() });
    this.#count += count;
    while (this.#count > this.#options.limits.requestsMax && this.#bookings.length > 1) this.#dropFirst();
  }

  addRows(rows: readonly UsageRow[]): void {
    this.add({ count: rows.length, segment: Number.POSITIVE_INFINITY, rows: () => [...rows] });
  }

  addChange(change: Change): void {
    this.#changes.push({ atMs: this.#options.monotonicMs(), change });
    if (this.#changes.length > this.#options.limits.requestsMax) this.#changes.shift();
  }

  listChanges(): Change[] {
    return this.#changes.map(({ change }) => change);
  }

  /** The database was still the same at this time. While it is away, nothing is dropped. */
  confirm(atMs: number): void {
    const beforeMs = atMs - this.#options.limits.keptMs;
    this.#changes = this.#changes.filter((one) => one.atMs >= beforeMs);
    for (let [first] = this.#bookings; first !== undefined && first.atMs < beforeMs; [first] = this.#bookings)
      this.#dropFirst();
  }

  list(): Settlement[] {
    return this.#bookings.flatMap((booking) =>
      booking.rows().map((row) => ({ row, chargedNano: row.chargedNano })),
    );
  }

  /** The first journal segment with a request that is kept here. */
  findNeededSegment(): number {
    return this.#bookings.reduce((first, { segment }) => Math.min(first, segment), Number.POSITIVE_INFINITY);
  }

  #dropFirst(): void {
    this.#count -= this.#bookings.shift()?.count ?? 0;
  }
}
