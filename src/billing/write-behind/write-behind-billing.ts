/**
 * The express lane of the till, for the embedded store. While many requests are paid from wallets, a part of each
 * wallet is set aside once, and holds are taken from that part in memory. What is promised is a line of the journal
 * before anybody hears of it, and the store books what was spent a little later, many requests at once. A quiet
 * gateway, subscriptions, wallets with little left and requests that last are the plain till's: there a hold is a row.
 * Rows that nobody pays for are always in the journal, and booked with the others.
 */

import type { Db } from "../../store/engine/db.ts";
import { UNSENT } from "../../store/money/holds.ts";
import { clampCount, type UsageRow } from "../../store/usage/usage-row.ts";
import type { HoldRequest, HoldResult, Settlement } from "../engine/booking.ts";
import { chargeHold } from "../engine/debt.ts";
import {
  type BillingEngine,
  type DirectBillingOptions,
  openDirectBilling,
} from "../engine/direct-billing.ts";
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
  /** So many holds within a tenth of a second make the lane worth its while. */
  busyHolds: number;
  /** A hold that lasts becomes a row, so that the journal may forget it. */
  moveAfterMs: number;
  /** What is set aside goes back when its user has been quiet for so long. */
  idleMs: number;
  lookMs: number;
  /** Rows of one batch: they are booked, and charged, together. */
  batchRows: number;
}

export interface WriteBehindOptions extends DirectBillingOptions {
  journal: Journal;
  /** A second connection to the same store. */
  books: Db;
  /** Of the store, into its file. */
  moveLog(): void;
  express: WriteBehindLimits;
}

interface Wish {
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
  const progress = openWriteBehindProgress(limits, tellProgress, clock.monotonicMs);
  const lending = openReservationStore({
    ...options,
    lane,
    plain,
    limits: { ...limits, ...express },
  });
  const { leases, requests } = lane;
  /** Users who have too little to set some of it aside, until somebody looks again. */
  const poor = new Set<string>();
  /** Users whose holds are asked of the store at this moment: nothing is set aside under them. */
  const exact = new Map<string, number>();
  /** Users who wait for something to be set aside, and how many of their requests. */
  const borrowers = new Map<string, number>();
  let wishes: Wish[] = [];
  let isTidying = false;
  let spanMs = 0;
  let spanHolds = 0;
  let lastSpanHolds = 0;
  let brokenUntilMs = Number.NEGATIVE_INFINITY;
  /** Of the latest row that nobody pays for. */
  let rowSegment = 0;
  let stopped = false;
  const overruns = { lending, plain, log, limits, isStopped: () => stopped };
  const isWell = () => disk.isWell() && plain.isWell();
  const looking = setInterval(look, express.lookMs);
  looking.unref();

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
    if (asked.isLasting || exact.has(userId)) return exactly(asked);
    const lease = leaseFor(asked, nowMs);
    if (lease !== null) return grant(asked, lease, nowMs);
    if (!isLent(userId) && (!isWorthIt || poor.has(userId))) return exactly(asked);
    const { promise, resolve, reject } = Promise.withResolvers<HoldResult>();
    if (wishes.length === 0) setImmediate(lend);
    wishes.push({ asked, resolve, reject });
    add(borrowers, userId, 1);
    return promise;
  }

  const isLent = (userId: string) => leases.has(userId) || borrowers.has(userId);

  /** One that it can be taken from. */
  function leaseFor({ userId, wantedNano, tariff }: HoldRequest, nowMs: number): WalletReservation | null {
    const lease = leases.get(userId);
    if (lease === undefined || lease.isClosing || lease.freeNano < wantedNano) return null;
    return lending.isKept(tariff.id) && nowMs >= brokenUntilMs ? lease : null;
  }

  async function lend(): Promise<void> {
    const asked = wishes;
    wishes = [];
    let isAway = false;
    try {
      const lent = lending.lend(asked.map((wish) => wish.asked).filter(({ userId }) => !exact.has(userId)));
      await inTime(lent, limits.holdPatienceMs);
    } catch (error) {
      isAway = error instanceof BillingUnavailable;
      log.error("lease_failed", { reason: errorReason(error) });
    }
    for (const wish of asked) add(borrowers, wish.asked.userId, -1);
    for (const wish of asked) {
      const nowMs = clock.monotonicMs();
      const lease = leaseFor(wish.asked, nowMs);
      if (lease !== null) wish.resolve(grant(wish.asked, lease, nowMs));
      else if (isAway) wish.reject(new BillingUnavailable("the store took too long"));
      else {
        if (wish.asked.wantedNano > 0n) poor.add(wish.asked.userId);
        wish.resolve(exactly(wish.asked));
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
      breakDown(error);
      return Promise.reject(new BillingUnavailable("the journal cannot be written"));
    }
    startHold(lane, held);
    const result: HoldResult = { kind: "held", amountNano: asked.wantedNano, subscriptionId: null };
    const flushed = disk.committed();
    return flushed === null ? result : grantedBy(flushed, held, result);
  }

  /** Apart from `grant`: what a function within another one uses is kept by every call of that one. */
  function grantedBy(flushed: Promise<void>, held: ReservedHold, result: HoldResult): Promise<HoldResult> {
    return flushed.then(() => {
      if (isWell()) return result;
      void giveUp(held);
      throw diskUnavailable();
    });
  }

  /** Nobody was told of it. A successor that reads of it in the journal charges nothing either. */
  async function giveUp(held: ReservedHold): Promise<void> {
    while (held.moving !== null) await held.moving;
    const { requestId, userId, wantedNano } = held.asked;
    if (!held.isOpen) return plain.release(requestId, userId);
    held.lease.freeNano += wantedNano;
    forgetHold(lane, held);
  }

  /** By the store alone, which knows all that the user has while nothing is set aside. */
  async function exactly(asked: HoldRequest): Promise<HoldResult> {
    const { userId } = asked;
    add(exact, userId, 1);
    try {
      if (isLent(userId)) await inTime(toStore(lending.close([userId])), limits.holdPatienceMs);
      return await plain.hold(asked);
    } finally {
      add(exact, userId, -1);
    }
  }

  async function toStore(done: Promise<void>): Promise<void> {
    try {
      await done;
    } catch (error) {
      throw isPermanent(error) ? asError(error) : new BillingUnavailable(errorReason(error));
    }
  }

  /** How far those have come that have not ended: what a successor settles by. */
  function tellProgress(due: Iterable<ReservedHold>): boolean {
    try {
      for (const some of isSameProgress(due)) journal.progressed(some);
    } catch (error) {
      breakDown(error);
      return false;
    }
    return true;
  }

  function settle(settlement: Settlement): Promise<void> | null {
    const held = requests.get(settlement.row.requestId);
    if (held === undefined) return plain.settle(settlement);
    if (held instanceof RowBatch) return held.stored === null ? disk.committed() : inPatience(held);
    // It becomes a row; if it does not, it is still here.
    if (held.moving !== null) return settledAfter(held.moving, settlement);
    const { wantedNano: amountNano } = held.asked;
    if (settlement.chargedNano > amountNano) return settleOverrun(overruns, held, settlement);
    const row = clampCount(chargeHold({ amountNano, subscriptionId: null }, settlement).row);
    const batch = endHold(lane, held, row);
    lending.ended();
    try {
      journal.settled(row);
    } catch (error) {
      const kept = keptOrStored(batch, row);
      breakDown(error);
      return kept;
    }
    return disk.committed();
  }

  const settledAfter = (moving: Promise<void>, settlement: Settlement) =>
    moving.then(() => settle(settlement) ?? undefined);

  const inPatience = (batch: RowBatch) =>
    inTime(batch.untilStored(), limits.settlePatienceMs).catch(() => {});

  /** The store has it soon, or it is kept for it like one of the plain till's. */
  function keptOrStored(batch: RowBatch, row: UsageRow): Promise<void> {
    const { overdue } = plain;
    const { requestId, chargedNano } = row;
    const stored = batch.untilStored();
    void stored.then(() => overdue.booked(requestId));
    return inTime(stored, limits.settlePatienceMs).catch(() => overdue.keep([{ row, chargedNano }]));
  }

  /** A journal that cannot be written keeps no row from the store. */
  function push(row: UsageRow): void {
    const stored = clampCount(row);
    if (clock.monotonicMs() >= brokenUntilMs) {
      try {
        rowSegment = journal.recorded(stored);
      } catch (error) {
        breakDown(error);
      }
    }
    endUnpaid(lane, stored, rowSegment);
    lending.ended();
  }

  /** Nothing is promised any more, and what has ended waits for the store. */
  function breakDown(error: unknown): void {
    log.error("journal_failed", { reason: errorReason(error) });
    brokenUntilMs = clock.monotonicMs() + limits.retryMs;
    void lending.bookAll();
  }

  function look(): void {
    poor.clear();
    if (isTidying) return;
    isTidying = true;
    void tidy(clock.monotonicMs()).finally(() => {
      isTidying = false;
    });
  }

  async function tidy(nowMs: number): Promise<void> {
    const grumble = (error: unknown) => log.error("lease_failed", { reason: errorReason(error) });
    const quiet = [...leases.values()].filter(({ usedMs }) => nowMs - usedMs >= express.idleMs);
    await lending.close(quiet.map(({ userId }) => userId)).catch(grumble);
    await lending.move(lasting(nowMs - express.moveAfterMs)).catch(grumble);
    await forget().catch(grumble);
  }

  function lasting(sinceMs: number): ReservedHold[] {
    const found: ReservedHold[] = [];
    for (const held of requests.values()) {
      if (held instanceof RowBatch) continue;
      if (held.sinceMs > sinceMs) break;
      found.push(held);
    }
    return found;
  }

  async function forget(): Promise<void> {
    const needed = neededSegment(lane);
    if (!isWell() || (!journal.hasBefore(needed) && lane.unpaid.size === 0)) return;
    // What the store has must be on the disk before the journal forgets it.
    await db.flush();
    journal.forgetBefore(Math.min(needed, neededSegment(lane)));
    // Lines that nobody pays for survive the loss of power from here on: most of them are of no more use by then.
    await journal.sync();
  }

  /** What does not go back now goes back at the next start. */
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
      if (userId !== null) await toStore(lending.close([userId]));
    },
    push,
    async settleUp(userId) {
      await toStore(lending.close([userId]));
      await toStore(lending.bookRowsOf(userId));
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
      clearInterval(looking);
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

function add(counts: Map<string, number>, name: string, many: 1 | -1): void {
  const sum = (counts.get(name) ?? 0) + many;
  if (sum === 0) counts.delete(name);
  else counts.set(name, sum);
}
