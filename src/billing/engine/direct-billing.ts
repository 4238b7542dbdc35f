/**
 * Direct billing: holds money before a request is sent and books its settlement before the client sees the end.
 * Operations that arrive during a transaction form the next batch, so a busy gateway needs few commits.
 */

import type { Clock } from "../../base/clock.ts";
import type { BillingFaults } from "../../observe/billing-faults.ts";
import type { BillingMetrics } from "../../observe/billing-metrics.ts";
import type { Db } from "../../store/engine/db.ts";
import { isSharedServer } from "../../store/engine/dialect.ts";
import { findHolds, type HoldProgress, UNSENT } from "../../store/money/holds.ts";
import type { UsageRow } from "../../store/usage/usage.ts";
import { BatchLoop } from "./batch-loop.ts";
import type { HoldOrder } from "./batch-state.ts";
import { BatchWriter } from "./batch-writer.ts";
import type { BillingEngine } from "./billing-engine.ts";
import type { HoldRequest, HoldResult, Settlement } from "./billing-types.ts";
import { type Disk, type Durability, openDisk } from "./disk.ts";
import type { EngineServices } from "./engine-services.ts";
import type { BillingLimits, HoldOp, SettleOp } from "./pending-work.ts";
import { Progress } from "./progress.ts";
import { ProgressWriter } from "./progress-writer.ts";
import type { SettlementSpool } from "./settlement-spool.ts";
import { BillingUnavailable, buildDiskUnavailable, withBillingErrors, withTimeout } from "./store-faults.ts";
import { UnsavedSettlements } from "./unsaved-settlements.ts";
import { WaiterExpiry } from "./waiter-expiry.ts";
import { WorkQueue } from "./work-queue.ts";

export type { HoldRequest, HoldResult, Settlement } from "./booking.ts";
export type { BillingLimits } from "./pending-work.ts";
export { BillingUnavailable } from "./store-faults.ts";

export interface DirectBillingOptions extends EngineServices {
  spool: SettlementSpool;
  durability: Durability;
  faults: BillingFaults;
  metrics?: BillingMetrics;
  limits: BillingLimits;
}

/** Accepts operations and queues them. The batch loop, the writer and the expiry of waits do the rest. */
export class DirectBilling implements BillingEngine {
  readonly disk: Disk;
  readonly unsavedSettlements: UnsavedSettlements;
  readonly #db: Db;
  readonly #processId: string;
  readonly #clock: Clock;
  readonly #limits: BillingLimits;
  readonly #queue = new WorkQueue();
  /** Requests whose hold is being replaced. */
  readonly #replacing = new Set<string>();
  readonly #progress: Progress;
  /** Null if the batches contain the progress. */
  readonly #progressWriter: ProgressWriter | null;
  readonly #writer: BatchWriter;
  readonly #loop: BatchLoop;
  readonly #expiry: WaiterExpiry;

  constructor(options: DirectBillingOptions) {
    const { db, log, clock, spool, limits } = options;
    this.#db = db;
    this.#processId = options.processId;
    this.#clock = clock;
    this.#limits = limits;
    this.disk = openDisk(options);
    this.unsavedSettlements = new UnsavedSettlements({
      spool,
      log,
      retryMs: limits.retryMs,
      metrics: options.metrics,
    });
    this.#progress = new Progress({
      limits,
      monotonicMs: clock.monotonicMs,
      onDue: () => (this.#progressWriter ?? this.#loop).schedule(),
    });
    this.#progressWriter = isSharedServer(db)
      ? new ProgressWriter({ db, progress: this.#progress, limits })
      : null;
    const shared = {
      limits,
      engine: db.engine,
      queue: this.#queue,
      progress: this.#progress,
      monotonicMs: clock.monotonicMs,
      unsavedSettlements: this.unsavedSettlements,
      // The settlement of its request ends a hold that was to be replaced, whichever of the two stands.
      release: ({ kind, request }: HoldOp) => {
        if (kind === "new") this.#releaseSoon(request.requestId, request.userId);
      },
    };
    const acceptsHolds = () => this.acceptsHolds();
    const writer = new BatchWriter({ ...options, ...shared, disk: this.disk, acceptsHolds });
    this.#writer = writer;
    const batchProgress = this.#progressWriter === null ? this.#progress : null;
    this.#loop = new BatchLoop({ ...shared, progress: batchProgress, writer });
    this.#expiry = new WaiterExpiry({ ...shared, writer, loop: this.#loop });
  }

  hold(request: HoldRequest): Promise<HoldResult> {
    return this.#queueHold({ kind: "new", request });
  }

  async replaceHold(request: HoldRequest): Promise<HoldResult> {
    const { requestId } = request;
    if (!this.#progress.isOpen(requestId)) return this.hold(request);
    // Progress of the old hold must not be written to the new one, so none is pending or in flight.
    this.#progress.close(requestId);
    this.#replacing.add(requestId);
    try {
      if (this.#progressWriter !== null)
        await withTimeout(this.#progressWriter.finishRunning(), this.#limits.holdTimeoutMs);
      return await this.#queueHold({ kind: "replacement", request });
    } finally {
      this.#replacing.delete(requestId);
      // The old hold stays.
      if (!this.#progress.isOpen(requestId)) this.trackChangedHold(requestId, UNSENT);
    }
  }

  async releaseHold(requestId: string): Promise<void> {
    if (!this.#progress.isOpen(requestId)) return;
    const { holdTimeoutMs } = this.#limits;
    const found = withBillingErrors(findHolds(this.#db, [requestId]));
    const hold = (await withTimeout(found, holdTimeoutMs)).get(requestId);
    if (hold?.processId !== this.#processId)
      throw new BillingUnavailable("another process has settled the request");
    this.#progress.close(requestId);
    await withTimeout(this.#queueRelease(requestId, hold.userId), holdTimeoutMs);
  }

  recordDispatch(requestId: string, accountId: string, upstreamModel: string): void {
    this.#progress.set(requestId, { state: "dispatched", accountId, upstreamModel });
  }

  recordRequeue(requestId: string): void {
    this.#progress.set(requestId, UNSENT);
  }

  checkpoint(requestId: string, outputTokens: number): void {
    this.#progress.recordOutputTokens(requestId, outputTokens);
  }

  settle(settlement: Settlement): Promise<void> {
    return this.#queueSettlement(settlement, "no");
  }

  book(settlement: Settlement): Promise<void> {
    return this.#queueSettlement(settlement, "elsewhere");
  }

  push(row: UsageRow): void {
    this.#queue.addRow(row);
    this.#loop.scheduleRows();
  }

  async flush(): Promise<void> {
    this.#progress.makeAllDue();
    await this.#loop.flush();
    await this.#progressWriter?.flush();
  }

  flushUser(): Promise<void> {
    return this.flush();
  }

  /** Tracks a hold that another component wrote with this progress. */
  trackHold(requestId: string, progress: HoldProgress): void {
    this.#progress.open(requestId, progress);
  }

  /** The same, for a hold whose progress is ahead of the stored row. */
  trackChangedHold(requestId: string, progress: HoldProgress): void {
    this.#progress.open(requestId, progress);
    this.#progress.set(requestId, progress);
  }

  /** Ends a hold without a charge or a usage row. */
  release(requestId: string, userId: string): void {
    this.#progress.close(requestId);
    this.#releaseSoon(requestId, userId);
  }

  findUnbookedRow(requestId: string): UsageRow | null {
    return this.#queue.findSettlement(requestId)?.settlement.row ?? null;
  }

  hasCapacity(): boolean {
    const { rows, settlementOps } = this.#queue.waiting;
    return rows.length + settlementOps.length < this.#limits.waitingMax;
  }

  acceptsHolds(): boolean {
    return this.disk.isWorking() && this.unsavedSettlements.isDurable();
  }

  isStoreResponding(): boolean {
    return !this.#loop.isStalled();
  }

  /** Direct billing keeps nothing that another process could recover while this one uses it. */
  recordHeartbeat(): void {}

  async handleRecalls(): Promise<void> {}

  handleStoreReplaced(): Promise<void> {
    return this.#writer.restoreTariffs();
  }

  isOpen(requestId: string): boolean {
    return (
      this.#progress.isOpen(requestId) ||
      this.#replacing.has(requestId) ||
      this.#queue.findSettlement(requestId) !== null
    );
  }

  stop(): Promise<void> {
    this.#loop.stop();
    this.#progressWriter?.stop();
    this.#expiry.stop();
    this.disk.stop();
    this.#progress.stop();
    return this.unsavedSettlements.close();
  }

  #queueHold(order: HoldOrder): Promise<HoldResult> {
    if (!this.acceptsHolds()) return Promise.reject(buildDiskUnavailable());
    const { promise, resolve, reject } = Promise.withResolvers<HoldResult>();
    const sinceMs = this.#clock.monotonicMs();
    this.#queue.addHold({ ...order, sinceMs, isRejected: false, hasFailed: false, resolve, reject });
    this.#loop.schedule();
    return promise;
  }

  #queueRelease(requestId: string, userId: string): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#queue.addRelease({ requestId, userId, resolve, reject });
    this.#loop.schedule();
    return promise;
  }

  /** The batch writer logs a release that the database rejects. */
  #releaseSoon(requestId: string, userId: string): void {
    this.#queueRelease(requestId, userId).catch(() => {});
  }

  #queueSettlement(settlement: Settlement, savedBy: SettleOp["savedBy"]): Promise<void> {
    const { requestId } = settlement.row;
    this.#progress.close(requestId);
    const pending = this.#queue.findSettlement(requestId);
    if (pending !== null) return pending.promise;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const sinceMs = this.#clock.monotonicMs();
    this.#queue.addSettlement({ settlement, sinceMs, savedBy, promise, resolve, reject });
    this.#loop.schedule();
    return promise;
  }
}
