/** Usage rows of one user that wait for the database. Values and sums are prepared as each row is added. */

import type { Nano } from "../../money/nano.ts";
import { groupByKind, type SameKindRows } from "../../store/usage/insert-usage.ts";
import { addToLines, type RollUpEntry } from "../../store/usage/usage-hour.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";

export class RowBatch {
  readonly userId: string | null;
  /** Whether the rows are paid from the user's wallet reservation. Otherwise they are unpaid. */
  readonly isPaid: boolean;
  /** The first journal segment that contains one of the rows, or an earlier one. */
  segment: number;
  readonly kinds: SameKindRows[] = [];
  readonly sums: RollUpEntry[] = [];
  charge: BatchCharge | null = null;
  count = 0;
  earliestMs = Number.POSITIVE_INFINITY;
  /** The batch is being booked, or booking was tried. It accepts no more rows. */
  isClosed = false;
  /** Set if a caller waits until the database has the rows. */
  stored: PromiseWithResolvers<void> | null = null;

  constructor(userId: string | null, isPaid: boolean, segment: number) {
    this.userId = userId;
    this.isPaid = isPaid;
    this.segment = segment;
  }

  /** Adds a row whose values fit the database (`clampCount`). */
  add(row: UsageRow, segment: number): void {
    const sameKindRows = groupByKind(this.kinds, row);
    sameKindRows.add(
      row,
      this.isPaid && row.chargedNano !== 0n ? this.#shareCharge(row, sameKindRows) : null,
    );
    addToLines(this.sums, row);
    this.count++;
    if (segment < this.segment) this.segment = segment;
    if (row.atMs < this.earliestMs) this.earliestMs = row.atMs;
  }

  /**
   * The request whose ledger entry the row shares: the first charged one. Its own row learns of the sharing when a
   * second row is added.
   */
  #shareCharge(row: UsageRow, sameKindRows: SameKindRows): string | null {
    const { charge } = this;
    if (charge === null) {
      const { requestId, atMs, chargedNano: nano } = row;
      this.charge = {
        requestId,
        alike: sameKindRows,
        index: sameKindRows.count,
        requestCount: 1,
        nano,
        atMs,
      };
      return null;
    }
    if (charge.requestCount === 1) charge.alike.setSharedCharge(charge.index, charge.requestId);
    charge.requestCount++;
    charge.nano += row.chargedNano;
    if (row.atMs < charge.atMs) charge.atMs = row.atMs;
    return charge.requestId;
  }

  untilStored(): Promise<void> {
    this.stored ??= Promise.withResolvers();
    return this.stored.promise;
  }

  ids(): string[] {
    return this.kinds.flatMap((sameKindRows) => sameKindRows.ids());
  }

  /** Slow. Only for rare cases. */
  rows(): UsageRow[] {
    return this.kinds.flatMap((sameKindRows) => sameKindRows.rows());
  }

  find(requestId: string): UsageRow | null {
    for (const sameKindRows of this.kinds) {
      const row = sameKindRows.find(requestId);
      if (row !== null) return row;
    }
    return null;
  }
}

/** The charge of all rows, in one ledger entry. */
export interface BatchCharge {
  /** The first charged request, and where its row is. */
  readonly requestId: string;
  readonly alike: SameKindRows;
  readonly index: number;
  requestCount: number;
  nano: Nano;
  /** Time of the earliest row: an entry is reconciled with its rows only while none of them may have been removed. */
  atMs: number;
}
