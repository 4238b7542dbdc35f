/** A cluster in virtual time: nodes with real limiters, and a coordinator that delays, loses and forgets. */

import { nodeLimits } from "../../config/limits/node-limits.ts";
import { type CallerLimits, NO_LIMITS } from "../../records/limits.ts";
import { type Limiter, type LimitLease, openLimiter, type Subject } from "../limiter.ts";
import { SubjectRegistry } from "../subject-registry.ts";
import { type Coordinator, type CoordinatorDocument, MemoryCoordinator } from "./coordinator.ts";
import { LimitSharing, type SharingTiming } from "./limit-sharing.ts";
import { ShareAllocator } from "./share-allocator.ts";
import type { UseHistory } from "./stages.ts";
import type { SharingTimers } from "./timers.ts";

/** As shipped: the proof is about these times. */
export const TIMING: SharingTiming = nodeLimits.limitSharing;

interface TimedEvent {
  readonly atMs: number;
  readonly order: number;
  run: (() => void) | null;
}

export class VirtualTime implements SharingTimers {
  nowMs = 0;
  #order = 0;
  /** A binary heap. */
  readonly #events: TimedEvent[] = [];

  after(ms: number, callback: () => void): () => void {
    const event: TimedEvent = { atMs: this.nowMs + ms, order: this.#order++, run: callback };
    this.#push(event);
    return () => {
      event.run = null;
    };
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.after(ms, resolve));
  }

  async runUntil(untilMs: number): Promise<void> {
    for (;;) {
      // Continuations of the last event may add events.
      await new Promise((resolve) => setImmediate(resolve));
      const next = this.#events[0];
      if (next === undefined || next.atMs > untilMs) break;
      this.#pop();
      if (next.run === null) continue;
      this.nowMs = next.atMs;
      next.run();
    }
    this.nowMs = untilMs;
  }

  #push(event: TimedEvent): void {
    const events = this.#events;
    let index = events.push(event) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!isBefore(event, events[parent])) break;
      events[index] = events[parent] ?? event;
      index = parent;
    }
    events[index] = event;
  }

  #pop(): void {
    const events = this.#events;
    const last = events.pop();
    if (last === undefined || events.length === 0) return;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= events.length) break;
      if (child + 1 < events.length && isBefore(events[child + 1], events[child])) child += 1;
      const least = events[child];
      if (least === undefined || !isBefore(least, last)) break;
      events[index] = least;
      index = child;
    }
    events[index] = last;
  }
}

function isBefore(a: TimedEvent | undefined, b: TimedEvent | undefined): boolean {
  if (a === undefined || b === undefined) return false;
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}

export interface Faults {
  /** Probability that a command or its response is lost. */
  loss: number;
  /** The longest delay of a command, and of its response. */
  delayMs: number;
  isFrozen: boolean;
}

export interface ModelUse {
  readonly node: string;
  readonly atMs: number;
  readonly amount: number;
}

export class ModelNode {
  readonly id: string;
  readonly limiter: Limiter;
  readonly sharing: LimitSharing;
  readonly allocator: ShareAllocator;
  readonly leases = new Set<LimitLease>();
  isRunning = false;
  isCutOff = false;
  /** The database rejects its statements. */
  isStoreLost = false;

  constructor(id: string, cluster: ModelCluster) {
    this.id = id;
    const { time } = cluster;
    const clock = { monotonicMs: () => time.nowMs };
    const subjects = new SubjectRegistry();
    this.limiter = openLimiter(clock, subjects);
    this.allocator = new ShareAllocator({ node: id, subjects, ...clock, onGain() {} });
    subjects.shares = this.allocator;
    this.sharing = new LimitSharing({
      node: id,
      coordinator: cluster.connect(this),
      allocator: this.allocator,
      history: cluster.openHistory(this),
      clock,
      timers: time,
      timing: TIMING,
      lossRule: "share",
      newEpoch: () => `epoch ${cluster.random()}`,
      random: cluster.random,
      listNodes: async () => cluster.listRunning(id),
      onStateChange() {},
    });
  }

  async start(): Promise<void> {
    await this.sharing.start();
    this.isRunning = true;
  }

  async stop(): Promise<void> {
    this.isRunning = false;
    await this.sharing.stop();
  }
}

export class ModelCluster {
  readonly time = new VirtualTime();
  readonly random: () => number;
  readonly faults: Faults = { loss: 0, delayMs: 5, isFrozen: false };
  readonly nodes: ModelNode[] = [];
  readonly uses: ModelUse[] = [];
  /** Its long windows are seeded with the use of processes that have ended. */
  subject: Subject | null = null;
  /** How long a killed node stays registered: until others have settled its requests. */
  unsettledMs = 0;
  readonly #unsettled = new Set<string>();
  readonly #publishedMs = new Map<string, number>();
  inFlight = 0;
  inFlightMax = 0;
  refused = 0;
  readonly #store: MemoryCoordinator;
  #copies: (string | null)[] = [];
  #started = 0;

  constructor(seed: number) {
    let state = seed;
    this.random = () => {
      state = (state * 48_271) % 2_147_483_647;
      return state / 2_147_483_647;
    };
    this.#store = new MemoryCoordinator(() => this.time.nowMs);
  }

  listRunning(joining: string): string[] {
    return [...new Set([...this.nodes.map(({ id }) => id), ...this.#unsettled, joining])];
  }

  /** The stored usage: every use is stored at once, and counts for its node when that has published it. */
  openHistory(node: ModelNode): UseHistory {
    const respond = async <T>(work: () => T): Promise<T> => {
      await this.time.sleep(this.random() * 100);
      if (node.isCutOff) return new Promise<T>(() => {});
      if (node.isStoreLost) throw new Error("the database does not answer");
      return work();
    };
    return {
      publish: () => respond(() => void this.#publishedMs.set(node.id, this.time.nowMs)),
      learn: (members) =>
        respond(() => {
          const isOwn = (use: ModelUse) =>
            members.includes(use.node) && use.atMs <= (this.#publishedMs.get(use.node) ?? -1);
          const past = this.uses
            .filter((use) => !isOwn(use))
            .map(({ atMs, amount }) => ({
              atAgoMs: this.time.nowMs - atMs,
              requests: amount,
              tokens: 0,
              nano: 0,
            }));
          if (this.subject !== null) node.limiter.seed(this.subject, past);
        }),
    };
  }

  connect(node: ModelNode): Coordinator {
    const command = async <T>(work: () => Promise<T>): Promise<T> => {
      const { loss, delayMs } = this.faults;
      await this.time.sleep(this.random() * delayMs);
      while (this.faults.isFrozen) await this.time.sleep(100);
      if (node.isCutOff || this.random() < loss) return new Promise<T>(() => {});
      const result = await work();
      await this.time.sleep(this.random() * delayMs);
      if (node.isCutOff || this.random() < loss) return new Promise<T>(() => {});
      return result;
    };
    return {
      kind: "memory",
      read: () => command(() => this.#store.read()),
      replace: (read: CoordinatorDocument, text: string) =>
        command(async () => {
          const isReplaced = await this.#store.replace(read, text);
          if (isReplaced) this.#copies = [...this.#copies.slice(-20), text];
          return isReplaced;
        }),
      close: async () => {},
    };
  }

  /** Resolves with the node when it serves. */
  async startNode(): Promise<ModelNode> {
    const node = new ModelNode(`n${this.#started++}`, this);
    this.nodes.push(node);
    await this.openHistory(node).learn([]);
    await node.start();
    return node;
  }

  kill(node: ModelNode): void {
    node.isCutOff = true;
    node.isRunning = false;
    this.inFlight -= node.leases.size;
    node.leases.clear();
    this.nodes.splice(this.nodes.indexOf(node), 1);
    if (this.unsettledMs === 0) return;
    this.#unsettled.add(node.id);
    this.time.after(this.unsettledMs, () => this.#unsettled.delete(node.id));
  }

  /** Lets the requests of the node end, and stops it. */
  async stop(node: ModelNode): Promise<void> {
    await node.stop();
    this.nodes.splice(this.nodes.indexOf(node), 1);
  }

  loseState(): void {
    this.#store.restore(null);
  }

  /** The state before the last writes. */
  failOver(lostWrites: number): void {
    this.#store.restore(this.#copies.at(-1 - lostWrites) ?? null);
  }

  /** One request. `holdMs` is how long it is in flight. */
  async send(node: ModelNode, subject: Subject, { tokens = 0, holdMs = 0 } = {}): Promise<boolean> {
    const untilMs = this.time.nowMs + TIMING.waitMs;
    for (;;) {
      if (!node.isRunning) return false;
      const admission = node.limiter.admit([subject], { tokens });
      if (admission.ok) {
        this.#track(node, admission.lease, { tokens, holdMs });
        return true;
      }
      if (!admission.mayGrow || this.time.nowMs >= untilMs) break;
      if (!(await node.sharing.waitForGain())) break;
    }
    this.refused += 1;
    return false;
  }

  #track(node: ModelNode, lease: LimitLease, { tokens, holdMs }: { tokens: number; holdMs: number }): void {
    this.uses.push({ node: node.id, atMs: this.time.nowMs, amount: Math.max(1, tokens) });
    this.inFlight += 1;
    this.inFlightMax = Math.max(this.inFlightMax, this.inFlight);
    node.leases.add(lease);
    this.time.after(holdMs, () => {
      lease.release();
      if (node.leases.delete(lease)) this.inFlight -= 1;
    });
  }

  /** The largest use in any window. */
  findPeak(windowMs = 60_000): number {
    let peak = 0;
    let sum = 0;
    let first = 0;
    for (const { atMs, amount } of this.uses) {
      sum += amount;
      while ((this.uses[first]?.atMs ?? 0) + windowMs <= atMs) sum -= this.uses[first++]?.amount ?? 0;
      peak = Math.max(peak, sum);
    }
    return peak;
  }

  countUses(fromMs: number, toMs: number): number {
    let sum = 0;
    for (const { atMs, amount } of this.uses) if (atMs >= fromMs && atMs < toMs) sum += amount;
    return sum;
  }
}

export function keySubject(limits: Partial<CallerLimits>): Subject {
  return {
    scope: "key",
    id: "k1",
    limits: { ...NO_LIMITS, ...limits },
  };
}

/** Sends requests at random times to nodes that `choose` selects, until the time is over. */
export function sendLoad(
  cluster: ModelCluster,
  {
    everyMs,
    untilMs,
    choose,
    send,
  }: {
    everyMs: number;
    untilMs: number;
    choose(): ModelNode | undefined;
    send(node: ModelNode): Promise<boolean>;
  },
): void {
  const next = () => {
    if (cluster.time.nowMs >= untilMs) return;
    const node = choose();
    if (node?.isRunning) void send(node);
    cluster.time.after(-Math.log(1 - cluster.random()) * everyMs, next);
  };
  next();
}

export async function startNodes(cluster: ModelCluster, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    void cluster.startNode();
    await cluster.time.runUntil(cluster.time.nowMs + 2_000);
  }
  if (!cluster.nodes.every(({ isRunning }) => isRunning)) throw new Error("a node has not started");
}
