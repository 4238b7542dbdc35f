/**
 * Watches which processes are registered in the database: the coordinators learn from it which terms have ended for
 * good. Also removes what nothing uses from the coordinators.
 */

import type { LimitCoordinator } from "../coordinator/protocol.ts";
import type { BorrowerTimers } from "./borrower-timers.ts";
import type { BorrowerTiming } from "./borrower-timing.ts";
import type { EpochMembers } from "./epoch-watch.ts";

export interface RegisteredNode {
  readonly id: string;
  /** The node has published it, and has been heard of since. */
  readonly reachesCoordinator: boolean;
  /** The node is cut off from the coordinator of rates, holds nothing, and has published that. */
  readonly hasLeft: boolean;
  /** Of a version that does not report its use to the coordinators. */
  readonly isOlder: boolean;
}

export interface RegistryWatchOptions {
  /** Together they serve rates and windows. */
  readonly coordinators: readonly LimitCoordinator[];
  readonly timing: Pick<BorrowerTiming, "beatMs" | "burialMs" | "sweepMs" | "unknownUseMs">;
  readonly timers: BorrowerTimers;
  monotonicMs(): number;
  /** All registered processes, and whether each of them reaches its coordinators. */
  listNodes(): Promise<readonly RegisteredNode[]>;
  /** Lets the coordinators read the stored use of all windows again. */
  readWindowsAgain(): Promise<void>;
}

export class RegistryWatch {
  readonly #options: RegistryWatchOptions;
  #nodes: readonly RegisteredNode[] = [];
  /** When it was last noticed that a process is no longer registered. */
  #endedMs = Number.NEGATIVE_INFINITY;
  #buriedMs = Number.NEGATIVE_INFINITY;
  #sweptMs: number;
  #hasOlderEnded = false;
  #cancel: (() => void) | null = null;
  #isStopped = false;

  constructor(options: RegistryWatchOptions) {
    this.#options = options;
    this.#sweptMs = options.monotonicMs();
  }

  start(): void {
    const { timers, timing } = this.#options;
    if (this.#isStopped) return;
    this.#cancel = timers.after(timing.beatMs, () => {
      void this.#run()
        .catch(() => {})
        .finally(() => this.start());
    });
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancel?.();
  }

  /** A process has ended so recently that it cannot declare its use to a coordinator that has lost it. */
  get hasUnknownUse(): boolean {
    const { timing, monotonicMs } = this.#options;
    return monotonicMs() - this.#endedMs < timing.unknownUseMs;
  }

  /** A coordinator knows of a process that has ended. */
  noteEnded(): void {
    this.#endedMs = this.#options.monotonicMs();
  }

  /** The registered processes that have terms: those of earlier versions never declare. Rejects if the database is away. */
  async listIds(): Promise<readonly string[]> {
    const { listNodes } = this.#options;
    const before = this.#nodes;
    const nodes = await listNodes();
    const running = new Set(nodes.map(({ id }) => id));
    for (const { id, isOlder } of before) {
      if (running.has(id)) continue;
      if (isOlder) this.#hasOlderEnded = true;
      else this.noteEnded();
    }
    this.#nodes = nodes;
    return nodes.filter(({ isOlder }) => !isOlder).map(({ id }) => id);
  }

  /** Without those that have left the coordinator of rates. Rejects if the database is away. */
  async listMembers(): Promise<EpochMembers> {
    const ids = await this.listIds();
    const left = this.#nodes.filter(({ id, hasLeft }) => hasLeft && ids.includes(id)).map(({ id }) => id);
    return { present: ids.filter((id) => !left.includes(id)), left };
  }

  /** If the database is away, it is not known that another node reaches the coordinator. */
  listLastKnown(): Promise<readonly RegisteredNode[]> {
    const { timers, timing } = this.#options;
    return new Promise((resolve) => {
      const giveUp = () => resolve(this.#nodes.map((node) => ({ ...node, reachesCoordinator: false })));
      const cancel = timers.after(timing.beatMs, giveUp);
      this.listIds()
        .finally(cancel)
        .then(() => resolve(this.#nodes), giveUp);
    });
  }

  async #run(): Promise<void> {
    const { timing, monotonicMs, coordinators, readWindowsAgain } = this.#options;
    await this.listIds();
    if (this.#hasOlderEnded) {
      await readWindowsAgain();
      this.#hasOlderEnded = false;
    }
    const nowMs = monotonicMs();
    const hasEnded = this.#endedMs > this.#buriedMs;
    if (!hasEnded && nowMs - this.#buriedMs < timing.burialMs) return;
    this.#buriedMs = nowMs;
    await this.#buryUnregistered();
    if (nowMs - this.#sweptMs < timing.sweepMs) return;
    this.#sweptMs = nowMs;
    await Promise.all(coordinators.map((coordinator) => coordinator.sweep()));
  }

  async #buryUnregistered(): Promise<void> {
    const { coordinators } = this.#options;
    await Promise.all(
      coordinators.map(async (coordinator) => {
        const running = await coordinator.listProcesses();
        // A process is registered before it opens a term, so what is not registered now has ended.
        const registered = await this.listIds();
        for (const process of running) if (!registered.includes(process)) await coordinator.bury(process);
      }),
    );
  }
}
