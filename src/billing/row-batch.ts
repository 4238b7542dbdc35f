/**
 * Rows that nobody pays for, on their way to the store. They are made ready for it as soon as they end: objects that
 * live until they are booked would be looked at by the collector again and again, and be out of all caches by then.
 */

import type { Db } from "../store/db.ts";
import { insertFull, insertRest, ReadyRows } from "../store/insert-usage.ts";
import { isLate, markLate } from "../store/usage-day.ts";
import { addToRollUp, RollUp } from "../store/usage-hour.ts";
import type { UsageRow } from "../store/usage-row.ts";
import { inParts, type Steps } from "./book-spent.ts";

/** Rows are booked by whole batches: so many keep whoever waits for the store for a few milliseconds. */
export const BATCH_ROWS_MAX = 512;

export class RowBatch {
  /** Where the journal tells of the first of them, or of what ended before it. */
  readonly segment: number;
  readonly ready = new ReadyRows();
  readonly sums = new RollUp();
  readonly users = new Set<string | null>();
  count = 0;
  /** It is being booked, and takes nothing more. */
  isClosed = false;
  earliestMs = Number.POSITIVE_INFINITY;

  constructor(segment: number) {
    this.segment = segment;
  }

  /** A row that fits the store (`storable`). */
  add(row: UsageRow): void {
    this.ready.add(row, null);
    this.sums.add(row);
    this.users.add(row.userId);
    this.count++;
    if (row.atMs < this.earliestMs) this.earliestMs = row.atMs;
  }

  find(requestId: string): UsageRow | null {
    return this.ready.find(requestId);
  }
}

/** In one transaction, from the first on; returns how many batches. One row that the store knows fails all of them. */
export async function bookBatches(
  tx: Db,
  batches: readonly RowBatch[],
  nowMs: number,
  { size, pause, isEnough }: Steps,
): Promise<number> {
  const sums = new RollUp();
  let booked = 0;
  let rows = 0;
  for (const batch of batches) {
    for (const statements of inParts(batch.ready.full, STATEMENTS_AT_ONCE)) {
      await insertFull(tx, statements);
      await pause();
    }
    await insertRest(tx, batch.ready.rest(), pause);
    await markLateOnes(tx, batch, nowMs);
    sums.merge(batch.sums);
    booked++;
    rows += batch.count;
    if (isEnough(rows)) break;
  }
  for (const part of inParts(sums.entries(), size)) {
    await addToRollUp(tx, part);
    await pause();
  }
  return booked;
}

const STATEMENTS_AT_ONCE = 2;

/** Nearly always they have ended just now. */
async function markLateOnes(tx: Db, batch: RowBatch, nowMs: number): Promise<void> {
  if (isLate(batch.earliestMs, nowMs)) await markLate(tx, batch.ready.rows(), nowMs);
}
