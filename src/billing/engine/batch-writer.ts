/**
 * Writes batches of direct billing to the database. If the database is unavailable, the batch is queued again. If it
 * rejects a batch permanently, the batch is halved until the bad operation is alone.
 */

import type { Tariff } from "../../money/tariff.ts";
import type { BillingFaults } from "../../observe/billing-faults.ts";
import { isLockTimeout, isUniqueViolation } from "../../store/engine/db.ts";
import { UNSENT } from "../../store/money/holds.ts";
import { findLockedUsers } from "../../store/money/locked-users.ts";
import { insertTariffs } from "../../store/money/tariffs.ts";
import { learnBefore, UsageNumbers } from "../../store/usage/usage.ts";
import { type BookOptions, type HoldDecision, usageRows } from "./batch-state.ts";
import { type BookingResult, book } from "./booking.ts";
import type { Disk } from "./disk.ts";
import type { EngineServices } from "./engine-services.ts";
import {
  type BillingLimits,
  buildBatch,
  countOperations,
  type HoldOp,
  listUsers,
  operationId,
  type PendingWork,
  type SettleOp,
  splitByUsers,
  splitInHalves,
} from "./pending-work.ts";
import type { Progress } from "./progress.ts";
import { reportSettlement } from "./report-settlements.ts";
import {
  BillingUnavailable,
  buildDiskUnavailable,
  errorReason,
  isPermanent,
  toError,
  withTimeout,
} from "./store-faults.ts";
import type { UnsavedSettlements } from "./unsaved-settlements.ts";
import type { WorkQueue } from "./work-queue.ts";

interface BatchWriterOptions extends EngineServices {
  faults: BillingFaults;
  limits: Pick<BillingLimits, "transactionMs">;
  queue: WorkQueue;
  progress: Progress;
  disk: Disk;
  unsavedSettlements: UnsavedSettlements;
  acceptsHolds(): boolean;
  /** Queues the end of a hold that is not needed. */
  release(op: HoldOp): void;
}

type WriteResult = "done" | "delayed" | "unavailable";

/** Owns the database's state as its last batches showed it: failures, stored tariffs, numbers of usage kinds. */
export class BatchWriter {
  readonly #options: BatchWriterOptions;
  readonly #storedTariffs = new Map<string, Tariff>();
  readonly #numbers = new UsageNumbers();
  #failures = 0;
  /** Users whose money was still locked when the last write stopped waiting for it. */
  #lockedUsers: ReadonlySet<string> = new Set();

  constructor(options: BatchWriterOptions) {
    this.#options = options;
  }

  /** Number of batches in a row that failed because the database is unavailable. */
  get failures(): number {
    return this.#failures;
  }

  /** The database may have lost tariffs and numbers that it had. */
  async restoreTariffs(): Promise<void> {
    this.#numbers.forget();
    await insertTariffs(this.#options.db, [...this.#storedTariffs.values()]);
  }

  /** `unavailable`: the work is queued again. `delayed`: only that of users whose money is locked. */
  async write(work: PendingWork): Promise<WriteResult> {
    const free = await this.#requeueLocked(work);
    if (free === work) return this.#writeFree(work);
    if (countOperations(free) === 0) return "delayed";
    return (await this.#writeFree(free)) === "unavailable" ? "unavailable" : "delayed";
  }

  async #writeFree(work: PendingWork): Promise<WriteResult> {
    const live = { ...work, holds: work.holds.filter(({ isRejected }) => !isRejected) };
    this.#dropRejected(work.holds);
    if (countOperations(live) === 0) return "done";
    for (let checkExisting = this.#failures > 0; ; checkExisting = true) {
      try {
        this.#finish(live, await this.#commitInTime(live, checkExisting));
        return "done";
      } catch (error) {
        this.#numbers.forget();
        // Part of the batch was written before, by a commit whose result was lost.
        if (isUniqueViolation(error) && !checkExisting) continue;
        if (isPermanent(error)) return this.#isolateRejected(live, error);
        if (isLockTimeout(error)) {
          // The database responds. The next try leaves out the users whose money is still locked.
          this.#lockedUsers = new Set(listUsers(live));
          this.#requeue(live);
          return "delayed";
        }
        this.#requeueUnwritten(live, error);
        return "unavailable";
      }
    }
  }

  /** Holds that were rejected after the batch was taken. An earlier try may have written them. */
  #dropRejected(holds: readonly HoldOp[]): void {
    const { queue, release } = this.#options;
    for (const op of holds) {
      if (!op.isRejected) continue;
      if (op.hasFailed) release(op);
      queue.markDone(1);
    }
  }

  /**
   * A node that stopped responding within a transaction keeps its users locked until the server ends that
   * transaction. Other users must not wait for it.
   */
  async #requeueLocked(work: PendingWork): Promise<PendingWork> {
    if (this.#lockedUsers.size === 0) return work;
    try {
      this.#lockedUsers = await findLockedUsers(this.#options.db, [...this.#lockedUsers]);
    } catch {
      // The write itself reports that the database is unavailable.
      return work;
    }
    const { ofUsers, ofOthers } = splitByUsers(work, this.#lockedUsers);
    if (countOperations(ofUsers) === 0) return work;
    this.#requeue(ofUsers);
    return ofOthers;
  }

  async #commitInTime(work: PendingWork, checkExisting: boolean): Promise<BookingResult> {
    const { db, log, limits } = this.#options;
    let isAbandoned = false;
    const attempt = this.#commit(work, { checkExisting, isAbandoned: () => isAbandoned });
    // SQLite runs on this thread, so it needs no timeout.
    const inTime = db.engine === "sqlite" ? attempt : withTimeout(attempt, limits.transactionMs);
    const booked = await inTime.finally(() => {
      isAbandoned = true;
    });
    if (this.#failures > 0) log.info("billing_write_succeeded", { failures: this.#failures });
    this.#failures = 0;
    return booked;
  }

  async #commit(
    work: PendingWork,
    attempt: Pick<BookOptions, "checkExisting" | "isAbandoned">,
  ): Promise<BookingResult> {
    const { db, clock, processId } = this.#options;
    const batch = buildBatch(work);
    const nowMs = clock.nowMs();
    const bookOptions = { ...attempt, processId, nowMs, storedTariffs: this.#storedTariffs };
    await learnBefore(db, this.#numbers, usageRows(batch));
    return this.#numbers.within(db, (tx, numbering) => book(tx, batch, { ...bookOptions, numbering }));
  }

  #finish(work: PendingWork, booked: BookingResult): void {
    const { queue, log, faults, disk } = this.#options;
    queue.markDone(countOperations(work) - work.progress.length);
    work.holds.forEach(({ request: { tariff } }, index) => {
      if (booked.holds[index]?.kind === "held") this.#storedTariffs.set(tariff.id, tariff);
    });
    booked.settlements.forEach((result, index) => {
      const id = work.settlementOps[index]?.settlement.row.requestId ?? "";
      reportSettlement(log, faults, id, result);
    });
    this.#remember(work, booked);
    for (const id of booked.unchargedRequestIds) log.error("settlement_uncharged", { request_id: id });
    const flushed = disk.flushCommit();
    if (flushed === null) this.#resolveWaiters(work, booked);
    else void flushed.then(() => this.#resolveWaiters(work, booked));
  }

  #remember({ settlementOps, rows }: PendingWork, booked: BookingResult): void {
    const { recentBookings } = this.#options;
    if (recentBookings === undefined) return;
    const settled = settlementOps
      .filter((_, index) => booked.settlements[index] !== "lost")
      .map(({ settlement: { row, chargedNano } }) => ({ ...row, chargedNano }));
    recentBookings.addRows([...settled, ...rows]);
  }

  #resolveWaiters(work: PendingWork, booked: BookingResult): void {
    for (const op of work.settlementOps) this.#endSettlement(op);
    for (const op of work.releases) op.resolve();
    work.holds.forEach((op, index) => {
      const result = booked.holds[index];
      if (result !== undefined) this.#resolveHold(op, result);
    });
  }

  /** A hold that its caller no longer gets is released. */
  #resolveHold(op: HoldOp, result: HoldDecision): void {
    if (op.isRejected || !this.#options.acceptsHolds()) {
      if (result.kind === "held") this.#options.release(op);
      if (!op.isRejected) op.reject(buildDiskUnavailable());
      return;
    }
    if (result.kind === "lost") {
      op.reject(new BillingUnavailable("another process has settled the request"));
      return;
    }
    if (result.kind === "held") this.#options.progress.open(op.request.requestId, UNSENT);
    op.resolve(result);
  }

  #endSettlement(op: SettleOp): void {
    const { queue, unsavedSettlements } = this.#options;
    queue.endSettlement(op.settlement);
    op.resolve();
    unsavedSettlements.markBooked(op.settlement.row.requestId);
  }

  async #isolateRejected(work: PendingWork, error: unknown): Promise<WriteResult> {
    if (countOperations(work) === 1) {
      await this.#reject(work, error);
      return "done";
    }
    const [first, second] = splitInHalves(work);
    const result = await this.#writeFree(first);
    if (result === "done") return this.#writeFree(second);
    this.#requeue(second);
    return result;
  }

  /** Ends the only operation of this work. A settlement is saved on disk for the operator. */
  async #reject(work: PendingWork, error: unknown): Promise<void> {
    const { log, queue, unsavedSettlements } = this.#options;
    log.error("billing_operation_rejected", { reason: errorReason(error), request_id: operationId(work) });
    queue.markDone(countOperations(work) - work.progress.length);
    for (const op of [...work.holds, ...work.releases]) op.reject(toError(error));
    for (const op of work.settlementOps) {
      await unsavedSettlements.saveForOperator(op.settlement);
      queue.endSettlement(op.settlement);
      if (op.savedBy === "elsewhere") op.reject(toError(error));
      else op.resolve();
    }
  }

  #requeueUnwritten(work: PendingWork, error: unknown): void {
    this.#failures++;
    if (this.#failures === 1) {
      this.#options.log.error("billing_write_failed", {
        holds: work.holds.length,
        settlements: work.settlementOps.length,
        rows: work.rows.length,
        reason: errorReason(error),
      });
    }
    this.#requeue(work);
  }

  #requeue(work: PendingWork): void {
    const { queue, progress, release } = this.#options;
    queue.requeue(work);
    progress.requeue(work.progress);
    // The outcome of these transactions is unknown. If the hold was written, the release returns its money.
    for (const op of work.holds) {
      op.hasFailed = true;
      if (op.isRejected) release(op);
    }
  }
}
