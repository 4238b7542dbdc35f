/** The stages in which a node accepts a changed list of members, and what it does before each of them. */

import type { Stage } from "./ledger.ts";
import type { ShareTerms } from "./shares.ts";
import type { SharingTimers } from "./timers.ts";

export type Phase = "joining" | "publishing" | "confirmed" | "learning" | "prepared" | "active";

export const STAGES: Readonly<Record<Phase, Stage>> = {
  joining: 0,
  publishing: 0,
  confirmed: 1,
  learning: 1,
  prepared: 2,
  active: 2,
};

/**
 * A node publishes its use of long windows before it confirms the members. It learns the use of all processes but the
 * members before it decides what it holds.
 */
export type StageTask = { readonly kind: "publish" } | { readonly kind: "learn"; readonly terms: ShareTerms };

/** The use of long windows, by process. Minutes need none: a process that has ended keeps its share for a minute. */
export interface UseHistory {
  /** Resolves when the others can read what the ended requests of this process have used. */
  publish(): Promise<void>;
  /** Counts the use of all processes but the members in the windows of this node. */
  learn(members: readonly string[]): Promise<void>;
}

export interface StageTasksOptions {
  readonly history: UseHistory;
  readonly timers: SharingTimers;
  readonly allocator: { readonly task: StageTask | null; completeTask(task: StageTask): void };
}

/** Runs the task of the current stage. A slow task does not stop the heartbeat of the node. */
export class StageTasks {
  readonly #options: StageTasksOptions;
  #running: Promise<void> | null = null;
  #failure: Error | null = null;

  constructor(options: StageTasksOptions) {
    this.#options = options;
  }

  /**
   * Resolves when the task is done, at the latest after `waitMs`. Rejects while the task fails, so that the node stops
   * writing: the others wait for each stage of a node that writes.
   */
  async advance(waitMs: number): Promise<void> {
    const { task } = this.#options.allocator;
    if (task === null) return;
    this.#running ??= this.#run(task);
    await this.#waitFor(this.#running, waitMs);
    if (this.#failure !== null) throw this.#failure;
  }

  async #run(task: StageTask): Promise<void> {
    const { history, allocator } = this.#options;
    try {
      if (task.kind === "publish") await history.publish();
      else await history.learn(task.terms.members);
      this.#failure = null;
      allocator.completeTask(task);
    } catch (error) {
      this.#failure = error instanceof Error ? error : new Error("unknown");
    } finally {
      this.#running = null;
    }
  }

  #waitFor(work: Promise<void>, waitMs: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#options.timers.after(waitMs, resolve);
      void work.then(() => {
        cancel();
        resolve();
      });
    });
  }
}
