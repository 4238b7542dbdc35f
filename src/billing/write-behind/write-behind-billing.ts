/**
 * Write-behind billing. Under load, a part of each wallet is reserved and holds are taken from it in memory. They are
 * journal lines before they are acknowledged; the database books them in batches, with all unpaid rows. Direct billing
 * handles a quiet gateway, subscriptions, low wallets and lasting requests.
 */

import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../observe/log.ts";
import type { Db } from "../../store/engine/db.ts";
import { UNSENT } from "../../store/money/holds.ts";
import { clampCount, type UsageRow } from "../../store/usage/usage-row.ts";
import type { BillingEngine } from "../engine/billing-engine.ts";
import type { HoldRequest, HoldResult, Settlement } from "../engine/booking.ts";
import { type BillingLimits, DirectBilling } from "../engine/direct-billing.ts";
import { type Disk, openDisk } from "../engine/disk.ts";
import {
  BillingUnavailable,
  buildDiskUnavailable,
  errorReason,
  withBillingErrors,
  withTimeout,
} from "../engine/store-faults.ts";
import type { Journal } from "../journal/journal.ts";
import { DirectHolds } from "./direct-holds.ts";
import { HeartbeatAge } from "./heartbeat-age.ts";
import { LoadMeter } from "./load-meter.ts";
import { groupByProgress, WriteBehindProgress } from "./progress.ts";
import { ReservationRecall } from "./reservation-recall.ts";
import { ReservationStore } from "./reservation-store.ts";
import { ReservedSettlements } from "./reserved-settlements.ts";
import { Upkeep } from "./upkeep.ts";
import { UserCounts } from "./user-counts.ts";
import {
  emptyReservationState,
  endUnpaid,
  findEndedRow,
  findReservedHold,
  type ReservationState,
  type ReservedHold,
  removeHold,
  startHold,
  type WalletReservation,
} from "./wallet-reservations.ts";
import type { WriteBehindOptions } from "./write-behind-options.ts";

interface PendingHold extends Pick<PromiseWithResolvers<HoldResult>, "resolve" | "reject"> {
  request: HoldRequest;
}

/** Decides who handles a request: a wallet reservation in memory, or direct billing. */
export class WriteBehindBilling implements BillingEngine {
  readonly #db: Db;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #journal: Journal;
  readonly #limits: BillingLimits;
  readonly #directBilling: DirectBilling;
  readonly #disk: Disk;
  readonly #state: ReservationState;
  readonly #store: ReservationStore;
  readonly #recall: ReservationRecall;
  readonly #settlements: ReservedSettlements;
  readonly #heartbeat: HeartbeatAge;
  readonly #progress: WriteBehindProgress;
  readonly #load: LoadMeter;
  readonly #upkeep: Upkeep;
  /** Users whose balance is too low for a reservation, until the next check. */
  readonly #lowBalanceUsers = new Set<string>();
  readonly #directHolds: DirectHolds;
  /** Users with requests that wait for a reservation. */
  readonly #waitingUsers = new UserCounts();
  #pendingHolds: PendingHold[] = [];
  #journalBrokenUntilMs = Number.NEGATIVE_INFINITY;
  /** The journal segment of the latest unpaid row. */
  #unpaidSegment = 0;
  #isStopped = false;

  constructor(options: WriteBehindOptions) {
    const { db, log, clock, journal, writeBehind, limits } = options;
    this.#db = db;
    this.#log = log;
    this.#clock = clock;
    this.#journal = journal;
    this.#limits = limits;
    this.#directBilling = new DirectBilling(options);
    // The journal is a file on this machine, wherever the database is.
    this.#disk = openDisk({ ...options, db: { engine: "sqlite", flush: () => journal.sync() } });
    this.#state = emptyReservationState(writeBehind.batchRows);
    this.#store = new ReservationStore({
      ...options,
      reservationState: this.#state,
      directBilling: this.#directBilling,
      limits: { ...limits, ...writeBehind },
      onHoldsStored: (holds) => void this.#recordStored(holds.map(({ request }) => request.requestId)),
    });
    this.#recall = new ReservationRecall({
      ...options,
      reservationState: this.#state,
      reservationStore: this.#store,
      directBilling: this.#directBilling,
      limits: writeBehind,
    });
    this.#directHolds = new DirectHolds({
      reservationState: this.#state,
      reservationStore: this.#store,
      recall: this.#recall,
      directBilling: this.#directBilling,
      limits,
      isReserved: (userId) => this.#isReserved(userId),
      recordStored: (requestIds) => this.#recordStored(requestIds),
    });
    this.#settlements = new ReservedSettlements({
      ...options,
      disk: this.#disk,
      reservationState: this.#state,
      reservationStore: this.#store,
      directBilling: this.#directBilling,
      onJournalFailure: (error) => this.#handleJournalFailure(error),
      isStopped: () => this.#isStopped,
    });
    this.#heartbeat = new HeartbeatAge({
      log,
      heartbeatAgeMaxMs: writeBehind.heartbeatAgeMaxMs,
      verify: () => this.#store.verify(),
    });
    this.#progress = new WriteBehindProgress({
      limits,
      monotonicMs: clock.monotonicMs,
      write: (due) =>
        this.#tryAppend(() => {
          for (const group of groupByProgress(due)) this.#journal.appendProgress(group);
        }),
    });
    this.#load = new LoadMeter(writeBehind.busyHolds);
    this.#upkeep = new Upkeep({
      ...options,
      reservationState: this.#state,
      reservationStore: this.#store,
      limits: writeBehind,
      acceptsHolds: () => this.acceptsHolds(),
      onCheck: () => {
        this.#lowBalanceUsers.clear();
        void this.#recall.respond();
      },
    });
  }

  hold(request: HoldRequest): HoldResult | Promise<HoldResult> {
    if (!this.acceptsHolds()) return Promise.reject(buildDiskUnavailable());
    if (request.charge !== "balance" || this.#isStopped) return this.#directBilling.hold(request);
    const { userId } = request;
    const nowMs = this.#clock.monotonicMs();
    const isUnderLoad = this.#load.countHold(nowMs) && this.#isJournalUsable(nowMs);
    if (request.isLasting || this.#directHolds.has(userId) || !this.#heartbeat.isFresh(nowMs))
      return this.#directHolds.hold(request);
    const reservation = this.#findUsableReservation(request, nowMs);
    if (reservation !== null) return this.#holdFromReservation(request, reservation, nowMs);
    const needsNoReservation =
      !isUnderLoad || this.#lowBalanceUsers.has(userId) || this.#recall.isRecalled(userId);
    if (!this.#isReserved(userId) && needsNoReservation) return this.#directHolds.hold(request);
    return this.#waitForReservation(request);
  }

  replaceHold(request: HoldRequest): Promise<HoldResult> {
    if (!this.acceptsHolds()) return Promise.reject(buildDiskUnavailable());
    return this.#directHolds.replaceHold(request);
  }

  releaseHold(requestId: string): Promise<void> {
    return this.#directHolds.releaseHold(requestId);
  }

  recordDispatch(requestId: string, accountId: string, upstreamModel: string): void {
    const held = findReservedHold(this.#state, requestId);
    if (held !== null) this.#progress.set(held, { state: "dispatched", accountId, upstreamModel });
    else this.#directBilling.recordDispatch(requestId, accountId, upstreamModel);
  }

  recordRequeue(requestId: string): void {
    const held = findReservedHold(this.#state, requestId);
    if (held !== null) this.#progress.set(held, UNSENT);
    else this.#directBilling.recordRequeue(requestId);
  }

  checkpoint(requestId: string, outputTokens: number): void {
    const held = findReservedHold(this.#state, requestId);
    if (held !== null) this.#progress.recordOutputTokens(held, outputTokens);
    else this.#directBilling.checkpoint(requestId, outputTokens);
  }

  settle(settlement: Settlement): Promise<void> | null {
    return this.#settlements.settle(settlement);
  }

  async book(settlement: Settlement): Promise<void> {
    const { requestId, userId } = settlement.row;
    if (!this.#state.requests.has(requestId)) return this.#directBilling.book(settlement);
    await this.settle(settlement);
    if (userId !== null) await withBillingErrors(this.#store.close([userId]));
  }

  /** If the journal cannot be written, the row still goes to the database. */
  push(row: UsageRow): void {
    const storable = clampCount(row);
    if (this.#isJournalUsable(this.#clock.monotonicMs())) {
      try {
        this.#unpaidSegment = this.#journal.appendUnpaidRow(storable);
      } catch (error) {
        this.#handleJournalFailure(error);
      }
    }
    endUnpaid(this.#state, storable, this.#unpaidSegment);
    this.#store.rounds.onRowWaiting();
  }

  async flushUser(userId: string): Promise<void> {
    await withBillingErrors(this.#store.close([userId]));
    await withBillingErrors(this.#store.bookUserRows(userId));
    await this.#directBilling.flush();
  }

  async flush(): Promise<void> {
    if (!(await this.#store.rounds.bookAll())) throw new BillingUnavailable("the database rejects writes");
    await this.#directBilling.flush();
  }

  findUnbookedRow(requestId: string): UsageRow | null {
    return findEndedRow(this.#state, requestId) ?? this.#directBilling.findUnbookedRow(requestId);
  }

  hasCapacity(): boolean {
    return this.#directBilling.hasCapacity() && this.#state.rows < this.#limits.waitingMax;
  }

  acceptsHolds(): boolean {
    return this.#disk.isWorking() && this.#directBilling.acceptsHolds();
  }

  isStoreResponding(): boolean {
    return this.#directBilling.isStoreResponding() && !this.#store.rounds.isStalled();
  }

  recordHeartbeat(sentAtMs: number): void {
    this.#heartbeat.record(sentAtMs);
  }

  handleRecalls(): Promise<void> {
    return this.#recall.respond();
  }

  async handleStoreReplaced(): Promise<void> {
    await withBillingErrors(this.#store.handleStoreReplaced());
    await this.#directBilling.handleStoreReplaced();
  }

  isOpen(requestId: string): boolean {
    return this.#state.requests.has(requestId) || this.#directBilling.isOpen(requestId);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#upkeep.stop();
    this.#progress.stop();
    this.#store.rounds.stop();
    // What cannot be released now is released at the next start.
    await withTimeout(
      this.#store.close([...this.#state.reservations.keys()]),
      this.#limits.transactionMs,
    ).catch((error) => this.#log.error("wallet_reservation_failed", { reason: errorReason(error) }));
    await this.#store.stop().catch(() => {});
    this.#disk.stop();
    await this.#db.flush().catch(() => {});
    const isDone = this.#state.requests.size === 0 && this.#state.waitingBatches.size === 0;
    await (isDone ? this.#journal.closeAndDelete() : this.#journal.close());
    await this.#directBilling.stop();
  }

  #isReserved(userId: string): boolean {
    return this.#state.reservations.has(userId) || this.#waitingUsers.has(userId);
  }

  #isJournalUsable(nowMs: number): boolean {
    return nowMs >= this.#journalBrokenUntilMs;
  }

  /** A reservation that covers the hold. */
  #findUsableReservation(
    { userId, wantedNano, tariff }: HoldRequest,
    nowMs: number,
  ): WalletReservation | null {
    const reservation = this.#state.reservations.get(userId);
    if (reservation === undefined || reservation.isClosing || reservation.freeNano < wantedNano) return null;
    return this.#store.isTariffStored(tariff.id) && this.#isJournalUsable(nowMs) ? reservation : null;
  }

  /** Requests of one turn of the event loop share a reservation transaction. */
  #waitForReservation(request: HoldRequest): Promise<HoldResult> {
    const { promise, resolve, reject } = Promise.withResolvers<HoldResult>();
    if (this.#pendingHolds.length === 0) setImmediate(() => void this.#reserveForPending());
    this.#pendingHolds.push({ request, resolve, reject });
    this.#waitingUsers.add(request.userId);
    return promise;
  }

  async #reserveForPending(): Promise<void> {
    const pending = this.#pendingHolds;
    this.#pendingHolds = [];
    let isUnavailable = false;
    try {
      const requests = pending.map(({ request }) => request);
      const reserving = this.#store.reserve(requests.filter(({ userId }) => !this.#directHolds.has(userId)));
      await withTimeout(reserving, this.#limits.holdTimeoutMs);
    } catch (error) {
      isUnavailable = error instanceof BillingUnavailable;
      this.#log.error("wallet_reservation_failed", { reason: errorReason(error) });
    }
    for (const { request } of pending) this.#waitingUsers.remove(request.userId);
    for (const hold of pending) this.#holdPending(hold, isUnavailable);
  }

  #holdPending({ request, resolve, reject }: PendingHold, isUnavailable: boolean): void {
    const nowMs = this.#clock.monotonicMs();
    const reservation = this.#findUsableReservation(request, nowMs);
    if (reservation !== null) resolve(this.#holdFromReservation(request, reservation, nowMs));
    else if (isUnavailable) reject(new BillingUnavailable("the database did not respond in time"));
    else {
      if (request.wantedNano > 0n) this.#lowBalanceUsers.add(request.userId);
      resolve(this.#directHolds.hold(request));
    }
  }

  #holdFromReservation(
    request: HoldRequest,
    reservation: WalletReservation,
    sinceMs: number,
  ): HoldResult | Promise<HoldResult> {
    const held: ReservedHold = {
      request,
      atMs: this.#clock.nowMs(),
      reservation,
      segment: 0,
      sinceMs,
      progress: UNSENT,
      isChanged: false,
      isOpen: true,
      storing: null,
    };
    try {
      held.segment = this.#journal.appendHold(held);
    } catch (error) {
      this.#handleJournalFailure(error);
      return Promise.reject(new BillingUnavailable("the journal cannot be written"));
    }
    startHold(this.#state, held);
    const result: HoldResult = { kind: "held", amountNano: request.wantedNano, subscriptionId: null };
    const flushed = this.#disk.flushCommit();
    return flushed === null ? result : this.#resolveAfter(flushed, held, result);
  }

  /** Separate from its caller, because a closure there would keep the variables of every call alive. */
  #resolveAfter(flushed: Promise<void>, held: ReservedHold, result: HoldResult): Promise<HoldResult> {
    return flushed.then(() => {
      if (this.acceptsHolds()) return result;
      void this.#dropHold(held);
      throw buildDiskUnavailable();
    });
  }

  /** The hold was not acknowledged. Recovery charges nothing for it either. */
  async #dropHold(held: ReservedHold): Promise<void> {
    while (held.storing !== null) await held.storing;
    const { requestId, userId, wantedNano } = held.request;
    if (!held.isOpen) return this.#directBilling.release(requestId, userId);
    held.reservation.freeNano += wantedNano;
    removeHold(this.#state, held);
  }

  #recordStored(requestIds: readonly string[]): boolean {
    return this.#tryAppend(() => this.#journal.appendStored(requestIds));
  }

  #tryAppend(append: () => void): boolean {
    try {
      append();
      return true;
    } catch (error) {
      this.#handleJournalFailure(error);
      return false;
    }
  }

  /** The journal cannot be written: new holds are rejected, and finished requests are booked at once. */
  #handleJournalFailure(error: unknown): void {
    this.#log.error("journal_failed", { reason: errorReason(error) });
    this.#journalBrokenUntilMs = this.#clock.monotonicMs() + this.#limits.retryMs;
    void this.#store.rounds.bookAll();
  }
}
