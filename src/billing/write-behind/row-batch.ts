/** Rows of one user on their way to the store, made ready for it as they end: lists of values, with their sums. */

import type { Nano } from "../../money/nano.ts";
import { type AlikeRows, groupAlikeRows } from "../../store/usage/insert-usage.ts";
import { addToLines, type RollUpEntry } from "../../store/usage/usage-hour.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";

export class RowBatch {
  /** Whose rows they are. */
  readonly userId: string | null;
  /** Whether they are paid from what is set aside of this user's wallet; else nobody pays. */
  readonly isPaid: boolean;
  /** The first one that the journal tells of them in, or one before it. */
  segment: number;
  readonly kinds: AlikeRows[] = [];
  readonly sums: RollUpEntry[] = [];
  charge: BatchCharge | null = null;
  count = 0;
  earliestMs = Number.POSITIVE_INFINITY;
  /** It is being booked, or that was tried, and takes nothing more. */
  isClosed = false;
  /** If somebody waits until the store has them. */
  stored: PromiseWithResolvers<void> | null = null;

  constructor(userId: string | null, isPaid: boolean, segment: number) {
    this.userId = userId;
    this.isPaid = isPaid;
    this.segment = segment;
  }

  /** A row that fits the store (`storable`). */
  add(row: UsageRow, segment: number): void {
    const alike = groupAlikeRows(this.kinds, row);
    alike.add(row, this.isPaid && row.chargedNano !== 0n ? this.chargedWith(row, alike) : null);
    addToLines(this.sums, row);
    this.count++;
    if (segment < this.segment) this.segment = segment;
    if (row.atMs < this.earliestMs) this.earliestMs = row.atMs;
  }

  /** Whose entry the row shares: that of the first one that is charged, who knows of it when a second one comes. */
  private chargedWith(row: UsageRow, alike: AlikeRows): string | null {
    const { charge } = this;
    if (charge === null) {
      const { requestId, atMs, chargedNano: nano } = row;
      this.charge = { requestId, alike, index: alike.count, many: 1, nano, atMs };
      return null;
    }
    if (charge.many === 1) charge.alike.chargeWith(charge.index, charge.requestId);
    charge.many++;
    charge.nano += row.chargedNano;
    if (row.atMs < charge.atMs) charge.atMs = row.atMs;
    return charge.requestId;
  }

  untilStored(): Promise<void> {
    this.stored ??= Promise.withResolvers();
    return this.stored.promise;
  }

  ids(): string[] {
    return this.kinds.flatMap((alike) => alike.ids());
  }

  /** Slow: for what hardly ever happens. */
  rows(): UsageRow[] {
    return this.kinds.flatMap((alike) => alike.rows());
  }

  find(requestId: string): UsageRow | null {
    for (const alike of this.kinds) {
      const row = alike.find(requestId);
      if (row !== null) return row;
    }
    return null;
  }
}

/** What all of them are charged, in one entry. */
export interface BatchCharge {
  /** The first one that is charged, and where its row is. */
  readonly requestId: string;
  readonly alike: AlikeRows;
  readonly index: number;
  many: number;
  nano: Nano;
  /** Of the earliest row: an entry is compared with its rows only where none of them may have been removed. */
  atMs: number;
}
