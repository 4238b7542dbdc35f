/** Paces long transactions on the main thread: between two steps other work gets its turn. */

import { nextTurn } from "../../base/next-turn.ts";

/** Maximum duration of a step, when other work took long in between. */
const STEP_MS_MAX = 20;

export class StepPacer {
  readonly #monotonicMs: () => number;
  #stepUntilMs = 0;

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
  }

  /**
   * Yields to other work. If that work took long, the next step may take half as long: steps of a few rows could not
   * keep up with the requests that finish meanwhile.
   */
  async pause(): Promise<void> {
    const yieldedAtMs = this.#monotonicMs();
    if (yieldedAtMs < this.#stepUntilMs) return;
    await nextTurn();
    const resumedAtMs = this.#monotonicMs();
    this.#stepUntilMs = resumedAtMs + Math.min(STEP_MS_MAX, (resumedAtMs - yieldedAtMs) / 2);
  }
}
