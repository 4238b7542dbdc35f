/** Decides when the rows that wait for the database are booked: in rounds, one after the other. */

import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../observe/log.ts";
import { errorReason } from "../engine/store-faults.ts";
import type { BatchBooking } from "./batch-booking.ts";
import type { ReservationLimits } from "./reservation-limits.ts";
import type { ReservationState } from "./wallet-reservations.ts";

interface BookingRoundsOptions {
  reservationState: ReservationState;
  booking: Pick<BatchBooking, "book">;
  log: Log;
  clock: Pick<Clock, "monotonicMs">;
  limits: ReservationLimits & { retryMs: number; stalledAfterMs: number };
  checkpointWal(): void;
}

/** Owns the timer of the next round and the size of the last one. */
export class BookingRounds {
  readonly #options: BookingRoundsOptions;
  /** Number of finished requests since the last round began. */
  #addedCount = 0;
  #lastRound: Promise<unknown> = Promise.resolve();
  #lastRoundRows = 0;
  #bookedSinceCheckpoint = 0;
  #timer: ReturnType<typeof setTimeout> | null = null;
  /** A round that starts after the running one, and so includes every row that waits now. */
  #nextRound: Promise<boolean> | null = null;
  /** When the first round since the last success began. */
  #workSinceMs: number | null = null;
  #isStopped = false;

  constructor(options: BookingRoundsOptions) {
    this.#options = options;
  }

  /** Call when a row is waiting: it is booked soon. */
  onRowWaiting(): void {
    if (++this.#addedCount === this.#options.limits.bookAtOnceMin) void this.bookAll();
    else this.#schedule();
  }

  /** True when all finished requests are booked, false when the database does not accept them. */
  bookAll(): Promise<boolean> {
    if (this.#nextRound !== null) return this.#nextRound;
    const round = this.#lastRound.then(() => {
      this.#nextRound = null;
      return this.#bookRound();
    });
    this.#nextRound = round;
    this.#lastRound = round.catch(() => {});
    return round;
  }

  /** Whether the database has accepted no round for so long that it counts as unavailable. */
  isStalled(): boolean {
    const { clock, limits } = this.#options;
    return this.#workSinceMs !== null && clock.monotonicMs() - this.#workSinceMs >= limits.stalledAfterMs;
  }

  /** Call when the database has accepted rows: a long round is not stalled. */
  onBooked(): void {
    if (this.#workSinceMs !== null) this.#workSinceMs = this.#options.clock.monotonicMs();
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancelTimer();
  }

  #schedule(): void {
    if (this.#isStopped || this.#timer !== null) return;
    const { largeBatchMin, largeBatchDelayMs, smallBatchDelayMs } = this.#options.limits;
    this.#timer = setTimeout(
      () => {
        this.#timer = null;
        void this.bookAll();
      },
      this.#lastRoundRows > largeBatchMin ? largeBatchDelayMs : smallBatchDelayMs,
    );
  }

  #cancelTimer(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  async #bookRound(): Promise<boolean> {
    const { reservationState, booking, log, limits } = this.#options;
    this.#addedCount = 0;
    this.#cancelTimer();
    this.#lastRoundRows = reservationState.rows;
    if (this.#lastRoundRows > 0) this.#workSinceMs ??= this.#options.clock.monotonicMs();
    try {
      await booking.book([...reservationState.waitingBatches]);
      // If the database rejected a row, books the parts its batch was split into.
      for (let parts = this.#listTried(); parts.length > 0; parts = this.#listTried()) {
        await booking.book(parts);
      }
      this.#workSinceMs = null;
      this.#checkpointIfDue();
      return true;
    } catch (error) {
      log.error("billing_write_failed", { rows: reservationState.rows, reason: errorReason(error) });
      this.#schedule();
      await Bun.sleep(limits.retryMs);
      return false;
    }
  }

  #listTried() {
    return [...this.#options.reservationState.waitingBatches].filter(({ isClosed }) => isClosed);
  }

  /** Checkpoints before a commit would have to do it. */
  #checkpointIfDue(): void {
    this.#bookedSinceCheckpoint += this.#lastRoundRows;
    if (this.#bookedSinceCheckpoint < this.#options.limits.checkpointAfterRows) return;
    this.#bookedSinceCheckpoint = 0;
    this.#options.checkpointWal();
  }
}
