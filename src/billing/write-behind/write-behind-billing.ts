/**
 * Write-behind billing, for the embedded database. Under load, a part of each wallet is reserved and holds are taken
 * from it in memory. They are journal lines before they are acknowledged; the database books them in batches, with
 * all unpaid rows. Direct billing handles a quiet gateway, subscriptions, low wallets and lasting requests.
 */

import type { Db } from "../../store/engine/db.ts";
import { UNSENT } from "../../store/money/holds.ts";
import { clampCount, type UsageRow } from "../../store/usage/usage-row.ts";
import type { BillingEngine } from "../engine/billing-engine.ts";
import type { HoldRequest, HoldResult, Settlement } from "../engine/booking.ts";
import { chargeHold } from "../engine/debt.ts";
import { type DirectBillingOptions, openDirectBilling } from "../engine/direct-billing.ts";
import { openDisk } from "../engine/disk.ts";
import {
  asError,
  BillingUnavailable,
  diskUnavailable,
  errorReason,
  inTime,
  isPermanent,
} from "../engine/store-faults.ts";
import type { Journal } from "../journal/journal.ts";
import { settleOverrun } from "./overrun.ts";
import { isSameProgress, openWriteBehindProgress } from "./progress.ts";
import { openReservationStore, type ReservationLimits } from "./reservation-store.ts";
import { RowBatch } from "./row-batch.ts";
import {
  emptyReservationState,
  endedRow,
  endHold,
  endUnpaid,
  forgetHold,
  heldAmount,
  neededSegment,
  type ReservedHold,
  startHold,
  type WalletReservation,
} from "./wallet-reservations.ts";

export interface WriteBehindLimits extends ReservationLimits {
  /** Number of holds within 100 ms from which write-behind billing is used. */
  busyHolds: number;
  /** A hold that is open for this long is stored in the database, so that its journal segment can be deleted. */
  moveAfterMs: number;
  /** A reservation is released when its user made no request for this long. */
  idleMs: number;
  lookMs: number;
  /** Maximum number of rows in one batch. A batch is booked and charged together. */
  batchRows: number;
}

export interface WriteBehindOptions extends DirectBillingOptions {
  journal: Journal;
  books: Db;
  /** Checkpoints the WAL of the database. */
  moveLog(): void;
  express: WriteBehindLimits;
}

interface PendingHold {
  asked: HoldRequest;
  resolve(result: HoldResult | PromiseLike<HoldResult>): void;
  reject(error: Error): void;
}

const BUSY_SPAN_MS = 100;

export function openWriteBehindBilling(options: WriteBehindOptions): BillingEngine {
  const { db, log, clock, journal, express, limits } = options;
  const plain = openDirectBilling(options);
  const disk = openDisk({ ...options, db: { engine: "sqlite", flush: journal.sync } });
  const lane = emptyReservationState(express.batchRows);
  const progress = openWriteBehindProgress(limits, writeProgress, clock.monotonicMs);
  const lending = openReservationStore({ ...options, lane, plain, limits: { ...limits, ...express } });
  const { leases, requests } = lane;
  /** Users whose balance is too low for a reservation, until the next check. */
  const lowBalanceUsers = new Set<string>();
  /** Users with a direct hold in progress, with their number: no reservation is made for them. */
  const directHolds = new Map<string, number>();
  /** Users with requests that wait for a reservation, with their number. */
  const waitingUsers = new Map<string, number>();
  let pendingHolds: PendingHold[] = [];
  let isTidying = false;
  let spanMs = 0;
  let spanHolds = 0;
  let lastSpanHolds = 0;
  let brokenUntilMs = Number.NEGATIVE_INFINITY;
  let unpaidSegment = 0;
  let stopped = false;
  const overruns = { lending, plain, log, limits, isStopped: () => stopped };
  const isWell = () => disk.isWell() && plain.isWell();
  const tidyTimer = setInterval(scheduleTidy, express.lookMs);
  tidyTimer.unref();

  function isBusy(nowMs: number): boolean {
    if (nowMs - spanMs >= BUSY_SPAN_MS) {
      lastSpanHolds = nowMs - spanMs < 2 * BUSY_SPAN_MS ? spanHolds : 0;
      spanHolds = 0;
      spanMs = nowMs;
    }
    spanHolds++;
    return nowMs >= brokenUntilMs && Math.max(spanHolds, lastSpanHolds) >= express.busyHolds;
  }

  function hold(asked: HoldRequest): HoldResult | Promise<HoldResult> {
    if (!isWell()) return Promise.reject(diskUnavailable());
    if (asked.charge !== "balance" || stopped) return plain.hold(asked);
    const { userId } = asked;
    const nowMs = clock.monotonicMs();
    const isWorthIt = isBusy(nowMs);
    if (asked.isLasting || directHolds.has(userId)) return holdDirectly(asked);
    const lease = findUsable(asked, nowMs);
    if (lease !== null) return grant(asked, lease, nowMs);
    if (!isReserved(userId) && (!isWorthIt || lowBalanceUsers.has(userId))) return holdDirectly(asked);
    const { promise, resolve, reject } = Promise.withResolvers<HoldResult>();
    if (pendingHolds.length === 0) setImmediate(reserveForPending);
    pendingHolds.push({ asked, resolve, reject });
    add(waitingUsers, userId, 1);
    return promise;
  }

  const isReserved = (userId: string) => leases.has(userId) || waitingUsers.has(userId);

  /** A reservation that covers the hold. */
  function findUsable({ userId, wantedNano, tariff }: HoldRequest, nowMs: number): WalletReservation | null {
    const lease = leases.get(userId);
    if (lease === undefined || lease.isClosing || lease.freeNano < wantedNano) return null;
    return lending.isKept(tariff.id) && nowMs >= brokenUntilMs ? lease : null;
  }

  async function reserveForPending(): Promise<void> {
    const batch = pendingHolds;
    pendingHolds = [];
    let isUnavailable = false;
    try {
      const reserving = lending.lend(
        batch.map((op) => op.asked).filter(({ userId }) => !directHolds.has(userId)),
      );
      await inTime(reserving, limits.holdPatienceMs);
    } catch (error) {
      isUnavailable = error instanceof BillingUnavailable;
      log.error("lease_failed", { reason: errorReason(error) });
    }
    for (const op of batch) add(waitingUsers, op.asked.userId, -1);
    for (const op of batch) {
      const nowMs = clock.monotonicMs();
      const lease = findUsable(op.asked, nowMs);
      if (lease !== null) op.resolve(grant(op.asked, lease, nowMs));
      else if (isUnavailable) op.reject(new BillingUnavailable("the store took too long"));
      else {
        if (op.asked.wantedNano > 0n) lowBalanceUsers.add(op.asked.userId);
        op.resolve(holdDirectly(op.asked));
      }
    }
  }

  function grant(
    asked: HoldRequest,
    lease: WalletReservation,
    sinceMs: number,
  ): HoldResult | Promise<HoldResult> {
    const held: ReservedHold = {
      asked,
      atMs: clock.nowMs(),
      lease,
      segment: 0,
      sinceMs,
      progress: UNSENT,
      isChanged: false,
      isOpen: true,
      moving: null,
    };
    try {
      held.segment = journal.held(held);
    } catch (error) {
      handleJournalFailure(error);
      return Promise.reject(new BillingUnavailable("the journal cannot be written"));
    }
    startHold(lane, held);
    const result: HoldResult = { kind: "held", amountNano: asked.wantedNano, subscriptionId: null };
    const flushed = disk.committed();
    return flushed === null ? result : afterFlush(flushed, held, result);
  }

  /** Separate from `grant`, because a closure there would keep the variables of every call alive. */
  function afterFlush(flushed: Promise<void>, held: ReservedHold, result: HoldResult): Promise<HoldResult> {
    return flushed.then(() => {
      if (isWell()) return result;
      void dropHold(held);
      throw diskUnavailable();
    });
  }

  /** The hold was not acknowledged. Recovery charges nothing for it either. */
  async function dropHold(held: ReservedHold): Promise<void> {
    while (held.moving !== null) await held.moving;
    const { requestId, userId, wantedNano } = held.asked;
    if (!held.isOpen) return plain.release(requestId, userId);
    held.lease.freeNano += wantedNano;
    forgetHold(lane, held);
  }

  /** Holds through direct billing, which sees the whole wallet while nothing is reserved. */
  async function holdDirectly(request: HoldRequest): Promise<HoldResult> {
    const { userId } = request;
    add(directHolds, userId, 1);
    try {
      if (isReserved(userId)) await inTime(withBillingErrors(lending.close([userId])), limits.holdPatienceMs);
      return await plain.hold(request);
    } finally {
      add(directHolds, userId, -1);
    }
  }

  async function withBillingErrors(done: Promise<void>): Promise<void> {
    try {
      await done;
    } catch (error) {
      throw isPermanent(error) ? asError(error) : new BillingUnavailable(errorReason(error));
    }
  }

  /** Writes the progress of open holds to the journal. Recovery settles by it. */
  function writeProgress(due: Iterable<ReservedHold>): boolean {
    try {
      for (const group of isSameProgress(due)) journal.progressed(group);
    } catch (error) {
      handleJournalFailure(error);
      return false;
    }
    return true;
  }

  function settle(settlement: Settlement): Promise<void> | null {
    const held = requests.get(settlement.row.requestId);
    if (held === undefined) return plain.settle(settlement);
    if (held instanceof RowBatch) return held.stored === null ? disk.committed() : waitUntilStored(held);
    // The hold is being stored in the database; if that fails, it is still reserved here.
    if (held.moving !== null) return settledAfter(held.moving, settlement);
    const { wantedNano: amountNano } = held.asked;
    if (settlement.chargedNano > amountNano) return settleOverrun(overruns, held, settlement);
    const row = clampCount(chargeHold({ amountNano, subscriptionId: null }, settlement).row);
    const batch = endHold(lane, held, row);
    lending.ended();
    try {
      journal.settled(row);
    } catch (error) {
      const saved = saveOrStore(batch, row);
      handleJournalFailure(error);
      return saved;
    }
    return disk.committed();
  }

  const settledAfter = (moving: Promise<void>, settlement: Settlement) =>
    moving.then(() => settle(settlement) ?? undefined);

  const waitUntilStored = (batch: RowBatch) =>
    inTime(batch.untilStored(), limits.settlePatienceMs).catch(() => {});

  /** Waits for the database; after a timeout the settlement is saved, as in direct billing. */
  function saveOrStore(batch: RowBatch, row: UsageRow): Promise<void> {
    const { overdue } = plain;
    const { requestId, chargedNano } = row;
    const stored = batch.untilStored();
    void stored.then(() => overdue.booked(requestId));
    return inTime(stored, limits.settlePatienceMs).catch(() => overdue.keep([{ row, chargedNano }]));
  }

  /** If the journal cannot be written, the row still goes to the database. */
  function push(row: UsageRow): void {
    const stored = clampCount(row);
    if (clock.monotonicMs() >= brokenUntilMs) {
      try {
        unpaidSegment = journal.recorded(stored);
      } catch (error) {
        handleJournalFailure(error);
      }
    }
    endUnpaid(lane, stored, unpaidSegment);
    lending.ended();
  }

  /** The journal cannot be written: new holds are refused, and finished requests are booked at once. */
  function handleJournalFailure(error: unknown): void {
    log.error("journal_failed", { reason: errorReason(error) });
    brokenUntilMs = clock.monotonicMs() + limits.retryMs;
    void lending.bookAll();
  }

  function scheduleTidy(): void {
    lowBalanceUsers.clear();
    if (isTidying) return;
    isTidying = true;
    void tidy(clock.monotonicMs()).finally(() => {
      isTidying = false;
    });
  }

  async function tidy(nowMs: number): Promise<void> {
    const logFailure = (error: unknown) => log.error("lease_failed", { reason: errorReason(error) });
    const idle = [...leases.values()].filter(({ usedMs }) => nowMs - usedMs >= express.idleMs);
    await lending.close(idle.map(({ userId }) => userId)).catch(logFailure);
    await lending.move(listLastingHolds(nowMs - express.moveAfterMs)).catch(logFailure);
    await pruneJournal().catch(logFailure);
  }

  function listLastingHolds(sinceMs: number): ReservedHold[] {
    const holds: ReservedHold[] = [];
    for (const held of requests.values()) {
      if (held instanceof RowBatch) continue;
      if (held.sinceMs > sinceMs) break;
      holds.push(held);
    }
    return holds;
  }

  async function pruneJournal(): Promise<void> {
    const needed = neededSegment(lane);
    if (!isWell() || (!journal.hasBefore(needed) && lane.unpaid.size === 0)) return;
    // The rows must be on disk before the journal deletes their segments.
    await db.flush();
    journal.forgetBefore(Math.min(needed, neededSegment(lane)));
    // From here on unpaid rows survive a power failure too. By now most of them are in the database anyway.
    await journal.sync();
  }

  /** What cannot be released now is released at the next start. */
  async function closeAll(): Promise<void> {
    try {
      await lending.close([...leases.keys()]);
    } catch (error) {
      log.error("lease_failed", { reason: errorReason(error) });
    }
  }

  return {
    hold,
    dispatched(requestId, accountId, upstreamModel) {
      const held = heldAmount(lane, requestId);
      if (held !== null) progress.set(held, { state: "dispatched", accountId, upstreamModel });
      else plain.dispatched(requestId, accountId, upstreamModel);
    },
    undispatched(requestId) {
      const held = heldAmount(lane, requestId);
      if (held !== null) progress.set(held, UNSENT);
      else plain.undispatched(requestId);
    },
    checkpoint(requestId, outputTokens) {
      const held = heldAmount(lane, requestId);
      if (held !== null) progress.count(held, outputTokens);
      else plain.checkpoint(requestId, outputTokens);
    },
    settle,
    async book(settlement) {
      const { requestId, userId } = settlement.row;
      if (!requests.has(requestId)) return plain.book(settlement);
      await settle(settlement);
      if (userId !== null) await withBillingErrors(lending.close([userId]));
    },
    push,
    async settleUp(userId) {
      await withBillingErrors(lending.close([userId]));
      await withBillingErrors(lending.bookRowsOf(userId));
      await plain.settleUp(userId);
    },
    async flush() {
      if (!(await lending.bookAll())) throw new BillingUnavailable("the store takes nothing");
      await plain.flush();
    },
    unbooked: (requestId) => endedRow(lane, requestId) ?? plain.unbooked(requestId),
    hasRoom: () => plain.hasRoom() && lane.rows < limits.waitingMax,
    isWell,
    isOpen: (requestId) => requests.has(requestId) || plain.isOpen(requestId),
    async stop() {
      stopped = true;
      clearInterval(tidyTimer);
      progress.stop();
      lending.stop();
      await closeAll();
      disk.stop();
      await db.flush().catch(() => {});
      await journal.close(requests.size === 0 && lane.waiting.size === 0);
      await plain.stop();
    },
  };
}

function add(counts: Map<string, number>, name: string, change: 1 | -1): void {
  const sum = (counts.get(name) ?? 0) + change;
  if (sum === 0) counts.delete(name);
  else counts.set(name, sum);
}
