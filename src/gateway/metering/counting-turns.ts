/** Shares the event loop between all counts of tokens: together they take a few milliseconds of each turn. */

import { type Clock, systemClock } from "../../base/clock.ts";

/** A count, in steps of a few KB of text. */
export interface SteppedCount {
  /** Counts the next part. Returns true if it was the last one. */
  step(): boolean;
}

interface WaitingJob {
  readonly job: SteppedCount;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

const MS_PER_TURN = 4;

export class CountingTurns {
  readonly #clock: Pick<Clock, "monotonicMs">;
  /** The job whose turn is next is the first. */
  readonly #waiting = new Set<WaitingJob>();
  #isScheduled = false;

  constructor(clock: Pick<Clock, "monotonicMs">) {
    this.#clock = clock;
  }

  /** Resolves when the last step of the job has run. */
  run(job: SteppedCount): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#waiting.add({ job, resolve, reject });
    this.#schedule();
    return promise;
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#takeTurn());
  }

  #takeTurn(): void {
    this.#isScheduled = false;
    const endMs = this.#clock.monotonicMs() + MS_PER_TURN;
    for (const waiting of this.#waiting) {
      this.#waiting.delete(waiting);
      if (!hasEnded(waiting)) this.#waiting.add(waiting);
      if (this.#clock.monotonicMs() >= endMs) break;
    }
    if (this.#waiting.size > 0) this.#schedule();
  }
}

function hasEnded({ job, resolve, reject }: WaitingJob): boolean {
  try {
    if (!job.step()) return false;
    resolve();
  } catch (error) {
    reject(error);
  }
  return true;
}

/** One for the process, because there is one event loop. */
export const countingTurns = new CountingTurns(systemClock);
