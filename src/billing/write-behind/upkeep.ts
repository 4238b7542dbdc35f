/**
 * The periodic upkeep of write-behind billing: returns reservations of idle users, stores lasting holds, and deletes
 * journal segments that the database has.
 */

import type { EngineServices } from "../engine/engine-services.ts";
import { errorReason } from "../engine/store-faults.ts";
import type { Journal } from "../journal/journal.ts";
import type { ReservationStore } from "./reservation-store.ts";
import { RowBatch } from "./row-batch.ts";
import { findNeededSegment, type ReservationState, type ReservedHold } from "./wallet-reservations.ts";

export interface UpkeepLimits {
  /** A hold that is open for this long is stored in the database, so that its journal segment can be deleted. */
  moveHoldAfterMs: number;
  /** A reservation is released when its user made no request for this long. */
  idleMs: number;
  checkIntervalMs: number;
}

interface UpkeepOptions extends EngineServices {
  journal: Journal;
  reservationState: ReservationState;
  reservationStore: ReservationStore;
  limits: UpkeepLimits;
  acceptsHolds(): boolean;
  /** Called at each check, also while the previous one is not done. */
  onCheck(): void;
}

export class Upkeep {
  readonly #options: UpkeepOptions;
  readonly #timer: ReturnType<typeof setInterval>;
  #isRunning = false;

  constructor(options: UpkeepOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.#check(), options.limits.checkIntervalMs).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #check(): void {
    this.#options.onCheck();
    if (this.#isRunning) return;
    this.#isRunning = true;
    void this.#run(this.#options.clock.monotonicMs()).finally(() => {
      this.#isRunning = false;
    });
  }

  async #run(nowMs: number): Promise<void> {
    const { log, limits, reservationStore, reservationState } = this.#options;
    const logFailure = (error: unknown) =>
      log.error("wallet_reservation_failed", { reason: errorReason(error) });
    const idle = [...reservationState.reservations.values()].filter(
      ({ lastUsedMs }) => nowMs - lastUsedMs >= limits.idleMs,
    );
    await reservationStore.close(idle.map(({ userId }) => userId)).catch(logFailure);
    const lasting = this.#listLastingHolds(nowMs - limits.moveHoldAfterMs);
    await reservationStore.storeHolds(lasting).catch(logFailure);
    await this.#pruneJournal().catch(logFailure);
  }

  #listLastingHolds(sinceMs: number): ReservedHold[] {
    const holds: ReservedHold[] = [];
    for (const held of this.#options.reservationState.requests.values()) {
      if (held instanceof RowBatch) continue;
      if (held.sinceMs > sinceMs) break;
      holds.push(held);
    }
    return holds;
  }

  async #pruneJournal(): Promise<void> {
    const { db, journal, reservationState, acceptsHolds } = this.#options;
    const needed = this.#findNeededSegment();
    const hasWork = journal.hasSegmentBefore(needed) || reservationState.unpaidBatches.size > 0;
    if (!acceptsHolds() || !hasWork) return;
    // The rows must be on disk before the journal deletes their segments.
    await db.flush();
    journal.deleteSegmentsBefore(Math.min(needed, this.#findNeededSegment()));
    // From here on unpaid rows survive a power failure too. By now most of them are in the database anyway.
    await journal.sync();
  }

  /** A database that fails over may lose commits, so the journal keeps the latest a little longer. */
  #findNeededSegment(): number {
    const { reservationState, recentBookings } = this.#options;
    const unbooked = findNeededSegment(reservationState);
    return Math.min(unbooked, recentBookings?.findNeededSegment() ?? Number.POSITIVE_INFINITY);
  }
}
