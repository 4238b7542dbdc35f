/**
 * Books waiting rows in the database, many in one transaction. A row that the database rejects is isolated, so that
 * it does not block the others.
 */

import { type Db, isLockTimeout } from "../../store/engine/db.ts";
import type { InTurn } from "../../store/engine/transaction.ts";
import { findLockedUsers } from "../../store/money/locked-users.ts";
import { FenceLost } from "../../store/money/reservation-fences.ts";
import { registerKinds } from "../../store/usage/insert-usage.ts";
import { UsageNumbers } from "../../store/usage/usage-numbers.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";
import type { DirectBilling } from "../engine/direct-billing.ts";
import type { EngineServices } from "../engine/engine-services.ts";
import { errorReason, isPermanent } from "../engine/store-faults.ts";
import { bookBatches, type Steps } from "./book-batches.ts";
import { buildSettledHold, storeReservedHolds } from "./book-reservations.ts";
import type { ReservationFence } from "./reservation-fence.ts";
import type { RowBatch } from "./row-batch.ts";
import { type ReservationState, removeBatch, splitBatch } from "./wallet-reservations.ts";

/** Number of times that one round waits for locked wallets. */
const LOCK_TIMEOUTS_MAX = 3;

interface BatchBookingOptions extends EngineServices {
  bookingDb: Db;
  reservationState: ReservationState;
  directBilling: Pick<DirectBilling, "settle">;
  fence: ReservationFence;
  /** Called after each commit. */
  onBooked(): void;
  /** Recovers everything in memory after the fence was lost. The caller runs in `runInOrder`. */
  recoverOwn(): Promise<void>;
  /** Maximum number of rows in one transaction. */
  transactionRowsMax: number;
  /** Runs one transaction at a time. */
  runInOrder: InTurn;
  buildSteps(tx: Db): Steps;
}

export class BatchBooking {
  readonly #options: BatchBookingOptions;
  readonly #numbers = new UsageNumbers();

  constructor(options: BatchBookingOptions) {
    this.#options = options;
  }

  /**
   * Resolves when the database has all of them, except for parts of a batch that another call has split. Users whose
   * wallet a node has locked that stopped responding do not delay the others.
   */
  async book(batches: readonly RowBatch[]): Promise<void> {
    let remaining = batches;
    let lockTimeouts = 0;
    let delayed: unknown = null;
    for (let at = 0; at < remaining.length; ) {
      const [start, part] = [at, remaining];
      try {
        at = await this.#options.runInOrder(() => this.#bookFrom(start, part));
      } catch (error) {
        if (!isLockTimeout(error) || ++lockTimeouts > LOCK_TIMEOUTS_MAX) throw error;
        const locked = await this.#findLockedUsers(part.slice(start));
        if (locked.size > 0) delayed = error;
        remaining = part.slice(start).filter(({ userId }) => !locked.has(userId));
        at = 0;
      }
    }
    if (delayed !== null) throw delayed;
  }

  /** The database may have lost numbers of values that it had. */
  forgetNumbers(): void {
    this.#numbers.forget();
  }

  async #findLockedUsers(batches: readonly RowBatch[]): Promise<ReadonlySet<string | null>> {
    const users = new Set(batches.flatMap(({ userId, isPaid }) => (isPaid && userId !== null ? userId : [])));
    return findLockedUsers(this.#options.db, [...users]);
  }

  /** The same, for a caller that already runs in `runInOrder`. */
  async bookNow(batches: readonly RowBatch[]): Promise<void> {
    for (let at = 0; at < batches.length; ) at = await this.#bookFrom(at, batches);
  }

  /** Books one transaction of batches, from `start` on. Returns the index of the next batch. */
  async #bookFrom(start: number, batches: readonly RowBatch[]): Promise<number> {
    const { bookingDb, reservationState, recentBookings, buildSteps } = this.#options;
    const { part, end } = this.#selectPart(batches, start);
    if (part.length === 0) return end;
    for (const batch of part) batch.isClosed = true;
    try {
      const bookedCount = await this.#commit(part);
      this.#options.onBooked();
      const { pause } = buildSteps(bookingDb);
      for (const batch of part.slice(0, bookedCount)) {
        recentBookings?.add(batch);
        removeBatch(reservationState, batch);
        await pause();
      }
      const next = part[bookedCount];
      return next === undefined ? end : batches.indexOf(next, start);
    } catch (error) {
      if (error instanceof FenceLost) await this.#options.recoverOwn();
      else if (isPermanent(error)) await this.#isolateRejected(part, error);
      else throw error;
      // Batches that this transaction did not book are still waiting.
      return start;
    }
  }

  async #commit(part: readonly RowBatch[]): Promise<number> {
    const { bookingDb, fence, processId, clock, buildSteps } = this.#options;
    await registerKinds(
      bookingDb,
      this.#numbers,
      part.flatMap(({ kinds }) => kinds),
    );
    return fence.commit((guard) =>
      this.#numbers.within(bookingDb, (tx, numbering) =>
        guard(tx, () => bookBatches(tx, processId, part, numbering, clock.nowMs(), buildSteps(tx))),
      ),
    );
  }

  /** Selects batches up to the row limit, but at least one. Skips batches that another call has booked meanwhile. */
  #selectPart(batches: readonly RowBatch[], start: number): { part: RowBatch[]; end: number } {
    const { reservationState, transactionRowsMax } = this.#options;
    const part: RowBatch[] = [];
    let rows = 0;
    let end = start;
    for (; end < batches.length; end++) {
      const batch = batches[end];
      if (batch === undefined || !reservationState.waitingBatches.has(batch)) continue;
      rows += batch.count;
      if (part.length > 0 && rows > transactionRowsMax) break;
      part.push(batch);
    }
    return { part, end };
  }

  async #isolateRejected(part: readonly RowBatch[], error: unknown): Promise<void> {
    const [first] = part;
    if (first === undefined) return;
    if (part.length > 1) {
      const half = Math.ceil(part.length / 2);
      await this.bookNow(part.slice(0, half));
      await this.bookNow(part.slice(half));
    } else if (first.count > 1) await this.bookNow(splitBatch(this.#options.reservationState, first));
    else {
      for (const row of first.rows()) {
        this.#logRejected(row, error);
        if (first.isPaid) await this.#storeHold(row);
      }
      await this.#passToDirectBilling(first);
    }
  }

  /** Passes the rows to direct billing. What direct billing cannot book either is saved on disk for the operator. */
  async #passToDirectBilling(batch: RowBatch): Promise<void> {
    const { directBilling, reservationState } = this.#options;
    batch.isClosed = true;
    const settled = batch.rows().map((row) => directBilling.settle({ row, chargedNano: row.chargedNano }));
    await Promise.allSettled(settled);
    removeBatch(reservationState, batch);
  }

  /** Moves the charge of this row into a separate hold, so that direct billing has a hold to charge. */
  async #storeHold(row: UsageRow): Promise<void> {
    const { fence, processId } = this.#options;
    try {
      const hold = buildSettledHold({ row, chargedNano: row.chargedNano }, processId);
      await fence.run((tx) => storeReservedHolds(tx, processId, [hold]));
    } catch (error) {
      if (!isPermanent(error)) throw error;
      this.#logRejected(row, error);
    }
  }

  #logRejected({ requestId }: UsageRow, error: unknown): void {
    this.#options.log.error("charge_rejected", { reason: errorReason(error), request_id: requestId });
  }
}
