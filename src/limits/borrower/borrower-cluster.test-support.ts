/**
 * Nodes in virtual time with real limit borrowers, a coordinator behind a network that delays, loses and cuts, and an oracle that
 * knows every use of every meter in real time.
 */

import { nodeLimits } from "../../config/limits/node-limits.ts";
import { type CallerLimits, NO_LIMITS } from "../../records/limits.ts";
import { MemoryLimitCoordinator } from "../coordinator/memory-limit-coordinator.test-support.ts";
import type { Bucket } from "../coordinator/meter-record.test-support.ts";
import { bucketWidthMs, type RecordId } from "../coordinator/protocol.ts";
import type { LimitLease, Subject } from "../limiter-types.ts";
import type { BorrowerTimers } from "./borrower-timers.ts";
import { type CoordinatorContact, LimitBorrower, type QueuedAsk } from "./limit-borrower.ts";
import type { CoordinatorLossRule } from "./loss-watch.ts";
import { type ModelFaults, ModelNetwork } from "./model-network.test-support.ts";
import type { RegisteredNode } from "./registry-watch.ts";
import { type ModelUse, UseOracle } from "./use-oracle.test-support.ts";
import { VirtualTime } from "./virtual-time.test-support.ts";

/** What a request of the model needs. */
export interface ModelRequest {
  readonly key?: string;
  readonly subjects: readonly Subject[];
  readonly tokens?: number;
  /** What it has used in the end. */
  readonly usedTokens?: number;
  readonly nano?: number;
  readonly leastNano?: number;
  readonly usedNano?: number;
  readonly holdMs?: number;
  readonly queueMs?: number;
}

export type ModelOutcome = "served" | "rejected" | "timeout" | "unavailable";

interface Waiter {
  tryNow(): boolean;
}

export class ModelNode {
  readonly id: string;
  readonly folder: string;
  readonly limitBorrower: LimitBorrower;
  readonly #cluster: ModelCluster;
  readonly #delayed: (() => void)[] = [];
  readonly #queues = new Map<string, Set<Waiter>>();
  /** Requests that have not ended for this process: it may be frozen while their responses end. */
  readonly #inFlight = new Set<{ readonly uses: ModelUse[]; isOver: boolean }>();
  /** Rows that are not stored yet. */
  #rows: ModelUse[] = [];
  isCutOff = false;
  contact: CoordinatorContact = "up";
  /** The processes that it has reported as missing while the coordinator was closed; null: minutes were. */
  readonly closed: (readonly string[] | null)[] = [];
  /** The node has started, and its row of the registry says what it counts limits with. */
  hasPublished = false;
  #diedMs: number | null = null;
  #frozenMs = 0;
  #frozenUntilMs = 0;

  constructor(id: string, folder: string, cluster: ModelCluster) {
    this.id = id;
    this.folder = folder;
    this.#cluster = cluster;
    const { time } = cluster;
    const timers: BorrowerTimers = {
      after: (ms, callback) => time.after(ms, () => this.run(callback)),
    };
    this.limitBorrower = new LimitBorrower({
      coordinators: cluster.coordinators.map((coordinator) => cluster.network.connect(this, coordinator)),
      process: id,
      folder,
      timing: cluster.timing,
      timers,
      lossRule: cluster.lossRule,
      monotonicMs: () => time.nowMs,
      newTerm: () => cluster.newId("term"),
      revision: () => cluster.revision,
      listNodes: async () => cluster.listRegistered(),
      readWindowsAgain: async () => {
        cluster.readsAgain += 1;
      },
      flushUsage: async () => {
        cluster.store(this.#rows);
        this.#rows = [];
      },
      onStateChange: () => {},
      onClosed: (_, missing) => this.closed.push(missing),
      publish: async (contact) => {
        this.contact = contact;
      },
    });
  }

  get isRunning(): boolean {
    return this.#diedMs === null;
  }

  /** The last heartbeat. */
  get beatMs(): number {
    return this.#diedMs ?? (this.isFrozen ? this.#frozenMs : this.#cluster.time.nowMs);
  }

  get isFrozen(): boolean {
    return this.#cluster.time.nowMs < this.#frozenUntilMs;
  }

  /** Runs a callback of this process when it is not frozen; never after its end. */
  run(callback: () => void): void {
    if (!this.isRunning) return;
    if (this.isFrozen) this.#delayed.push(callback);
    else callback();
  }

  freeze(ms: number): void {
    const { time } = this.#cluster;
    if (!this.isFrozen) this.#frozenMs = time.nowMs;
    this.#frozenUntilMs = Math.max(this.#frozenUntilMs, time.nowMs + ms);
    time.after(ms, () => {
      if (!this.isFrozen) for (const callback of this.#delayed.splice(0)) this.run(callback);
    });
  }

  /** As `kill -9`: its requests break, and nothing of it is reported. Returns what its journal has. */
  kill(): ModelUse[] {
    this.#diedMs = this.#cluster.time.nowMs;
    for (const { uses, isOver } of this.#inFlight)
      if (!isOver) for (const { subject } of uses) this.#cluster.oracle.release(subject);
    const journal = [...this.#rows, ...[...this.#inFlight].flatMap(({ uses }) => uses)];
    this.#inFlight.clear();
    return journal;
  }

  async stop(): Promise<void> {
    await this.limitBorrower.stop();
    this.#diedMs = this.#cluster.time.nowMs;
  }

  /** Sends a request to this node. Resolves when it is admitted or rejected. */
  async send(request: ModelRequest): Promise<ModelOutcome> {
    if (this.isFrozen) await new Promise<void>((resolve) => this.run(resolve));
    if (!this.isRunning || this.limitBorrower.isClosed) return "unavailable";
    const { limiter } = this.limitBorrower;
    const { subjects, leastNano = request.nano ?? 0 } = request;
    const use = { tokens: request.tokens ?? 0, nano: request.nano ?? 0 };
    const attempt = (extent: "whole" | "final"): boolean => {
      const nano =
        extent === "whole"
          ? use.nano
          : Math.max(leastNano, Math.min(use.nano, limiter.computeRemainingNano(subjects)));
      const admission = limiter.admit(subjects, { ...use, nano });
      if (admission.ok) this.#track(admission.lease, request, nano);
      return admission.ok;
    };
    const first = limiter.admit(subjects, use);
    if (first.ok) {
      this.#track(first.lease, request, use.nano);
      return "served";
    }
    if (!first.mayGrow) {
      if (first.shortage.kind !== "concurrency") return "rejected";
      return this.#queue(request, attempt);
    }
    const outcome = await this.limitBorrower.borrow({
      key: request.key ?? "k",
      subjects,
      use,
      leastNano,
      raises: null,
      attempt,
    });
    if (outcome === "taken") return "served";
    if (outcome === "blocked") return this.#queue(request, attempt);
    return outcome === "lost" ? "unavailable" : "rejected";
  }

  /** Waits for a slot, first come, first served within a key. */
  #queue(request: ModelRequest, attempt: (extent: "whole" | "final") => boolean): Promise<ModelOutcome> {
    const { key = "k", subjects, leastNano = 0 } = request;
    const { time } = this.#cluster;
    const queue = this.#queues.get(key) ?? new Set();
    this.#queues.set(key, queue);
    return new Promise((resolve) => {
      let isOver = false;
      const end = (outcome: ModelOutcome) => {
        isOver = true;
        queue.delete(waiter);
        ask.stop();
        cancel();
        resolve(outcome);
      };
      const waiter: Waiter = {
        tryNow: () => {
          if (isOver || !attempt(ask.extent)) return false;
          end("served");
          return true;
        },
      };
      const serve = () => {
        for (const one of queue) if (!one.tryNow()) return;
      };
      const cancel = time.after(request.queueMs ?? 2_000, () => this.run(() => end("timeout")));
      const use = { tokens: request.tokens ?? 0, nano: request.nano ?? 0 };
      const ask: QueuedAsk = this.limitBorrower.queue({
        key,
        subjects,
        use,
        leastNano,
        raises: null,
        attempt() {
          serve();
          return false;
        },
      });
      queue.add(waiter);
      for (const blocker of [this.limitBorrower.limiter.findBlocker(subjects)])
        if (blocker !== null) blocker.onRelease = serve;
    });
  }

  #track(lease: LimitLease, request: ModelRequest, nano: number): void {
    const { time, oracle } = this.#cluster;
    const { subjects, tokens = 0, holdMs = 0 } = request;
    const uses = subjects.map(({ scope, id }) =>
      oracle.admit(`${scope} ${id}`, { atMs: time.nowMs, requests: 1, tokens, nano }),
    );
    const entry = { uses, isOver: false };
    this.#inFlight.add(entry);
    time.after(holdMs, () => {
      if (!this.#inFlight.has(entry)) return;
      entry.isOver = true;
      for (const { subject } of uses) oracle.release(subject);
      const use = { tokens: request.usedTokens ?? tokens, nano: Math.min(nano, request.usedNano ?? nano) };
      for (const one of uses) Object.assign(one, use);
      this.run(() => {
        this.#inFlight.delete(entry);
        this.#rows.push(...uses);
        lease.settle(use);
        lease.release();
        lease.finish();
      });
    });
  }
}

export class ModelCluster {
  readonly time = new VirtualTime();
  readonly oracle = new UseOracle();
  readonly random: () => number;
  readonly network: ModelNetwork;
  readonly nodes: ModelNode[] = [];
  /** Registered processes of an earlier version, which know no coordinator. */
  readonly older: RegisteredNode[] = [];
  /** The usage rows in the database. */
  readonly stored: ModelUse[] = [];
  readonly timing = nodeLimits.limitBorrower;
  /** One, or one for rates and one for windows, as with Redis. */
  readonly coordinators: readonly MemoryLimitCoordinator[];
  lossRule: CoordinatorLossRule = "share";
  revision = 1;
  /** How much the clock of the server was set. */
  serverStepMs = 0;
  /** How often the windows were to be read again. */
  readsAgain = 0;
  /** How long a dead process stays registered. On its own machine, others notice at once that it has ended. */
  burialMs = 70_000;
  /** Usage that is only in the folder of a dead process. */
  readonly #journals = new Map<string, ModelUse[]>();
  readonly #registered = new Map<string, ModelNode>();
  #ids = 0;

  constructor(seed: number, { hasOwnWindows = false } = {}) {
    let state = seed;
    this.random = () => {
      state = (state * 48_271) % 2_147_483_647;
      return state / 2_147_483_647;
    };
    this.network = new ModelNetwork(this.time, this.random);
    const options = {
      serverMs: () => SERVER_START_MS + this.time.nowMs + this.serverStepMs,
      newId: () => this.newId("epoch"),
      limits: nodeLimits.limitCoordinator,
      readUse: (record: RecordId, behindMs: number) => this.#readUse(record, behindMs),
    };
    this.coordinators = hasOwnWindows
      ? (["rates", "window"] as const).map(
          (kind) => new MemoryLimitCoordinator({ ...options, serves: [kind] }),
        )
      : [new MemoryLimitCoordinator(options)];
  }

  get faults(): ModelFaults {
    return this.network.faults;
  }

  /** How many calls the nodes have sent. */
  get calls(): number {
    return this.network.calls;
  }

  newId(prefix: string): string {
    return `${prefix} ${++this.#ids}`;
  }

  listRegistered(): RegisteredNode[] {
    const nodes = [...this.#registered.values()].map((node) => ({
      id: node.id,
      reachesCoordinator:
        node.hasPublished && /up|closed/.test(node.contact) && this.time.nowMs - node.beatMs < 10_000,
      hasLeft: node.contact === "left",
      isOlder: false,
    }));
    return [...nodes, ...this.older];
  }

  /** Resolves when the node serves. A folder of an earlier node proves that it has ended, and has its journal. */
  async startNode(folder = this.newId("folder")): Promise<ModelNode> {
    const node = new ModelNode(this.newId("process"), folder, this);
    this.store(this.#journals.get(folder) ?? []);
    this.#journals.delete(folder);
    for (const [id, former] of this.#registered) if (former.folder === folder) this.#registered.delete(id);
    this.#registered.set(node.id, node);
    this.nodes.push(node);
    await node.limitBorrower.start();
    node.hasPublished = true;
    return node;
  }

  /** Starts nodes one after another. */
  async startNodes(count: number): Promise<void> {
    for (let n = 0; n < count; n++) {
      void this.startNode();
      await this.time.runUntil(this.time.nowMs + 500);
    }
  }

  kill(node: ModelNode): void {
    this.#journals.set(node.folder, node.kill());
    this.nodes.splice(this.nodes.indexOf(node), 1);
    this.time.after(this.burialMs, () => this.#registered.delete(node.id));
  }

  /** The folder does not return: what is only in its journal is never charged. */
  loseFolder(folder: string): void {
    for (const use of this.#journals.get(folder) ?? []) use.nano = 0;
    this.#journals.delete(folder);
  }

  async stop(node: ModelNode): Promise<void> {
    await node.stop();
    this.#registered.delete(node.id);
    this.nodes.splice(this.nodes.indexOf(node), 1);
  }

  /** A row has the time of its request by the clock of the server as it is when the row is stored. */
  store(uses: readonly ModelUse[]): void {
    for (const use of uses) use.rowMs ??= SERVER_START_MS + use.atMs + this.serverStepMs;
    this.stored.push(...uses);
  }

  /** The stored usage of a window, as the sums of the database have it. */
  #readUse({ scope, id, perMs }: RecordId, behindMs: number): Bucket[] {
    const widthMs = bucketWidthMs(perMs);
    return this.stored
      .filter(({ subject }) => subject === `${scope} ${id}`)
      .map(({ rowMs, requests, tokens, nano }) => ({
        no: Math.floor(((rowMs ?? 0) + behindMs) / widthMs),
        used: [requests, tokens, nano] as [number, number, number],
      }));
  }
}

const SERVER_START_MS = 1_700_000_000_000;

export function keySubject(limits: Partial<CallerLimits>, id = "k1"): Subject {
  return { scope: "key", id, limits: { ...NO_LIMITS, ...limits } };
}
