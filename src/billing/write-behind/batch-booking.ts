/** Rows that wait become rows of the store, many in one transaction. One that the store refuses spoils no other. */

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
  /** Rows of one transaction. */
  together: number;
  /** One transaction at a time. */
  inTurn: InTurn;
  stepsOf(tx: Db): Steps;
}

export interface BatchBooking {
  /** Resolves when the store has all of them, but for parts of one that another call has split. */
  book(batches: readonly RowBatch[]): Promise<void>;
  /** The same for whoever has the turn. */
  bookNow(batches: readonly RowBatch[]): Promise<void>;
  /** What was set aside of these users' wallets is gone. */
  abandon(userIds: readonly string[]): Promise<void>;
}

export function openBatchBooking(options: BatchBookingOptions): BatchBooking {
  const { db, books, lane, log, clock, incarnation, plain, inTurn, stepsOf } = options;

  const { pause } = stepsOf(books);
  const numbers = new UsageNumbers();

  /** One transaction's worth of them, from `start` on. Returns where to go on. */
  async function bookFrom(start: number, batches: readonly RowBatch[]): Promise<number> {
    const { part, end } = partOf(batches, start);
    if (part.length === 0) return end;
    for (const batch of part) batch.isClosed = true;
    try {
      const many = await numbers.within(books, (tx, numbering) =>
        bookBatches(tx, incarnation, part, numbering, clock.nowMs(), stepsOf(tx)),
      );
      for (const batch of part.slice(0, many)) {
        forgetBatch(lane, batch);
        await pause();
      }
      const next = part[many];
      return next === undefined ? end : batches.indexOf(next, start);
    } catch (error) {
      if (!isPermanent(error)) throw error;
      await bookApart(part, error);
      // Those that had to make way for others are still there.
      return start;
    }
  }

  /** Some may be booked by somebody else meanwhile. At least one, if there is one, and else no more rows than that. */
  function partOf(batches: readonly RowBatch[], start: number): { part: RowBatch[]; end: number } {
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

  async function bookApart(part: readonly RowBatch[], error: unknown): Promise<void> {
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

  /** Nobody pays for what lives on it: holds find nothing to be paid from, and ends are recorded as such. */
  async function abandon(userIds: readonly string[]): Promise<void> {
    for (const userId of userIds) log.error("lease_lost", { user_id: userId });
    const lost = userIds.flatMap((userId) => lane.leases.get(userId) ?? []);
    for (const held of holdsOn(lane, lost)) forgetHold(lane, held);
    for (const userId of userIds) lane.leases.delete(userId);
    const users = new Set<string | null>(userIds);
    const unpayable = [...lane.waiting].filter(({ isPaid, userId }) => isPaid && users.has(userId));
    await Promise.all(unpayable.map(handOver));
  }

  /** What the plain till cannot book either it keeps on the disk, for the operator. */
  async function handOver(batch: RowBatch): Promise<void> {
    batch.isClosed = true;
    const settled = batch.rows().map((row) => plain.settle({ row, chargedNano: row.chargedNano }));
    await Promise.allSettled(settled);
    forgetBatch(lane, batch);
  }

  /** What it is charged, in a row of its own: the plain till then finds something to charge. */
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
