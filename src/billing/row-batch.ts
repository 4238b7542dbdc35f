/**
 * Rows that nobody pays for, on their way to the store. They are made ready for it as soon as they end: few lists
 * of values wait for a second, instead of thousands of objects that the collector would have to look at.
 */

import { ReadyRows } from "../store/insert-usage.ts";
import { RollUp } from "../store/usage-hour.ts";
import type { UsageRow } from "../store/usage-row.ts";

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
