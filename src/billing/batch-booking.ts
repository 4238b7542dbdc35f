/** Rows that wait become rows of the store, many in one transaction. One that the store refuses spoils no other. */

import type { Clock } from "../clock.ts";
import type { Log } from "../observe/log.ts";
import { type Db, transaction } from "../store/db.ts";
import { LeaseLost } from "../store/leases.ts";
import type { InTurn } from "../store/scope.ts";
import type { UsageRow } from "../store/usage-row.ts";
import { bookBatches, type Steps } from "./book-batches.ts";
import { holdFor, moveToRows } from "./book-lent.ts";
import { forgetBatch, type Lane, splitBatch } from "./leases.ts";
import type { RowBatch } from "./row-batch.ts";
import { isHopeless, reasonOf } from "./store-faults.ts";
import type { PlainTill } from "./till.ts";

export interface BatchBookingOptions {
  db: Db;
  books: Db;
  lane: Lane;
  log: Log;
  clock: Clock;
  incarnation: string;
  plain: Pick<PlainTill, "settle" | "push">;
  /** Rows of one transaction. */
  together: number;
  /** One transaction at a time. */
  inTurn: InTurn;
  stepsOf(tx: Db): Steps;
  /** What is set aside of this user's wallet is gone, and with it what pays for the user's rows. */
  abandon(userId: string): void;
}

export interface BatchBooking {
  /** Resolves when the store has all of them. They take nothing more. */
  book(batches: readonly RowBatch[]): Promise<void>;
  /** The same for whoever has the turn. */
  bookNow(batches: readonly RowBatch[]): Promise<void>;
}

export function openBatchBooking(options: BatchBookingOptions): BatchBooking {
  const { db, books, lane, log, clock, incarnation, plain, inTurn, stepsOf } = options;

  const { pause } = stepsOf(books);

  /** Some may be booked by somebody else meanwhile. */
  const left = (batches: readonly RowBatch[]) => batches.filter((batch) => lane.waiting.has(batch));

  /** One transaction's worth of them. */
  async function bookSome(batches: readonly RowBatch[]): Promise<void> {
    const part = firstOf(batches, options.together);
    if (part.length === 0) return;
    for (const batch of part) batch.isClosed = true;
    try {
      const many = await transaction(books, (tx) =>
        bookBatches(tx, incarnation, part, clock.nowMs(), stepsOf(tx)),
      );
      for (const batch of part.slice(0, many)) {
        forgetBatch(lane, batch);
        await pause();
      }
    } catch (error) {
      if (!isHopeless(error)) throw error;
      await bookApart(part, error);
    }
  }

  async function bookNow(batches: readonly RowBatch[]): Promise<void> {
    for (let some = left(batches); some.length > 0; some = left(some)) await bookSome(some);
  }

  async function bookApart(part: readonly RowBatch[], error: unknown): Promise<void> {
    const [first] = part;
    if (first === undefined) return;
    if (error instanceof LeaseLost) return options.abandon(error.userId);
    if (part.length > 1) {
      const half = Math.ceil(part.length / 2);
      await bookNow(part.slice(0, half));
      await bookNow(part.slice(half));
    } else if (first.count > 1) await bookNow(splitBatch(lane, first));
    else await refuse(first, error);
  }

  async function refuse(batch: RowBatch, error: unknown): Promise<void> {
    for (const row of batch.rows()) {
      log.error("express_refused", { reason: reasonOf(error), request_id: row.requestId });
      // What the plain till cannot book either it keeps on the disk, for the operator.
      if (batch.isPaid) {
        await holdAlone(row);
        void plain.settle({ row, chargedNano: row.chargedNano }).catch(() => {});
      } else plain.push(row);
    }
    forgetBatch(lane, batch);
  }

  /** What it is charged, in a row of its own: the plain till then finds something to charge. */
  async function holdAlone(row: UsageRow): Promise<void> {
    try {
      const hold = holdFor({ row, chargedNano: row.chargedNano }, incarnation);
      await transaction(db, (tx) => moveToRows(tx, incarnation, [hold]));
    } catch (error) {
      if (!isHopeless(error)) throw error;
      log.error("express_refused", { reason: reasonOf(error), request_id: row.requestId });
    }
  }

  return {
    async book(batches) {
      for (const batch of batches) batch.isClosed = true;
      for (let some = left(batches); some.length > 0; some = left(some))
        await inTurn(() => bookSome(left(some)));
    },
    bookNow,
  };
}

/** At least one, and no more rows than that. */
function firstOf(batches: readonly RowBatch[], rowsMax: number): RowBatch[] {
  let rows = 0;
  let many = 0;
  for (const { count } of batches) {
    rows += count;
    if (many > 0 && rows > rowsMax) break;
    many++;
  }
  return batches.slice(0, many);
}
