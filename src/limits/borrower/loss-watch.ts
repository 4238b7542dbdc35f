/**
 * What a node does while a coordinator does not respond. If another node still reaches it, this one uses what it holds
 * and then rejects; otherwise the rule of the operator decides.
 */

import type { BorrowerTimers } from "./borrower-timers.ts";
import type { BorrowerTiming } from "./borrower-timing.ts";
import type { CoordinatorLink } from "./coordinator-link.ts";
import type { CoordinatorState } from "./link-health.ts";
import type { RegisteredNode } from "./registry-watch.ts";

export type CoordinatorLossRule = "share" | "closed" | "open";

interface LossWatchOptions {
  readonly process: string;
  readonly links: readonly CoordinatorLink[];
  readonly lossRule: CoordinatorLossRule;
  readonly timing: Pick<BorrowerTiming, "exchangeMs" | "unknownUseMs" | "lossCheckMs">;
  readonly timers: BorrowerTimers;
  monotonicMs(): number;
  /** Resolves with the last known nodes if the database is away as well. */
  listNodes(): Promise<readonly RegisteredNode[]>;
  /** Each of this number of nodes uses its share from now on. */
  onShare(link: CoordinatorLink, nodes: number): void;
  /** A node reaches the coordinator again. */
  onShareEnd(link: CoordinatorLink): void;
  /** Others reach the coordinator: requests that this node cannot serve from what it holds are rejected. */
  onCutOff(link: CoordinatorLink): void;
}

export class LossWatch {
  readonly #options: LossWatchOptions;
  /** Since when each of them does not respond. */
  readonly #lost = new Map<CoordinatorLink, number>();
  #cancel: (() => void) | null = null;
  #isStopped = false;

  constructor(options: LossWatchOptions) {
    this.#options = options;
  }

  get isClosed(): boolean {
    const { links, lossRule } = this.#options;
    if (links.some((link) => !link.hasOpened && link.loss === null)) return true;
    return lossRule === "closed" && this.#lost.size > 0;
  }

  get isReady(): boolean {
    const { links } = this.#options;
    return links.every(
      (link) => (link.hasOpened || link.loss !== null) && !link.isClosed && !this.isCutOff(link),
    );
  }

  noteState(link: CoordinatorLink, state: CoordinatorState): void {
    if (state === "up") {
      this.#lost.delete(link);
      this.#endShare(link);
      return;
    }
    this.#lost.set(link, this.#options.monotonicMs());
    void this.#check();
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancel?.();
  }

  /** Others reach the coordinator, and this node does not. They have had the time to publish the contrary. */
  isCutOff(link: CoordinatorLink): boolean {
    const sinceMs = this.#lost.get(link);
    if (sinceMs === undefined || link.loss !== null) return false;
    return this.#options.monotonicMs() - sinceMs >= this.#options.timing.lossCheckMs;
  }

  async #check(): Promise<void> {
    const { listNodes, process, timing, timers } = this.#options;
    this.#cancel?.();
    const nodes = await listNodes();
    if (this.#isStopped || this.#lost.size === 0) return;
    const others = nodes.filter(({ id }) => id !== process);
    const isReached = others.some(({ reachesCoordinator }) => reachesCoordinator);
    for (const link of this.#lost.keys()) this.#decide(link, isReached, others.length + 1);
    this.#cancel = timers.after(timing.exchangeMs, () => void this.#check());
  }

  #decide(link: CoordinatorLink, isReached: boolean, nodes: number): void {
    const { lossRule, timing, onShare } = this.#options;
    // A node that has just started does not know what its former process has used.
    const isKnown = link.hasOpened || link.sinceStartMs > timing.unknownUseMs;
    if (isReached || !isKnown) {
      this.#endShare(link);
      if (!this.isCutOff(link)) return;
      this.#options.onCutOff(link);
      link.leave();
      return;
    }
    // A node that serves its share holds something again.
    if (link.hasLeft) return void link.rejoin();
    const isNew = link.loss === null;
    link.loss = { nodes: lossRule === "open" ? 1 : nodes };
    if (isNew) onShare(link, link.loss.nodes);
  }

  #endShare(link: CoordinatorLink): void {
    if (link.loss === null) return;
    link.loss = null;
    this.#options.onShareEnd(link);
  }
}
