/**
 * Runs jobs in a few worker threads, so that no input blocks the event loop. A job that uses too much CPU time or memory
 * is ended with its thread, which the next job replaces. Jobs of different owners take turns.
 */

import { JobLimitError, type JobLimitTexts, jobError } from "./job-limit-error.ts";
import { type PoolJob, PoolThread, type ThreadLimits, type ThreadOptions } from "./pool-thread.ts";

export interface ThreadPoolLimits extends ThreadLimits {
  readonly waitingMax: number;
  /** Share of the waiting jobs that may belong to one owner. */
  readonly ownerShare: number;
  /** How often running jobs are checked against their limits. */
  readonly checkMs: number;
}

interface ThreadPoolOptions extends ThreadOptions {
  /** If it is set, a second thread takes only jobs up to this size, so that they need not wait for the longest ones. */
  readonly shortJobBytesMax?: number;
  readonly limits: ThreadPoolLimits;
}

interface WaitingJob<Job, Result> {
  readonly job: PoolJob<Job>;
  resolve(result: Promise<Result>): void;
  reject(error: Error): void;
}

export class ThreadPool<Job, Result> {
  readonly #options: ThreadPoolOptions;
  readonly #threads: readonly PoolThread<Job, Result>[];
  /** By owner. The owner whose job began last is the last one. */
  readonly #waiting = new Map<string, WaitingJob<Job, Result>[]>();
  #waitingCount = 0;
  #checks: ReturnType<typeof setInterval> | null = null;
  #isClosed = false;

  constructor(options: ThreadPoolOptions) {
    this.#options = options;
    const { shortJobBytesMax } = options;
    const longest = new PoolThread<Job, Result>(Number.POSITIVE_INFINITY, options);
    this.#threads =
      shortJobBytesMax === undefined ? [longest] : [longest, new PoolThread(shortJobBytesMax, options)];
  }

  /**
   * Resolves with the result of the job. Rejects with the `ApiError` that the job throws, and with a `JobLimitError` if
   * the job exceeds a limit or too many jobs wait.
   */
  run(job: PoolJob<Job>): Promise<Result> {
    const { waitingMax, ownerShare } = this.#options.limits;
    const own = this.#waiting.get(job.owner) ?? [];
    if (this.#isClosed) return Promise.reject(new JobLimitError("closed"));
    if (this.#waitingCount >= waitingMax || own.length >= waitingMax * ownerShare)
      return Promise.reject(new JobLimitError("waiting"));
    return new Promise((resolve, reject) => {
      own.push({ job, resolve, reject });
      this.#waiting.set(job.owner, own);
      this.#waitingCount++;
      this.#startNext();
    });
  }

  /** The same, but a job that exceeds a limit or finds too many others waiting is rejected with the error for the client. */
  async runForClient(job: PoolJob<Job>, texts: JobLimitTexts): Promise<Result> {
    try {
      return await this.run(job);
    } catch (error) {
      throw jobError(error, texts);
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#stopChecks();
    for (const thread of this.#threads) thread.close();
    for (const jobs of this.#waiting.values())
      for (const { reject } of jobs) reject(new JobLimitError("closed"));
    this.#waiting.clear();
    this.#waitingCount = 0;
  }

  #startNext(): void {
    for (const thread of this.#threads) {
      const next = thread.isBusy ? null : this.#takeWaiting(thread.bytesMax);
      if (next === null) continue;
      const running = thread.run(next.job);
      next.resolve(running);
      const goOn = () => this.#startNext();
      running.then(goOn, goOn);
    }
    if (this.#threads.some(({ isBusy }) => isBusy)) this.#startChecks();
    else this.#stopChecks();
  }

  #takeWaiting(bytesMax: number): WaitingJob<Job, Result> | null {
    for (const [owner, jobs] of this.#waiting) {
      const at = jobs.findIndex(({ job }) => job.bytes <= bytesMax);
      const [next] = at === -1 ? [] : jobs.splice(at, 1);
      if (next === undefined) continue;
      this.#waitingCount--;
      this.#waiting.delete(owner);
      if (jobs.length > 0) this.#waiting.set(owner, jobs);
      return next;
    }
    return null;
  }

  #startChecks(): void {
    this.#checks ??= setInterval(() => {
      for (const thread of this.#threads) thread.checkLimits();
    }, this.#options.limits.checkMs);
    this.#checks.unref();
  }

  #stopChecks(): void {
    if (this.#checks !== null) clearInterval(this.#checks);
    this.#checks = null;
  }
}
