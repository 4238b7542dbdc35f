/**
 * Ends waits for a database that does not respond in time: a hold is rejected, and a settlement is saved on disk so
 * that its request can continue.
 */

import type { BatchLoop } from "./batch-loop.ts";
import type { BatchWriter } from "./batch-writer.ts";
import type { BillingLimits, HoldOp, PendingWork, SettleOp } from "./pending-work.ts";
import { BillingUnavailable } from "./store-faults.ts";
import { EXPIRY_CHECK_MS, isHoldExpired, type StoreProgress } from "./store-timeouts.ts";
import type { UnsavedSettlements } from "./unsaved-settlements.ts";
import type { WorkQueue } from "./work-queue.ts";

interface WaiterExpiryOptions {
  engine: "sqlite" | "postgres";
  limits: BillingLimits;
  queue: WorkQueue;
  loop: BatchLoop;
  writer: BatchWriter;
  unsavedSettlements: Pick<UnsavedSettlements, "save">;
  monotonicMs(): number;
  /** Queues the end of a hold that may be in the database. */
  release(op: HoldOp): void;
}

export class WaiterExpiry {
  readonly #options: WaiterExpiryOptions;
  readonly #timer = setInterval(() => this.#expireWaiters(), EXPIRY_CHECK_MS).unref();

  constructor(options: WaiterExpiryOptions) {
    this.#options = options;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #expireWaiters(): void {
    const { engine, queue, loop, writer, monotonicMs } = this.#options;
    const nowMs = monotonicMs();
    // SQLite commits nothing while another process writes to its file, although it is available.
    const isFailing = writer.failures > 0;
    const isAvailable = engine === "sqlite" && !isFailing;
    const storeProgress = { nowMs, lastCommitMs: loop.lastCommitMs, isAvailable, isFailing };
    const lateSettlements: SettleOp[] = [];
    for (const work of loop.inFlight === null ? [queue.waiting] : [loop.inFlight, queue.waiting]) {
      for (const op of work.holds) this.#expireHold(op, work, storeProgress);
      lateSettlements.push(...work.settlementOps.filter((op) => this.#isLate(op, nowMs)));
    }
    queue.dropRejectedHolds();
    if (lateSettlements.length > 0) void this.#saveLateSettlements(lateSettlements);
  }

  #expireHold(op: HoldOp, work: PendingWork, storeProgress: StoreProgress): void {
    const { limits, queue, release } = this.#options;
    if (op.isRejected || !isHoldExpired(limits, op.sinceMs, storeProgress)) return;
    op.isRejected = true;
    if (op.hasFailed && work === queue.waiting) release(op);
    op.reject(new BillingUnavailable("the database did not respond in time"));
  }

  #isLate({ savedBy, sinceMs }: SettleOp, nowMs: number): boolean {
    return savedBy === "no" && nowMs - sinceMs >= this.#options.limits.settlementTimeoutMs;
  }

  async #saveLateSettlements(ops: readonly SettleOp[]): Promise<void> {
    for (const op of ops) op.savedBy = "overdue";
    await this.#options.unsavedSettlements.save(ops.map(({ settlement }) => settlement));
    for (const op of ops) op.resolve();
  }
}
