/**
 * The contact of this process with one coordinator: its term, one call at a time, and the bounds of the coordinator's
 * clock. What is borrowed may be used while the last call that was answered is young enough.
 */

import type { ClockBounds, ExchangeReply, LimitCoordinator } from "../coordinator/protocol.ts";
import type { BorrowedRecord, LossShare, RecordLink } from "./borrowed-record.ts";
import { type BorrowerTimers, sleep, withDeadline } from "./borrower-timers.ts";
import type { BorrowerTiming } from "./borrower-timing.ts";
import { CoordinatorClock } from "./coordinator-clock.ts";
import { declareHoldings } from "./declare-holdings.ts";
import { type EpochMembers, EpochWatch } from "./epoch-watch.ts";
import { type CoordinatorState, LinkHealth } from "./link-health.ts";
import { type AskSource, PendingCall } from "./pending-call.ts";

export interface CoordinatorLinkOptions {
  readonly coordinator: LimitCoordinator;
  readonly process: string;
  /** The id of the data folder, or that of the process. */
  readonly folder: string;
  readonly timing: BorrowerTiming;
  readonly timers: BorrowerTimers;
  monotonicMs(): number;
  newTerm(): string;
  /** The records of this coordinator that hold something. */
  listRecords(): Iterable<BorrowedRecord>;
  /** Requests that lack something, and have not asked for it. */
  listAsks(): Iterable<AskSource>;
  listMembers(): Promise<EpochMembers>;
  /** A process has ended within the last minute. */
  hasUnknownUse(): boolean;
  /** The coordinator knows of such a process. */
  noteEnded(): void;
  /** Called after each reply that was applied. */
  onReply(records: readonly BorrowedRecord[]): void;
  onStateChange(state: CoordinatorState, reason: string): void;
  /** The coordinator lends nothing, because these processes have not declared; null: no minutes. */
  onClosed(missing: readonly string[] | null): void;
  /** `hasLeft` or `isClosed` has changed. Resolves when it is published, or the database does not respond. */
  onContactChange(): Promise<void>;
}

type LinkPhase = "opening" | "ready" | "stopped";

export class CoordinatorLink implements RecordLink {
  loss: LossShare | null = null;
  contactNo = 0;
  readonly #options: CoordinatorLinkOptions;
  readonly #changed = new Set<BorrowedRecord>();
  readonly #urgent = new Set<BorrowedRecord>();
  #phase: LinkPhase = "opening";
  readonly #health: LinkHealth;
  #term: string | null = null;
  #epoch: string | null = null;
  #seq = 0;
  #call: PendingCall | null = null;
  /** Null before the first term. */
  #clock: CoordinatorClock | null = null;
  #repliedSentMs = Number.NEGATIVE_INFINITY;
  #validUntilMs = Number.NEGATIVE_INFINITY;
  #isScheduled = false;
  /** The last call had no space for all that has changed. */
  #isBehind = false;
  readonly #epochWatch: EpochWatch;
  #hasLeft = false;
  #idle: (() => void)[] = [];
  readonly #startedMs: number;

  constructor(options: CoordinatorLinkOptions) {
    this.#options = options;
    this.#startedMs = options.monotonicMs();
    this.#health = new LinkHealth(options);
    this.#epochWatch = new EpochWatch({
      ...options,
      isStopped: () => this.#isStopped(),
      onOpen: () => {
        options.onContactChange();
        options.onReply([]);
        this.sendSoon();
      },
    });
  }

  get state(): CoordinatorState {
    return this.#health.state;
  }

  get coordinator(): LimitCoordinator {
    return this.#options.coordinator;
  }

  get term(): string | null {
    return this.#term;
  }

  /** A term was opened at least once. */
  get hasOpened(): boolean {
    return this.#epoch !== null;
  }

  /** The coordinator lends nothing, because processes that have not declared may hold everything. */
  get isClosed(): boolean {
    return this.#epochWatch.isClosed;
  }

  /** This node is cut off, holds nothing, and publishes that: the coordinator does not wait for it. */
  get hasLeft(): boolean {
    return this.#hasLeft;
  }

  /** Only rates are lost with the state of a coordinator. Windows stay lent. */
  leave(): void {
    const { coordinator, monotonicMs, timing, listRecords, onContactChange } = this.#options;
    const nowMs = monotonicMs();
    if (this.#hasLeft || !coordinator.serves.includes("rates") || this.isValid(nowMs)) return;
    if (nowMs - this.#health.contactMs < timing.nodeTermMs) return;
    for (const { holdings } of listRecords()) if (holdings.some(({ inUse }) => inUse > 0)) return;
    this.#hasLeft = true;
    void onContactChange();
  }

  /** Before it may hold something again. Resolves when that is published, or the database does not respond. */
  async rejoin(): Promise<void> {
    if (!this.#hasLeft) return;
    this.#hasLeft = false;
    await this.#options.onContactChange();
  }

  get sinceStartMs(): number {
    return this.#options.monotonicMs() - this.#startedMs;
  }

  isValid(nowMs: number): boolean {
    return nowMs < this.#validUntilMs;
  }

  noteChange(record: BorrowedRecord): void {
    this.#changed.add(record);
  }

  isPending(record: BorrowedRecord): boolean {
    return this.#changed.has(record) || this.#urgent.has(record) || this.#call?.has(record) === true;
  }

  noteUrgent(record: BorrowedRecord): void {
    this.#changed.add(record);
    this.#urgent.add(record);
    this.sendSoon();
  }

  /** Opens the first term in the background. */
  start(): void {
    void this.#open();
  }

  /** Reports and returns everything, and ends the term. */
  async stop(returnAll: () => void): Promise<void> {
    const { timers, timing, monotonicMs } = this.#options;
    returnAll();
    if (this.#phase === "ready" && this.state === "up") {
      const untilMs = monotonicMs() + timing.callMaxMs;
      await this.#untilIdle();
      do {
        this.#send("all");
        await this.#untilIdle();
      } while (this.#isBehind && monotonicMs() < untilMs);
    }
    const wasReady = this.#phase === "ready" && this.state === "up";
    this.#phase = "stopped";
    this.#validUntilMs = Number.NEGATIVE_INFINITY;
    if (wasReady && this.#term !== null)
      await withDeadline(timers, this.coordinator.endTerm(this.#term), timing.callMaxMs).catch(() => {});
  }

  /** Sends what cannot wait, after all work of this turn has added to it. */
  sendSoon(): void {
    if (this.#isScheduled || this.#call !== null) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      this.#isScheduled = false;
      this.#send(this.#isBehind ? "all" : "urgent");
    });
  }

  /** Reports what has changed, and refills. */
  sendAll(refills: readonly AskSource[]): void {
    this.#send("all", refills);
  }

  #send(extent: "urgent" | "all", refills: readonly AskSource[] = []): void {
    const { timing, monotonicMs, listAsks } = this.#options;
    if (this.#phase !== "ready" || this.#call !== null) return;
    const nowMs = monotonicMs();
    const call = new PendingCall();
    this.#isBehind = false;
    for (const ask of listAsks()) {
      if (call.isFull(timing)) break;
      call.addAsk(ask, nowMs);
    }
    for (const refill of refills) {
      if (call.isFull(timing)) break;
      call.addAsk(refill, nowMs);
    }
    const changed = extent === "all" ? [this.#urgent, this.#changed] : [this.#urgent];
    for (const records of changed)
      for (const record of records) {
        this.#isBehind = call.isFull(timing);
        if (this.#isBehind) break;
        call.addRecord(record);
      }
    if (call.isEmpty && nowMs - this.#repliedSentMs < timing.beatMs) return;
    for (const record of call.records) {
      this.#changed.delete(record);
      this.#urgent.delete(record);
    }
    this.#call = call;
    this.#seq += 1;
    this.#attempt(call, this.#seq);
  }

  /** One attempt at a call. The first reply to any of its attempts counts. */
  #attempt(call: PendingCall, seq: number): void {
    const { timing, timers, monotonicMs } = this.#options;
    if (this.#call !== call || this.#term === null || this.#isStopped()) return;
    const sentMs = monotonicMs();
    const bounds = this.#computeBounds(sentMs);
    call.attempts += 1;
    let isOver = false;
    const fail = (reason: string) => {
      if (isOver || this.#call !== call) return;
      isOver = true;
      this.#noteFault(reason);
      const delayMs = this.state === "lost" ? timing.retryMs : timing.callMinMs / 2;
      timers.after(delayMs, () => this.#attempt(call, seq));
    };
    const deadlineMs = this.#health.computeDeadlineMs(this.#clock?.roundTripMs ?? 0);
    const cancel = timers.after(deadlineMs, () => fail(`no response within ${Math.round(deadlineMs)} ms`));
    this.coordinator
      .exchange({ term: this.#term, seq, ...bounds, ...call.build() })
      .finally(cancel)
      .then(
        (reply) => {
          isOver = true;
          if (this.#call === call) this.#receive(call, reply, sentMs);
        },
        (error: unknown) => fail(error instanceof Error ? error.message : "unknown"),
      );
  }

  #receive(call: PendingCall, reply: ExchangeReply, sentMs: number): void {
    const { monotonicMs, timing, onReply } = this.#options;
    const nowMs = monotonicMs();
    this.#call = null;
    // Others may have taken a node that has left for one that holds nothing.
    if (reply.kind !== "ok" || this.#hasLeft) {
      call.abandon(nowMs);
      this.#noteResponse();
      void this.#open();
      return;
    }
    this.#clock?.note({ nowMs: reply.nowMs, sentMs, receivedMs: nowMs });
    this.#noteValid(sentMs);
    this.#noteResponse();
    call.apply(reply, nowMs, timing.contendedMs);
    this.#epochWatch.note(reply);
    onReply(call.records);
    for (const resolve of this.#idle.splice(0)) resolve();
    this.sendSoon();
  }

  /** Opens a term and declares what is held. Repeats until the coordinator responds. */
  async #open(): Promise<void> {
    const { process, folder, newTerm, timers, timing, monotonicMs } = this.#options;
    if (this.#phase === "stopped") return;
    this.#phase = "opening";
    const wasValid = this.isValid(monotonicMs());
    if (!wasValid) this.contactNo += 1;
    this.#validUntilMs = Number.NEGATIVE_INFINITY;
    const term = newTerm();
    while (!this.#isStopped()) {
      try {
        const sentMs = monotonicMs();
        const epoch = this.#epoch;
        const bounds = epoch === null ? null : { epoch, ...this.#computeBounds(sentMs) };
        const opening = this.coordinator.openTerm({ term, process, folder, bounds });
        const opened = await withDeadline(timers, opening, timing.callMaxMs);
        const receivedMs = monotonicMs();
        this.#health.contactMs = receivedMs;
        await this.rejoin();
        const reading = { nowMs: opened.nowMs, sentMs, receivedMs };
        if (opened.beat === null && opened.epoch === this.#epoch) this.#clock?.note(reading);
        else this.#clock = new CoordinatorClock(reading, opened.beat);
        const isNewEpoch = this.#epoch !== null && this.#epoch !== opened.epoch;
        // A survivor knows that itself.
        if (opened.hasUnknownUse && !isNewEpoch) this.#options.noteEnded();
        const isDeclared = await this.#declare(term, { isNewEpoch, keepsIdle: isNewEpoch && wasValid });
        if (!isDeclared) return void this.#open();
        this.#epoch = opened.epoch;
        return this.#begin(term);
      } catch (error) {
        this.#noteFault(error instanceof Error ? error.message : "unknown");
        await sleep(timers, timing.retryMs);
      }
    }
  }

  #begin(term: string): void {
    if (this.#isStopped()) return;
    this.#term = term;
    this.#phase = "ready";
    this.#noteValid(this.#repliedSentMs);
    this.#options.onReply([]);
    this.sendSoon();
  }

  /** Returns false if the term is gone meanwhile. */
  async #declare(
    term: string,
    { isNewEpoch, keepsIdle }: { isNewEpoch: boolean; keepsIdle: boolean },
  ): Promise<boolean> {
    const { process, timing, monotonicMs, listRecords, listMembers } = this.#options;
    // Others would end the term of a process that is not registered, or take one that has left for one without slots.
    if (!(await listMembers()).present.includes(process)) throw new Error("this process is not registered");
    const { batches, held } = declareHoldings(listRecords(), {
      terms: { isNewEpoch, keepsIdle, nowMs: monotonicMs() },
      timing,
    });
    const last = { replaces: this.#term, isSurvivor: isNewEpoch };
    for (const [index, batch] of batches.entries()) {
      const call = { term, seq: index + 1, ...batch, last: index === batches.length - 1 ? last : null };
      const reply = await this.#repeat((sentMs) =>
        this.coordinator.declare({ ...call, ...this.#computeBounds(sentMs) }),
      );
      if (reply.kind === "gone") return false;
      if (!reply.isOpen && call.last !== null) this.#epochWatch.start();
    }
    this.#seq = batches.length;
    for (const { holding, lent } of held) holding.applyLent(lent);
    return !this.#hasLeft;
  }

  /** Repeats a call until it is answered. */
  async #repeat<T extends { readonly kind: string }>(call: (sentMs: number) => Promise<T>): Promise<T> {
    const { monotonicMs, timers, timing } = this.#options;
    for (;;) {
      const sentMs = monotonicMs();
      try {
        const reply = await withDeadline(timers, call(sentMs), timing.callMaxMs);
        if (reply.kind === "ok") {
          this.#noteValid(sentMs);
          this.#noteResponse();
        }
        return reply;
      } catch (error) {
        this.#noteFault(error instanceof Error ? error.message : "unknown");
        if (this.#isStopped()) throw error;
        await sleep(timers, timing.retryMs);
      }
    }
  }

  #isStopped(): boolean {
    return this.#phase === "stopped";
  }

  #noteValid(sentMs: number): void {
    this.#repliedSentMs = sentMs;
    if (this.#phase !== "ready") return;
    // The coordinator counts from the earliest time that the call can have had.
    const { lo, hi } = this.#computeBounds(sentMs);
    this.#validUntilMs = sentMs + this.#options.timing.nodeTermMs - Math.max(0, hi - lo);
  }

  #computeBounds(atMs: number): ClockBounds {
    return this.#clock?.computeBounds(atMs) ?? { lo: 0, hi: Number.MAX_SAFE_INTEGER, aheadMs: null };
  }

  #noteResponse(): void {
    if (this.#health.noteResponse()) this.#options.onStateChange("up", "");
  }

  #noteFault(reason: string): void {
    if (this.#health.noteFault()) this.#options.onStateChange("lost", reason);
  }

  #untilIdle(): Promise<void> {
    const { timers, timing } = this.#options;
    if (this.#call === null) return Promise.resolve();
    return new Promise((resolve) => {
      const cancel = timers.after(timing.callMaxMs, resolve);
      this.#idle.push(() => {
        cancel();
        resolve();
      });
    });
  }
}
