/** Rows that nobody pays for, booked by whole batches: many of them in one transaction. */

import type { Clock } from "../clock.ts";
import type { Log } from "../observe/log.ts";
import { type Db, transaction } from "../store/db.ts";
import { insertFull, insertRest } from "../store/insert-usage.ts";
import type { InTurn } from "../store/scope.ts";
import { isLate, markLate } from "../store/usage-day.ts";
import { addToRollUp, RollUp } from "../store/usage-hour.ts";
import type { UsageRow } from "../store/usage-row.ts";
import { inParts, type Steps } from "./book-spent.ts";
import { forgetBatches, type Lane } from "./leases.ts";
import { BATCH_ROWS_MAX, RowBatch } from "./row-batch.ts";
import { isHopeless, reasonOf } from "./store-faults.ts";
import type { PlainTill } from "./till.ts";

export interface RowBookingOptions {
  books: Db;
  lane: Lane;
  log: Log;
  clock: Clock;
  plain: Pick<PlainTill, "push">;
  /** Rows of one transaction. */
  together: number;
  /** One transaction at a time. */
  inTurn: InTurn;
  stepsOf(tx: Db): Steps;
}

export interface RowBooking {
  /** Resolves when the store has all of them. They take nothing more. */
  book(batches: readonly RowBatch[]): Promise<void>;
}

export function openRowBooking(options: RowBookingOptions): RowBooking {
  const { books, lane, log, clock, plain, inTurn, stepsOf } = options;
  const batchesTogether = Math.ceil(options.together / BATCH_ROWS_MAX);

  const bookTogether = (batches: readonly RowBatch[]) =>
    transaction(books, (tx) => bookBatches(tx, batches, clock.nowMs(), stepsOf(tx)));

  /** One transaction's worth of them. */
  async function bookSome(batches: readonly RowBatch[]): Promise<void> {
    const part = batches.slice(0, batchesTogether);
    if (part.length === 0) return;
    try {
      const many = await bookTogether(part);
      forgetBatches(lane, part.slice(0, many));
    } catch (error) {
      if (!isHopeless(error)) throw error;
      for (const batch of part) {
        await bookApart(batch.ready.rows());
        forgetBatches(lane, [batch]);
      }
    }
  }

  /** A row that the store refuses must not spoil the others. */
  async function bookApart(rows: readonly UsageRow[]): Promise<void> {
    const [first] = rows;
    if (first === undefined) return;
    const batch = new RowBatch(0);
    for (const row of rows) batch.add(row);
    try {
      await bookTogether([batch]);
    } catch (error) {
      if (!isHopeless(error)) throw error;
      if (rows.length > 1) {
        const half = Math.ceil(rows.length / 2);
        await bookApart(rows.slice(0, half));
        await bookApart(rows.slice(half));
        return;
      }
      log.error("express_refused", { reason: reasonOf(error), request_id: first.requestId });
      // What the plain till cannot book either it keeps on the disk, for the operator.
      plain.push(first);
    }
  }

  return {
    async book(batches) {
      for (const batch of batches) batch.isClosed = true;
      // Some may be booked by somebody else meanwhile.
      const left = () => batches.filter((batch) => lane.unpaid.includes(batch));
      while (left().length > 0) await inTurn(() => bookSome(left()));
    },
  };
}

/** Statements of one step. */
const AT_ONCE = 2;

/** In one transaction, from the first on; returns how many batches. One row that the store knows fails all of them. */
async function bookBatches(
  tx: Db,
  batches: readonly RowBatch[],
  nowMs: number,
  { size, pause, isEnough }: Steps,
): Promise<number> {
  const sums = new RollUp();
  let booked = 0;
  let rows = 0;
  for (const { ready, sums: own, count, earliestMs } of batches) {
    for (const statements of inParts(ready.full, AT_ONCE)) {
      await insertFull(tx, statements);
      await pause();
    }
    await insertRest(tx, ready.rest(), pause);
    // Nearly always they have ended just now.
    if (isLate(earliestMs, nowMs)) await markLate(tx, ready.rows(), nowMs);
    sums.merge(own);
    booked++;
    rows += count;
    if (isEnough(rows)) break;
  }
  for (const part of inParts(sums.entries(), size)) {
    await addToRollUp(tx, part);
    await pause();
  }
  return booked;
}
