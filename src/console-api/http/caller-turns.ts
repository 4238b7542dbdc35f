/**
 * Limits the operations of each caller that run at once. The others of the same caller wait in their order, so that a
 * caller who sends many does not delay those of other callers.
 */

import { ApiError } from "../../errors.ts";

interface CallerTurnsLimits {
  readonly runningMax: number;
  readonly waitingMax: number;
}

interface Turns {
  running: number;
  readonly waiting: (() => void)[];
}

export class CallerTurns {
  readonly #limits: CallerTurnsLimits;
  readonly #callers = new Map<string, Turns>();

  constructor(limits: CallerTurnsLimits) {
    this.#limits = limits;
  }

  async run<T>(caller: string, work: () => Promise<T>): Promise<T> {
    const turns = this.#callers.get(caller) ?? { running: 0, waiting: [] };
    this.#callers.set(caller, turns);
    if (turns.running < this.#limits.runningMax) turns.running += 1;
    else await this.#wait(turns);
    try {
      return await work();
    } finally {
      this.#pass(caller, turns);
    }
  }

  #wait({ waiting }: Turns): Promise<void> {
    if (waiting.length >= this.#limits.waitingMax) {
      const message =
        "Too many of your requests wait for a response. Wait for the responses, then send it again.";
      throw new ApiError("rate_limit_exceeded", message, { headers: { "retry-after": "1" } });
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    waiting.push(resolve);
    return promise;
  }

  /** The turn goes to the next operation of the caller. */
  #pass(caller: string, turns: Turns): void {
    const next = turns.waiting.shift();
    if (next !== undefined) {
      next();
      return;
    }
    turns.running -= 1;
    if (turns.running === 0) this.#callers.delete(caller);
  }
}
