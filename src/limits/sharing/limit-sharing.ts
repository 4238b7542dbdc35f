/**
 * Keeps this node in step with the other nodes: writes what it holds of each limit to the coordinator, a few times a
 * second, and receives what the others give. If the coordinator does not respond, each node keeps what it holds.
 */

import type { Clock } from "../../base/clock.ts";
import type { Coordinator } from "./coordinator.ts";
import {
  type ExchangeReply,
  type ExchangeRequest,
  exchange,
  findLost,
  findOverdue,
  isAsking,
  isOlder,
  type Ledger,
  type LedgerTiming,
} from "./ledger.ts";
import { parseLedger } from "./parse-ledger.ts";
import type { ShareAllocator } from "./share-allocator.ts";
import { StageTasks, type UseHistory } from "./stages.ts";
import type { SharingTimers } from "./timers.ts";

export interface SharingTiming extends LedgerTiming {
  readonly tickMs: number;
  /** A node that asks writes less often than the others: they must have written in between. */
  readonly askTickMs: number;
  /** How often a node without changes writes. */
  readonly beatMs: number;
  /** How long the coordinator may take for one command. */
  readonly commandMs: number;
  /** The same until this node serves: then no request waits for it. */
  readonly startCommandMs: number;
  /** After this many failures in a row the coordinator is lost. */
  readonly faultsMax: number;
  readonly retryMinMs: number;
  readonly retryMaxMs: number;
  /** How long a start waits until all nodes have confirmed the new node. */
  readonly joinMs: number;
  /** How long a request may wait for other nodes. */
  readonly waitMs: number;
  /** A longer document counts as lost. */
  readonly documentCharsMax: number;
}

export type CoordinatorLossRule = "share" | "closed" | "open";

export interface LimitSharingOptions {
  readonly node: string;
  readonly coordinator: Coordinator;
  readonly allocator: ShareAllocator;
  readonly history: UseHistory;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly timers: SharingTimers;
  readonly timing: SharingTiming;
  readonly lossRule: CoordinatorLossRule;
  newEpoch(): string;
  random(): number;
  /** The ids of all registered nodes, this one included. */
  listNodes(): Promise<readonly string[]>;
  /** Called once for each change. */
  onStateChange(state: CoordinatorState, reason: string): void;
}

export type CoordinatorState = "up" | "lost";

type ExchangeBasis = Omit<ExchangeRequest, "registered">;

/** Attempts to replace a document that other nodes replace as well. */
const ATTEMPTS_MAX = 6;
const CONFLICT_DELAY_MS = 8;

export class LimitSharing {
  readonly #options: LimitSharingOptions;
  readonly #tasks: StageTasks;
  readonly #waiting = new Set<() => void>();
  #state: CoordinatorState = "up";
  #faults = 0;
  #retryMs: number;
  #candidates: readonly string[];
  #seen: Ledger | null = null;
  /** Members of the ledger that had ended before this node started. */
  #ended: readonly string[] = [];
  readonly #createdMs: number;
  #intent: ExchangeRequest["intent"] = "take_part";
  #write = 0;
  #confirmedWrite = 0;
  /** The moment of the last exchange that succeeded. */
  #respondedMs: number;
  #writtenMs = Number.NEGATIVE_INFINITY;
  #lossStage: "none" | "surplus_dropped" | "shares_restored" = "none";
  #cancelTick: (() => void) | null = null;
  #running: Promise<void> | null = null;
  #isStarted = false;
  #isStopped = false;

  constructor(options: LimitSharingOptions) {
    this.#options = options;
    this.#tasks = new StageTasks(options);
    this.#retryMs = options.timing.retryMinMs;
    this.#candidates = [options.node];
    this.#createdMs = options.clock.monotonicMs();
    this.#respondedMs = this.#createdMs;
  }

  get state(): CoordinatorState {
    return this.#state;
  }

  get kind(): Coordinator["kind"] {
    return this.#options.coordinator.kind;
  }

  /** How long a request may wait for other nodes. */
  get waitMs(): number {
    return this.#options.timing.waitMs;
  }

  /** Requests with limits are rejected: the coordinator is lost, or this node has not joined the others yet. */
  get isClosed(): boolean {
    const { lossRule, allocator } = this.#options;
    return this.isJoining || (this.#state === "lost" && lossRule === "closed" && !allocator.isAlone);
  }

  /** This node has started without the coordinator, and may not use any limit yet. */
  get isJoining(): boolean {
    return this.#options.allocator.holdsNothing;
  }

  /** Resolves when all nodes have confirmed this one, when the coordinator is lost, or after `joinMs`. */
  async start(): Promise<void> {
    const { node, allocator, clock, timing } = this.#options;
    await this.#readNodes();
    if (this.#candidates.every((id) => id === node)) this.#intent = "start_alone";
    const untilMs = clock.monotonicMs() + timing.joinMs;
    while (!allocator.isActive && clock.monotonicMs() < untilMs && this.#state === "up") {
      await this.#runOnce();
      if (!allocator.isActive) await this.#sleep(timing.tickMs / 2);
    }
    this.#isStarted = true;
    if (!allocator.isActive) await this.#readRegistry();
    this.#schedule(timing.tickMs);
  }

  /** A member is registered before it joins. So the ledger is read first, and what the registry lacks has ended. */
  async #readNodes(): Promise<void> {
    const { coordinator, listNodes, timing } = this.#options;
    const read = await this.#withDeadline(coordinator.read()).catch(() => null);
    const members = (read === null ? null : parseLedger(read.text, timing.documentCharsMax))?.members ?? [];
    this.#candidates = await listNodes();
    this.#ended = members.filter((member) => !this.#candidates.includes(member));
  }

  /** Writes that this node has left, so that the others do not wait for it. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancelTick?.();
    await this.#running;
    this.#intent = "leave";
    if (this.#state === "up") await this.#runOnce();
    this.#wakeAll();
    await this.#options.coordinator.close();
  }

  /**
   * Resolves with true when this node may use more, or when it is known that it may not for now. False: the coordinator
   * does not respond, so that waiting is useless.
   */
  waitForGain(): Promise<boolean> {
    const { timing } = this.#options;
    if (this.#state === "lost" || this.#isStopped) return Promise.resolve(false);
    // The first request that lacks something is written at once.
    const sinceWriteMs = this.#options.clock.monotonicMs() - this.#writtenMs;
    if (sinceWriteMs >= timing.askTickMs && this.#running === null) this.#schedule(0);
    return new Promise((resolve) => {
      const wake = () => {
        cancel();
        this.#waiting.delete(wake);
        resolve(this.#faults === 0);
      };
      const cancel = this.#options.timers.after(timing.waitMs, wake);
      this.#waiting.add(wake);
    });
  }

  #schedule(delayMs: number): void {
    if (this.#isStopped) return;
    this.#cancelTick?.();
    this.#cancelTick = this.#options.timers.after(delayMs, () => {
      this.#cancelTick = null;
      this.#running = this.#runOnce().finally(() => {
        this.#running = null;
        const { timing, allocator } = this.#options;
        const tickMs = allocator.isAsking ? timing.askTickMs : timing.tickMs;
        this.#schedule(this.#state === "lost" ? this.#computeRetryMs() : tickMs);
      });
    });
  }

  /** A node that may not serve limits yet retries often: its requests are rejected meanwhile. */
  #computeRetryMs(): number {
    const { timing, allocator } = this.#options;
    return allocator.holdsNothing ? timing.retryMinMs : Math.min(this.#retryMs, timing.retryMaxMs);
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#options.timers.after(ms, resolve));
  }

  async #runOnce(): Promise<void> {
    try {
      // A node that has something to confirm or to give writes again at once.
      for (let round = 0; round < ATTEMPTS_MAX && (await this.#exchange()); round++);
      this.#noteResponse();
    } catch (error) {
      this.#noteFault(error instanceof Error ? error.message : "unknown");
      if (this.#state === "lost" && this.#isStarted) await this.#readRegistry();
    }
  }

  /** Without the coordinator, the registry has the number of nodes that divide the limits. It may be unreachable. */
  async #readRegistry(): Promise<void> {
    const { allocator, listNodes, lossRule } = this.#options;
    const registered = await this.#withDeadline(listNodes()).catch(() => null);
    if (registered !== null) this.#candidates = [...new Set([...registered, this.#options.node])];
    if (this.#state !== "lost" && allocator.hasJoined) return;
    if (lossRule === "open" && this.#state === "lost") return;
    if (allocator.hasJoined) allocator.noteRegistered(this.#candidates);
    else if (this.#mayTakeShare()) allocator.override({ kind: "shares", members: this.#candidates });
  }

  /**
   * A node that has never joined takes its share when all others have noticed it in the registry, and what they and its
   * predecessor had used beyond their shares has left the windows.
   */
  #mayTakeShare(): boolean {
    const { node, clock, timing } = this.#options;
    if (this.#candidates.every((id) => id === node)) return true;
    return clock.monotonicMs() - this.#createdMs > timing.retryMaxMs + timing.removedAfterMs;
  }

  /** Returns true if the ledger has to be written again. */
  async #exchange(): Promise<boolean> {
    const { coordinator, allocator, timing, newEpoch, random } = this.#options;
    if (this.#intent !== "leave") await this.#tasks.advance(timing.tickMs);
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const read = await this.#withDeadline(coordinator.read());
      const ledger = parseLedger(read.text, timing.documentCharsMax);
      if (ledger !== null) allocator.give(ledger, findLost(ledger, read.nowMs, timing));
      const request = this.#buildRequest();
      if (ledger !== null && this.#isUnchanged(ledger, request, read.nowMs)) {
        this.#seen = ledger;
        return false;
      }
      const registered = await this.#readRegistered(ledger, read.nowMs);
      const reply = exchange(ledger, { ...request, registered }, { nowMs: read.nowMs, newEpoch, timing });
      this.#write = request.write;
      if (await this.#withDeadline(coordinator.replace(read, JSON.stringify(reply.ledger))))
        return this.#accept(reply, request);
      await this.#sleep(CONFLICT_DELAY_MS * (attempt + 1) * random());
    }
    // Other nodes were faster each time. The next tick tries again.
    return false;
  }

  /**
   * The registered nodes, if members are about to be removed. Until a process is deleted from the registry, its last
   * requests are not settled. Null if they are not needed or not known.
   */
  async #readRegistered(ledger: Ledger | null, nowMs: number): Promise<readonly string[] | null> {
    const { node, timing, listNodes } = this.#options;
    if (ledger === null || findOverdue(ledger, { node, nowMs, timing }).length === 0) return null;
    return this.#withDeadline(listNodes()).catch(() => null);
  }

  #accept(reply: ExchangeReply, request: ExchangeBasis): boolean {
    const { allocator, clock } = this.#options;
    this.#confirmedWrite = request.write;
    this.#ended = [];
    this.#seen = reply.ledger;
    this.#writtenMs = clock.monotonicMs();
    if (this.#intent !== "leave") this.#intent = "take_part";
    this.#candidates = [...new Set([...reply.ledger.members, this.#options.node])];
    const isAgain = allocator.apply(reply);
    if (reply.grants.size > 0) this.#wakeAll();
    return isAgain && this.#intent !== "leave";
  }

  #buildRequest(): ExchangeBasis {
    return {
      ...this.#options.allocator.buildRequest(),
      candidates: this.#candidates,
      ended: this.#ended,
      seen: this.#seen,
      write: this.#write + 1,
      confirmedWrite: this.#confirmedWrite,
      intent: this.#intent,
    };
  }

  /** Nothing to write: the ledger contains this node, and no node requests anything. */
  #isUnchanged(ledger: Ledger, request: ExchangeBasis, nowMs: number): boolean {
    const { node, allocator, timing } = this.#options;
    const own = ledger.nodes[node];
    if (!allocator.isActive || request.intent !== "take_part" || own === undefined) return false;
    if (request.known?.epoch !== ledger.epoch || request.known.version !== ledger.version) return false;
    if (isOlder(ledger, request.seen)) return false;
    if (nowMs - own.beatMs >= timing.beatMs || own.write !== this.#confirmedWrite) return false;
    if (Object.keys(request.rows).length > 0) return false;
    return Object.values(ledger.meters).every((rows) => !Object.values(rows).some(isAsking) && !rows[node]);
  }

  #withDeadline<T>(work: Promise<T>): Promise<T> {
    const { timing, timers, allocator } = this.#options;
    const isServing = this.#isStarted && !allocator.holdsNothing;
    const deadlineMs = isServing ? timing.commandMs : timing.startCommandMs;
    return new Promise((resolve, reject) => {
      const cancel = timers.after(deadlineMs, () => reject(new Error(`no answer within ${deadlineMs} ms`)));
      work.then(resolve, reject).finally(cancel);
    });
  }

  #noteResponse(): void {
    const { clock, timing, allocator, lossRule, onStateChange } = this.#options;
    this.#respondedMs = clock.monotonicMs();
    this.#faults = 0;
    this.#retryMs = timing.retryMinMs;
    this.#lossStage = "none";
    allocator.noteRegistered(null);
    if (this.#state === "up") return;
    this.#state = "up";
    if (lossRule === "open") allocator.override(null);
    onStateChange("up", "");
  }

  #noteFault(reason: string): void {
    const { clock, timing, allocator, lossRule, onStateChange } = this.#options;
    this.#faults += 1;
    this.#wakeAll();
    if (this.#state === "lost") this.#retryMs = Math.min(2 * this.#retryMs, timing.retryMaxMs);
    else if (this.#faults >= timing.faultsMax) {
      this.#state = "lost";
      if (lossRule === "open") {
        allocator.override({ kind: "whole" });
        // What is used meanwhile exceeds the shares: the nodes have to compare what they have used.
        this.#intent = "rejoin";
      }
      onStateChange("lost", reason);
    }
    this.#adaptToLoss(clock.monotonicMs() - this.#respondedMs);
  }

  /** The times are such that no two nodes hold the same part, whichever of them are cut off. */
  #adaptToLoss(silentMs: number): void {
    const { allocator, timing } = this.#options;
    const { lostAfterMs, removedAfterMs } = timing;
    if (this.#lossStage === "none" && silentMs > lostAfterMs) {
      this.#lossStage = "surplus_dropped";
      allocator.dropSurplus();
    } else if (this.#lossStage === "surplus_dropped" && silentMs > 2 * lostAfterMs + removedAfterMs) {
      this.#lossStage = "shares_restored";
      allocator.restoreShares();
    }
  }

  #wakeAll(): void {
    for (const wake of [...this.#waiting]) wake();
  }
}
