/**
 * Writes the progress of requests apart from the batches of direct billing. On a shared server a batch may wait for a
 * lock, or be slow: a checkpoint must not wait with it, because a crash would lose the output since the last one.
 */

import type { Db } from "../../store/engine/db.ts";
import { writeProgress } from "../../store/money/holds.ts";
import type { Progress } from "./progress.ts";

interface ProgressWriterOptions {
  db: Db;
  progress: Progress;
  limits: { batchMax: number; retryMs: number };
}

/** Owns the statement that runs. */
export class ProgressWriter {
  readonly #options: ProgressWriterOptions;
  #running: Promise<void> | null = null;
  #isStopped = false;

  constructor(options: ProgressWriterOptions) {
    this.#options = options;
  }

  /** Call when changes have become due. */
  schedule(): void {
    if (this.#isStopped) return;
    this.#running ??= this.#writeDue().finally(() => {
      this.#running = null;
      if (this.#options.progress.isDue()) this.schedule();
    });
  }

  /** Resolves when everything that is due now was tried. */
  async flush(): Promise<void> {
    this.schedule();
    await this.#running;
  }

  /** Resolves when the statement that runs now has ended. */
  async finishRunning(): Promise<void> {
    await this.#running;
  }

  stop(): void {
    this.#isStopped = true;
  }

  async #writeDue(): Promise<void> {
    const { db, progress, limits } = this.#options;
    const due = progress.takeDue(limits.batchMax);
    if (due.length === 0) return;
    try {
      await writeProgress(db, due);
    } catch {
      // The batches report that the database is unavailable.
      progress.requeue(due);
      await Bun.sleep(limits.retryMs);
    }
  }
}
