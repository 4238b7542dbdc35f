/**
 * Operations of direct billing from their submission until the database has them: the queue that batches are taken
 * from, and the counts by which a flush knows that its operations are done.
 */

import type { UsageRow } from "../../store/usage/usage.ts";
import type { Settlement } from "./booking.ts";
import {
  buildEmptyWork,
  countOperations,
  type HoldOp,
  type PendingWork,
  type ReleaseOp,
  type SettleOp,
  splitWork,
} from "./pending-work.ts";

export class WorkQueue {
  #waiting = buildEmptyWork();
  readonly #settlements = new Map<string, SettleOp>();
  /** Progress is not counted: it has no waiter. */
  #submittedCount = 0;
  #doneCount = 0;

  get submittedCount(): number {
    return this.#submittedCount;
  }

  get doneCount(): number {
    return this.#doneCount;
  }

  get waiting(): PendingWork {
    return this.#waiting;
  }

  addHold(op: HoldOp): void {
    this.#waiting.holds.push(op);
    this.#submittedCount++;
  }

  addSettlement(op: SettleOp): void {
    this.#settlements.set(op.settlement.row.requestId, op);
    this.#waiting.settlementOps.push(op);
    this.#submittedCount++;
  }

  addRelease(op: ReleaseOp): void {
    this.#waiting.releases.push(op);
    this.#submittedCount++;
  }

  addRow(row: UsageRow): void {
    this.#waiting.rows.push(row);
    this.#submittedCount++;
  }

  /** Takes the next batch together with this progress; null if there is nothing to write. */
  take(progress: PendingWork["progress"], max: number): PendingWork | null {
    this.#waiting.progress = progress;
    if (countOperations(this.#waiting) === 0) return null;
    const { taken, left } = splitWork(this.#waiting, max);
    this.#waiting = left;
    return taken;
  }

  /** Puts work that was taken in front of the queue again, without its rejected holds. */
  requeue(work: PendingWork): void {
    const holds = work.holds.filter(({ isRejected }) => !isRejected);
    this.#waiting.holds.unshift(...holds);
    this.#waiting.settlementOps.unshift(...work.settlementOps);
    this.#waiting.releases.unshift(...work.releases);
    this.#waiting.rows.unshift(...work.rows);
    this.#doneCount += work.holds.length - holds.length;
  }

  dropRejectedHolds(): void {
    const holds = this.#waiting.holds.filter(({ isRejected }) => !isRejected);
    this.#doneCount += this.#waiting.holds.length - holds.length;
    this.#waiting.holds = holds;
  }

  markDone(operations: number): void {
    this.#doneCount += operations;
  }

  /** The database has this settlement, or the operator has to look at it. */
  endSettlement({ row }: Settlement): void {
    this.#settlements.delete(row.requestId);
  }

  findSettlement(requestId: string): SettleOp | null {
    return this.#settlements.get(requestId) ?? null;
  }
}
