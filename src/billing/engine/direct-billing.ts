/**
 * The till: money is held before a request goes upstream and booked before its client sees the end. What is asked while
 * one transaction runs goes into the next one together, so a busy gateway pays for few commits.
 */

import type { Clock } from "../../net/wire/clock.ts";
import type { BillingFaults } from "../../observe/billing-faults.ts";
import type { Log } from "../../observe/log.ts";
import { type Db, isUniqueViolation } from "../../store/engine/db.ts";
import { type HoldProgress, UNSENT } from "../../store/money/holds.ts";
import { learnBefore, UsageNumbers, type UsageRow } from "../../store/usage/usage.ts";
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

export interface BillingEngine {
  /** Durable when it answers, at once or later. Rejects with `TillUnavailable` if the store is away: nothing is held. */
  hold(asked: HoldRequest): HoldResult | Promise<HoldResult>;
  /** Bytes are about to go to this account. Written within `progressMs`; nobody waits for it. */
  dispatched(requestId: string, accountId: string, upstreamModel: string): void;
  /** Back in line: nothing is at an account any more. */
  undispatched(requestId: string): void;
  /** Output tokens so far; the latest counts, written about once a second. */
  checkpoint(requestId: string, outputTokens: number): void;
  /**
   * Usage row, roll-up, entry, wallet or window and the hold's end in one transaction. Resolves when it is durable,
   * or kept for a store that is away; null where it is already. The same request twice is booked once.
   */
  settle(settlement: Settlement): Promise<void> | null;
  /** The same, but resolves only when the store has it. For what is safe elsewhere until then. */
  book(settlement: Settlement): Promise<void>;
  /** A row without money, and nobody waits for it. Where there is a journal it outlives the process from here on. */
  push(row: UsageRow): void;
  /** Resolves when all that was asked so far is in the store; rejects when the store does not take it. */
  flush(): Promise<void>;
  /** Resolves when the store alone tells what this user has, what is held of it, and all that was used so far. */
  settleUp(userId: string): Promise<void>;
  /** The row of one that has ended, and that the store does not know yet. */
  unbooked(requestId: string): UsageRow | null;
  /** False while so much waits for the store that more would not fit in memory. */
  hasRoom(): boolean;
  /** False while the disk fails, or takes nothing: no hold is made then. */
  isWell(): boolean;
  /** Whether a request of this process is under way, or its end still on its way to the store. */
  isOpen(requestId: string): boolean;
  /** After a flush: what still waits is lost, but for what is on disk. */
  stop(): Promise<void>;
}

export interface DirectBilling extends BillingEngine {
  hold(asked: HoldRequest): Promise<HoldResult>;
  settle(settlement: Settlement): Promise<void>;
  readonly disk: Pick<Disk, "committed">;
  readonly overdue: Pick<UnsavedSettlements, "keep" | "booked">;
  /** A hold of this process that somebody else wrote. `isNewer`: it has come further than its row tells. */
  adopt(requestId: string, now: HoldProgress, isNewer: boolean): void;
  /** Ends a hold with nothing to show for it. */
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
  let underWay: PendingWork | null = null;
  let running: Promise<void> | null = null;
  let scheduled = false;
  let committedMs = 0;
  let lastSize = 0;
  let rowsTimer: ReturnType<typeof setTimeout> | null = null;
  let stopped = false;
  let asked = 0;
  let done = 0;
  let failures = 0;
  const settling = new Map<string, SettleOp>();
  const kept = new Set<string>();
  const numbers = new UsageNumbers();
  const progress = openProgress(limits, wake, clock.monotonicMs);
  const disk = openDisk(options);
  const overdue = openUnsavedSettlements(spool, log, limits.retryMs);
  const isWell = () => disk.isWell() && overdue.isSafe();
  const patience = setInterval(losePatience, LOOK_MS).unref();
  /** Everything asked in this turn of the event loop is there when the next one begins. */
  function wake(): void {
    if (scheduled || running !== null || stopped) return;
    scheduled = true;
    const begin = () => {
      scheduled = false;
      void run();
    };
    // Measured at 5,000 requests a second: a millisecond's company halves the cost, for a commit writes whole pages.
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
      for (let work = take(); work !== null && !stopped; work = goesOn() ? take() : null) {
        underWay = work;
        const failed = await write(work);
        if (failed) return;
        committedMs = clock.monotonicMs();
        lastSize = countOperations(work);
      }
    } finally {
      underWay = null;
    }
  }

  /** PostgreSQL's round trips bring company enough. */
  const goesOn = () => db.engine === "postgres" && isUrgent();

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

  /** True if the store is away; what was to be written then waits again. */
  async function write(work: PendingWork): Promise<boolean> {
    const live = { ...work, holds: work.holds.filter(({ given }) => !given) };
    done += work.holds.length - live.holds.length;
    if (countOperations(live) === 0) return false;
    for (let careful = failures > 0; ; careful = true) {
      try {
        const attempt = commit(live, careful);
        // SQLite answers on this very thread: it is never silent.
        const booked = await (db.engine === "sqlite" ? attempt : inTime(attempt, limits.transactionMs));
        if (failures > 0) log.info("till_write_succeeded", { failures });
        failures = 0;
        finish(live, booked);
        return false;
      } catch (error) {
        numbers.forget();
        // The store knows some of it: written before, when the answer got lost.
        if (isUniqueViolation(error) && !careful) continue;
        if (isPermanent(error)) return refuse(live, error);
        await away(live, error);
        return true;
      }
    }
  }

  async function commit(work: PendingWork, careful: boolean): Promise<BookingResult> {
    const batch = buildBatch(work);
    const how = { incarnation, nowMs: clock.nowMs(), careful, kept };
    await learnBefore(db, numbers, usageRows(batch));
    return numbers.within(db, (tx, numbering) => book(tx, batch, { ...how, numbering }));
  }

  function finish(work: PendingWork, booked: BookingResult): void {
    done += countOperations(work) - work.progress.length;
    work.holds.forEach(({ asked: { tariff } }, index) => {
      if (booked.holds[index]?.kind === "held") kept.add(tariff.id);
    });
    booked.settlements.forEach((settled, index) => {
      const id = work.settles[index]?.settlement.row.requestId ?? "";
      reportSettled(log, options.faults, id, settled);
    });
    for (const id of booked.uncharged) log.error("settlement_uncharged", { request_id: id });
    const flushed = disk.committed();
    if (flushed === null) answer(work, booked);
    else void flushed.then(() => answer(work, booked));
  }

  function answer(work: PendingWork, booked: BookingResult): void {
    work.settles.forEach(end);
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

  function end(op: SettleOp): void {
    settling.delete(op.settlement.row.requestId);
    op.resolve();
    overdue.booked(op.settlement.row.requestId);
  }

  /** The store is there and will not have it, whoever asks again: one bad operation must not spoil the others. */
  async function refuse(work: PendingWork, error: unknown): Promise<boolean> {
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
    done += countOperations(work) - work.progress.length;
    for (const op of work.holds) op.reject(asError(error));
    for (const op of work.settles) {
      await overdue.keepForOperator(op.settlement);
      settling.delete(op.settlement.row.requestId);
      if (op.kept === "elsewhere") op.reject(asError(error));
      else op.resolve();
    }
    return false;
  }

  async function away(work: PendingWork, error: unknown): Promise<void> {
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
    underWay = nothing();
    await Bun.sleep(pauseMs(limits, failures));
  }

  function putBack(work: PendingWork): void {
    waiting.holds.unshift(...work.holds.filter(({ given }) => !given));
    waiting.settles.unshift(...work.settles);
    waiting.releases.unshift(...work.releases);
    waiting.rows.unshift(...work.rows);
    progress.putBack(work.progress);
    // Whether these were written is unknown: should they have been, this gives their money back.
    for (const op of work.holds) {
      op.tried = true;
      if (op.given) queueRelease(op.asked.requestId, op.asked.userId);
    }
    done += work.holds.filter(({ given }) => given).length;
  }

  function losePatience(): void {
    const nowMs = clock.monotonicMs();
    // SQLite is silent while another process writes to its file.
    const signs = { nowMs, endedMs: committedMs, isThere: db.engine === "sqlite" && failures === 0 };
    const late: SettleOp[] = [];
    for (const work of underWay === null ? [waiting] : [underWay, waiting]) {
      for (const op of work.holds) {
        if (op.given || !isTooLong(limits, op.sinceMs, signs)) continue;
        op.given = true;
        if (op.tried && work === waiting) queueRelease(op.asked.requestId, op.asked.userId);
        op.reject(new BillingUnavailable("the store took too long"));
      }
      for (const op of work.settles) {
        if (op.kept === "no" && nowMs - op.sinceMs >= limits.settlePatienceMs) late.push(op);
      }
    }
    done += waiting.holds.filter(({ given }) => given).length;
    waiting.holds = waiting.holds.filter(({ given }) => !given);
    if (late.length > 0) void keep(late);
  }

  async function keep(ops: readonly SettleOp[]): Promise<void> {
    for (const op of ops) op.kept = "overdue";
    await overdue.keep(ops.map(({ settlement }) => settlement));
    for (const op of ops) op.resolve();
  }

  function queueRelease(requestId: string, userId: string): void {
    waiting.releases.push({ requestId, userId });
    asked++;
    wake();
  }

  function queueSettlement(settlement: Settlement, where: "no" | "elsewhere"): Promise<void> {
    const { requestId } = settlement.row;
    progress.close(requestId);
    const known = settling.get(requestId);
    if (known !== undefined) return known.promise;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const op: SettleOp = { settlement, sinceMs: clock.monotonicMs(), kept: where, promise, resolve, reject };
    settling.set(requestId, op);
    waiting.settles.push(op);
    asked++;
    wake();
    return promise;
  }

  async function flush(): Promise<void> {
    const wanted = asked;
    progress.hurry();
    do {
      const before = done;
      await run();
      const isLeft = done < wanted || progress.isDue();
      if (isLeft && done === before && failures > 0) throw new BillingUnavailable("the store takes nothing");
    } while (done < wanted || progress.isDue());
  }

  function gatherRows(): void {
    rowsTimer ??= setTimeout(() => {
      rowsTimer = null;
      void run();
    }, limits.gatherMs);
  }

  return {
    hold(wanted) {
      if (!isWell()) return Promise.reject(diskUnavailable());
      const { promise, resolve, reject } = Promise.withResolvers<HoldResult>();
      const sinceMs = clock.monotonicMs();
      waiting.holds.push({ asked: wanted, sinceMs, given: false, tried: false, resolve, reject });
      asked++;
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
      asked++;
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
      clearInterval(patience);
      if (rowsTimer !== null) clearTimeout(rowsTimer);
      disk.stop();
      progress.stop();
      return overdue.close();
    },
    disk,
    overdue,
  };
}
