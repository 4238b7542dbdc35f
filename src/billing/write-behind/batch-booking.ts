/**
 * Books waiting rows in the database, many in one transaction. A row that the database rejects is isolated, so that
 * it does not block the others.
 */

import type { Clock } from "../../net/wire/clock.ts";
import type { Log } from "../../observe/log.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import type { InTurn } from "../../store/engine/transaction.ts";
import { ReservationLost } from "../../store/money/wallet-reservations.ts";
import { UsageNumbers } from "../../store/usage/usage-numbers.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";
import type { DirectBilling } from "../engine/direct-billing.ts";
import { errorReason, isPermanent } from "../engine/store-faults.ts";
import { bookBatches, type Steps } from "./book-batches.ts";
import { holdFor, moveToRows } from "./book-reservations.ts";
import type { RowBatch } from "./row-batch.ts";
import {
  forgetBatch,
  forgetHold,
  holdsOn,
  type ReservationState,
  splitBatch,
} from "./wallet-reservations.ts";

export interface BatchBookingOptions {
  db: Db;
  books: Db;
  lane: ReservationState;
  log: Log;
  clock: Clock;
  incarnation: string;
  plain: Pick<DirectBilling, "settle">;
  /** Maximum number of rows in one transaction. */
  together: number;
  /** Runs one transaction at a time. */
  inTurn: InTurn;
  stepsOf(tx: Db): Steps;
}

export interface BatchBooking {
  /** Resolves when the database has all of them, except for parts of a batch that another call has split. */
  book(batches: readonly RowBatch[]): Promise<void>;
  /** The same, for a caller that already runs in `inTurn`. */
  bookNow(batches: readonly RowBatch[]): Promise<void>;
  /** Handles wallet reservations of these users that are missing in the database. */
  abandon(userIds: readonly string[]): Promise<void>;
}

export function openBatchBooking(options: BatchBookingOptions): BatchBooking {
  const { db, books, lane, log, clock, incarnation, plain, inTurn, stepsOf } = options;

  const { pause } = stepsOf(books);
  const numbers = new UsageNumbers();

  /** Books one transaction of batches, from `start` on. Returns the index of the next batch. */
  async function bookFrom(start: number, batches: readonly RowBatch[]): Promise<number> {
    const { part, end } = selectPart(batches, start);
    if (part.length === 0) return end;
    for (const batch of part) batch.isClosed = true;
    try {
      const bookedCount = await numbers.within(books, (tx, numbering) =>
        bookBatches(tx, incarnation, part, numbering, clock.nowMs(), stepsOf(tx)),
      );
      for (const batch of part.slice(0, bookedCount)) {
        forgetBatch(lane, batch);
        await pause();
      }
      const next = part[bookedCount];
      return next === undefined ? end : batches.indexOf(next, start);
    } catch (error) {
      if (!isPermanent(error)) throw error;
      await isolateRejected(part, error);
      // Batches that this transaction did not book are still waiting.
      return start;
    }
  }

  /** Selects batches up to the row limit, but at least one. Skips batches that another call has booked meanwhile. */
  function selectPart(batches: readonly RowBatch[], start: number): { part: RowBatch[]; end: number } {
    const part: RowBatch[] = [];
    let rows = 0;
    let end = start;
    for (; end < batches.length; end++) {
      const batch = batches[end];
      if (batch === undefined || !lane.waiting.has(batch)) continue;
      rows += batch.count;
      if (part.length > 0 && rows > options.together) break;
      part.push(batch);
    }
    return { part, end };
  }

  async function bookNow(batches: readonly RowBatch[]): Promise<void> {
    for (let at = 0; at < batches.length; ) at = await bookFrom(at, batches);
  }

  async function isolateRejected(part: readonly RowBatch[], error: unknown): Promise<void> {
    const [first] = part;
    if (first === undefined) return;
    if (error instanceof ReservationLost) return abandon(error.userIds);
    if (part.length > 1) {
      const half = Math.ceil(part.length / 2);
      await bookNow(part.slice(0, half));
      await bookNow(part.slice(half));
    } else if (first.count > 1) await bookNow(splitBatch(lane, first));
    else {
      for (const row of first.rows()) {
        log.error("express_refused", { reason: errorReason(error), request_id: row.requestId });
        if (first.isPaid) await holdAlone(row);
      }
      await handOver(first);
    }
  }

  /** Holds and rows on a lost reservation have no payer: the holds are dropped, and the rows are recorded as unpaid. */
  async function abandon(userIds: readonly string[]): Promise<void> {
    for (const userId of userIds) log.error("lease_lost", { user_id: userId });
    const lost = userIds.flatMap((userId) => lane.leases.get(userId) ?? []);
    for (const reserved of holdsOn(lane, lost)) forgetHold(lane, reserved);
    for (const userId of userIds) lane.leases.delete(userId);
    const users = new Set<string | null>(userIds);
    const unpayable = [...lane.waiting].filter(({ isPaid, userId }) => isPaid && users.has(userId));
    await Promise.all(unpayable.map(handOver));
  }

  /** Passes the rows to direct billing. What direct billing cannot book either is saved on disk for the operator. */
  async function handOver(batch: RowBatch): Promise<void> {
    batch.isClosed = true;
    const settled = batch.rows().map((row) => plain.settle({ row, chargedNano: row.chargedNano }));
    await Promise.allSettled(settled);
    forgetBatch(lane, batch);
  }

  /** Moves the charge of this row into a hold of its own, so that direct billing has a hold to charge. */
  async function holdAlone(row: UsageRow): Promise<void> {
    try {
      const hold = holdFor({ row, chargedNano: row.chargedNano }, incarnation);
      await transaction(db, (tx) => moveToRows(tx, incarnation, [hold]));
    } catch (error) {
      if (!isPermanent(error)) throw error;
      log.error("express_refused", { reason: errorReason(error), request_id: row.requestId });
    }
  }

  return {
    async book(batches) {
      for (let at = 0; at < batches.length; ) at = await inTurn(() => bookFrom(at, batches));
    },
    bookNow,
    abandon,
  };
}
