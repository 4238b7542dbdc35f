/**
 * Direct billing: holds money before a request is sent and books its settlement before the client sees the end.
 * Operations that arrive during a transaction form the next batch, so a busy gateway needs few commits.
 */

import type { Clock } from "../../net/wire/clock.ts";
import type { BillingFaults } from "../../observe/billing-faults.ts";
import type { Log } from "../../observe/log.ts";
import { type Db, isUniqueViolation } from "../../store/engine/db.ts";
import { type HoldProgress, UNSENT } from "../../store/money/holds.ts";
import { learnBefore, UsageNumbers } from "../../store/usage/usage.ts";
import type { BillingEngine } from "./billing-engine.ts";
import {
  type BookingResult,
  book,
  type HoldRequest,
  type HoldResult,
  type Settlement,
  usageRows,
} from "./booking.ts";
import { type Disk, type Durability, openDisk } from "./disk.ts";
import {
  type BillingLimits,
  buildBatch,
  countOperations,
  halves,
  nothing,
  operationId,
  type PendingWork,
  type SettleOp,
  splitWork,
} from "./pending-work.ts";
import { openProgress } from "./progress.ts";
import { reportSettled } from "./report-settlements.ts";
import type { SettlementSpool } from "./settlement-spool.ts";
import {
  asError,
  BillingUnavailable,
  diskUnavailable,
  errorReason,
  inTime,
  isPermanent,
} from "./store-faults.ts";
import { isTooLong, LOOK_MS, pauseMs } from "./store-timeouts.ts";
import { openUnsavedSettlements, type UnsavedSettlements } from "./unsaved-settlements.ts";

export type { HoldRequest, HoldResult, Settlement } from "./booking.ts";
export type { BillingLimits } from "./pending-work.ts";
export { BillingUnavailable } from "./store-faults.ts";

export interface DirectBilling extends BillingEngine {
  hold(request: HoldRequest): Promise<HoldResult>;
  settle(settlement: Settlement): Promise<void>;
  readonly disk: Pick<Disk, "committed">;
  readonly overdue: Pick<UnsavedSettlements, "keep" | "booked">;
  /** Tracks a hold that another component wrote. `isNewer`: its progress is ahead of the stored row. */
  adopt(requestId: string, now: HoldProgress, isNewer: boolean): void;
  /** Ends a hold without a charge or a usage row. */
  release(requestId: string, userId: string): void;
}

export interface DirectBillingOptions {
  db: Db;
  log: Log;
  clock: Clock;
  incarnation: string;
  spool: SettlementSpool;
  durability: Durability;
  faults: BillingFaults;
  limits: BillingLimits;
}

export function openDirectBilling(options: DirectBillingOptions): DirectBilling {
  const { db, log, clock, incarnation, spool, limits } = options;
  let waiting = nothing();
  let inFlight: PendingWork | null = null;
  let running: Promise<void> | null = null;
  let scheduled = false;
  let committedMs = 0;
  let lastSize = 0;
  let rowsTimer: ReturnType<typeof setTimeout> | null = null;
  let stopped = false;
  let submittedCount = 0;
  let doneCount = 0;
  let failures = 0;
  const settling = new Map<string, SettleOp>();
  const kept = new Set<string>();
  const numbers = new UsageNumbers();
  const progress = openProgress(limits, wake, clock.monotonicMs);
  const disk = openDisk(options);
  const overdue = openUnsavedSettlements(spool, log, limits.retryMs);
  const isWell = () => disk.isWell() && overdue.isSafe();
  const expiryTimer = setInterval(expireWaiters, LOOK_MS).unref();
  /** Starts a batch in the next turn of the event loop, so that it contains everything submitted in this one. */
  function wake(): void {
    if (scheduled || running !== null || stopped) return;
    scheduled = true;
    const begin = () => {
      scheduled = false;
      void run();
    };
    // Measured at 5,000 requests/s: a wait of 1 ms halves the cost, because a commit writes whole pages.
    const isBusy = lastSize >= limits.companyMin && clock.monotonicMs() - committedMs < limits.companyMs;
    if (isBusy) setTimeout(begin, limits.companyMs);
    else setImmediate(begin);
  }

  function run(): Promise<void> {
    running ??= runBatches().finally(() => {
      running = null;
      if (isUrgent()) wake();
      else if (waiting.rows.length > 0) gatherRows();
    });
    return running;
  }

  async function runBatches(): Promise<void> {
    try {
      for (let work = take(); work !== null && !stopped; work = continuesAtOnce() ? take() : null) {
        inFlight = work;
        const failed = await write(work);
        if (failed) return;
        committedMs = clock.monotonicMs();
        lastSize = countOperations(work);
      }
    } finally {
      inFlight = null;
    }
  }

  /** PostgreSQL's round trips are long enough for a batch to collect, so the next one starts without a pause. */
  const continuesAtOnce = () => db.engine === "postgres" && isUrgent();

  const isUrgent = () =>
    waiting.holds.length + waiting.settles.length + waiting.releases.length > 0 ||
    waiting.rows.length >= limits.batchMax ||
    progress.isDue();

  function take(): PendingWork | null {
    waiting.progress = progress.take(limits.batchMax / 2);
    if (countOperations(waiting) === 0) return null;
    const { taken, left } = splitWork(waiting, limits.batchMax);
    waiting = left;
    return taken;
  }

  /** Returns true if the database is unavailable; the work is queued again then. */
  async function write(work: PendingWork): Promise<boolean> {
    const live = { ...work, holds: work.holds.filter(({ given }) => !given) };
    doneCount += work.holds.length - live.holds.length;
    if (countOperations(live) === 0) return false;
    for (let careful = failures > 0; ; careful = true) {
      try {
        const attempt = commit(live, careful);
        // SQLite runs on this thread, so it needs no timeout.
        const booked = await (db.engine === "sqlite" ? attempt : inTime(attempt, limits.transactionMs));
        if (failures > 0) log.info("till_write_succeeded", { failures });
        failures = 0;
        finish(live, booked);
        return false;
      } catch (error) {
        numbers.forget();
        // Part of the batch was written before, by a commit whose result was lost.
        if (isUniqueViolation(error) && !careful) continue;
        if (isPermanent(error)) return handleRejection(live, error);
        await handleUnavailable(live, error);
        return true;
      }
    }
  }

  async function commit(work: PendingWork, careful: boolean): Promise<BookingResult> {
    const batch = buildBatch(work);
    const bookOptions = { incarnation, nowMs: clock.nowMs(), careful, kept };
    await learnBefore(db, numbers, usageRows(batch));
    return numbers.within(db, (tx, numbering) => book(tx, batch, { ...bookOptions, numbering }));
  }

  function finish(work: PendingWork, booked: BookingResult): void {
    doneCount += countOperations(work) - work.progress.length;
    work.holds.forEach(({ asked: { tariff } }, index) => {
      if (booked.holds[index]?.kind === "held") kept.add(tariff.id);
    });
    booked.settlements.forEach((settled, index) => {
      const id = work.settles[index]?.settlement.row.requestId ?? "";
      reportSettled(log, options.faults, id, settled);
    });
    for (const id of booked.uncharged) log.error("settlement_uncharged", { request_id: id });
    const flushed = disk.committed();
    if (flushed === null) resolveWaiters(work, booked);
    else void flushed.then(() => resolveWaiters(work, booked));
  }

  function resolveWaiters(work: PendingWork, booked: BookingResult): void {
    work.settles.forEach(endSettlement);
    work.holds.forEach((op, index) => {
      const result = booked.holds[index];
      if (result === undefined) return;
      const { requestId, userId } = op.asked;
      if (op.given || !isWell()) {
        if (result.kind === "held") queueRelease(requestId, userId);
        if (!op.given) op.reject(diskUnavailable());
        return;
      }
      if (result.kind === "held") progress.open(requestId, UNSENT);
      op.resolve(result);
    });
  }

  function endSettlement(op: SettleOp): void {
    settling.delete(op.settlement.row.requestId);
    op.resolve();
    overdue.booked(op.settlement.row.requestId);
  }

  /** The database rejected the batch permanently. Halves it and retries to isolate the bad operation. */
  async function handleRejection(work: PendingWork, error: unknown): Promise<boolean> {
    if (countOperations(work) > 1) {
      const [first, second] = halves(work);
      const failed = await write(first);
      if (failed) {
        putBack(second);
        return true;
      }
      return write(second);
    }
    log.error("till_refused", { reason: errorReason(error), request_id: operationId(work) });
    doneCount += countOperations(work) - work.progress.length;
    for (const op of work.holds) op.reject(asError(error));
    for (const op of work.settles) {
      await overdue.keepForOperator(op.settlement);
      settling.delete(op.settlement.row.requestId);
      if (op.kept === "elsewhere") op.reject(asError(error));
      else op.resolve();
    }
    return false;
  }

  async function handleUnavailable(work: PendingWork, error: unknown): Promise<void> {
    failures++;
    if (failures === 1) {
      log.error("till_write_failed", {
        holds: work.holds.length,
        settlements: work.settles.length,
        rows: work.rows.length,
        reason: errorReason(error),
      });
    }
    putBack(work);
    inFlight = nothing();
    await Bun.sleep(pauseMs(limits, failures));
  }

  function putBack(work: PendingWork): void {
    waiting.holds.unshift(...work.holds.filter(({ given }) => !given));
    waiting.settles.unshift(...work.settles);
    waiting.releases.unshift(...work.releases);
    waiting.rows.unshift(...work.rows);
    progress.putBack(work.progress);
    // The outcome of these transactions is unknown. If the hold was written, the release returns its money.
    for (const op of work.holds) {
      op.tried = true;
      if (op.given) queueRelease(op.asked.requestId, op.asked.userId);
    }
    doneCount += work.holds.filter(({ given }) => given).length;
  }

  function expireWaiters(): void {
    const nowMs = clock.monotonicMs();
    // SQLite commits nothing while another process writes to its file, although it is available.
    const signs = { nowMs, endedMs: committedMs, isThere: db.engine === "sqlite" && failures === 0 };
    const lateSettles: SettleOp[] = [];
    for (const work of inFlight === null ? [waiting] : [inFlight, waiting]) {
      for (const op of work.holds) {
        if (op.given || !isTooLong(limits, op.sinceMs, signs)) continue;
        op.given = true;
        if (op.tried && work === waiting) queueRelease(op.asked.requestId, op.asked.userId);
        op.reject(new BillingUnavailable("the store took too long"));
      }
      for (const op of work.settles) {
        if (op.kept === "no" && nowMs - op.sinceMs >= limits.settlePatienceMs) lateSettles.push(op);
      }
    }
    doneCount += waiting.holds.filter(({ given }) => given).length;
    waiting.holds = waiting.holds.filter(({ given }) => !given);
    if (lateSettles.length > 0) void keep(lateSettles);
  }

  async function keep(ops: readonly SettleOp[]): Promise<void> {
    for (const op of ops) op.kept = "overdue";
    await overdue.keep(ops.map(({ settlement }) => settlement));
    for (const op of ops) op.resolve();
  }

  function queueRelease(requestId: string, userId: string): void {
    waiting.releases.push({ requestId, userId });
    submittedCount++;
    wake();
  }

  function queueSettlement(settlement: Settlement, where: "no" | "elsewhere"): Promise<void> {
    const { requestId } = settlement.row;
    progress.close(requestId);
    const pending = settling.get(requestId);
    if (pending !== undefined) return pending.promise;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const op: SettleOp = { settlement, sinceMs: clock.monotonicMs(), kept: where, promise, resolve, reject };
    settling.set(requestId, op);
    waiting.settles.push(op);
    submittedCount++;
    wake();
    return promise;
  }

  async function flush(): Promise<void> {
    const target = submittedCount;
    progress.hurry();
    do {
      const before = doneCount;
      await run();
      const isLeft = doneCount < target || progress.isDue();
      if (isLeft && doneCount === before && failures > 0)
        throw new BillingUnavailable("the store takes nothing");
    } while (doneCount < target || progress.isDue());
  }

  function gatherRows(): void {
    rowsTimer ??= setTimeout(() => {
      rowsTimer = null;
      void run();
    }, limits.gatherMs);
  }

  return {
    hold(target) {
      if (!isWell()) return Promise.reject(diskUnavailable());
      const { promise, resolve, reject } = Promise.withResolvers<HoldResult>();
      const sinceMs = clock.monotonicMs();
      waiting.holds.push({ asked: target, sinceMs, given: false, tried: false, resolve, reject });
      submittedCount++;
      wake();
      return promise;
    },
    dispatched: (requestId, accountId, upstreamModel) =>
      progress.set(requestId, { state: "dispatched", accountId, upstreamModel }),
    undispatched: (requestId) => progress.set(requestId, UNSENT),
    checkpoint: (requestId, outputTokens) => progress.count(requestId, outputTokens),
    settle: (settlement) => queueSettlement(settlement, "no"),
    book: (settlement) => queueSettlement(settlement, "elsewhere"),
    push(row) {
      waiting.rows.push(row);
      submittedCount++;
      if (waiting.rows.length >= limits.batchMax) wake();
      else gatherRows();
    },
    flush,
    settleUp: flush,
    adopt(requestId, now, isNewer) {
      progress.open(requestId, now);
      if (isNewer) progress.set(requestId, now);
    },
    release(requestId, userId) {
      progress.close(requestId);
      queueRelease(requestId, userId);
    },
    unbooked: (requestId) => settling.get(requestId)?.settlement.row ?? null,
    hasRoom: () => waiting.rows.length + waiting.settles.length < limits.waitingMax,
    isWell,
    isOpen: (requestId) => progress.isOpen(requestId) || settling.has(requestId),
    stop() {
      stopped = true;
      clearInterval(expiryTimer);
      if (rowsTimer !== null) clearTimeout(rowsTimer);
      disk.stop();
      progress.stop();
      return overdue.close();
    },
    disk,
    overdue,
  };
}
