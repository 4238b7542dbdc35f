/**
 * Books the windows of ended requests when their usage rows are stored: until then their part stays lent, so that a
 * window that is read again from the stored sums has every use once.
 */

import type { BookingQueue, BorrowedLease } from "./borrowed-lease.ts";
import type { BorrowerTimers } from "./borrower-timers.ts";

interface WindowBookingsOptions {
  readonly timers: BorrowerTimers;
  readonly everyMs: number;
  /** Resolves when all usage rows so far are stored. */
  flush(): Promise<void>;
}

export class WindowBookings implements BookingQueue {
  readonly #options: WindowBookingsOptions;
  #ended: BorrowedLease[] = [];
  #isScheduled = false;

  constructor(options: WindowBookingsOptions) {
    this.#options = options;
  }

  add(lease: BorrowedLease): void {
    this.#ended.push(lease);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#options.timers.after(this.#options.everyMs, () => void this.#run());
  }

  /** Rejects if the database does not accept the rows: the windows stay lent. */
  async bookAll(): Promise<void> {
    const ended = this.#ended;
    this.#ended = [];
    try {
      await this.#options.flush();
    } catch (error) {
      this.#ended = [...ended, ...this.#ended];
      throw error;
    }
    for (const lease of ended) lease.book();
  }

  async #run(): Promise<void> {
    await this.bookAll().catch(() => {});
    this.#isScheduled = false;
    const [next] = this.#ended;
    if (next === undefined) return;
    this.#isScheduled = true;
    this.#options.timers.after(this.#options.everyMs, () => void this.#run());
  }
}
