/** Whether a coordinator responds, and how long a call may take. */

import type { BorrowerTiming } from "./borrower-timing.ts";

export type CoordinatorState = "up" | "lost";

export interface LinkHealthOptions {
  readonly timing: Pick<BorrowerTiming, "faultsMax" | "lostAfterMs" | "callMinMs" | "callMaxMs">;
  monotonicMs(): number;
}

export class LinkHealth {
  readonly #options: LinkHealthOptions;
  /** When the coordinator last responded to anything. */
  contactMs: number;
  /** The same for a call that the node needs an answer to. */
  #respondedMs: number;
  #state: CoordinatorState = "up";
  #faults = 0;

  constructor(options: LinkHealthOptions) {
    this.#options = options;
    this.contactMs = options.monotonicMs();
    this.#respondedMs = this.contactMs;
  }

  get state(): CoordinatorState {
    return this.#state;
  }

  /** Returns whether the coordinator was lost before. */
  noteResponse(): boolean {
    const wasLost = this.#state === "lost";
    this.#faults = 0;
    this.#respondedMs = this.#options.monotonicMs();
    this.contactMs = this.#respondedMs;
    this.#state = "up";
    return wasLost;
  }

  /** Returns whether the coordinator is lost from now on. */
  noteFault(): boolean {
    const { timing, monotonicMs } = this.#options;
    this.#faults += 1;
    const silentMs = monotonicMs() - this.#respondedMs;
    if (this.#state === "lost" || this.#faults < timing.faultsMax || silentMs < timing.lostAfterMs)
      return false;
    this.#state = "lost";
    return true;
  }

  /** Four round trips. A server that has become slower is given more time with each failure. */
  computeDeadlineMs(roundTripMs: number): number {
    const { callMinMs, callMaxMs } = this.#options.timing;
    const patience = 2 ** Math.min(this.#faults, 5);
    return Math.min(callMaxMs, patience * Math.max(callMinMs, 4 * roundTripMs));
  }
}
