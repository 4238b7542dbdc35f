/**
 * One thread of a pool. It starts with its first job and stays, because starting it takes longer than most jobs. Ending
 * a thread interrupts JavaScript at once, and a call of the runtime, such as `JSON.parse`, at its end.
 */

import { readFileSync } from "node:fs";
import { ApiError } from "../errors.ts";
import { type JobLimit, JobLimitError } from "./job-limit-error.ts";
import type { ThreadMessage } from "./serve-jobs.ts";

export interface ThreadLimits {
  readonly jobCpuMs: number;
  /** Time of one job where CPU time cannot be measured, and on a machine that gives the thread no CPU. */
  readonly jobMs: number;
  /** Growth of the memory of the whole process while a job runs: the runtime cannot measure one thread. */
  readonly jobMemoryBytes: number;
  /** A thread that was not used for so long is ended, which frees its memory. */
  readonly idleMs: number;
}

export interface ThreadOptions {
  readonly limits: ThreadLimits;
  startWorker(): Worker;
  monotonicMs(): number;
}

/** A message for a thread, with the buffers that move there. */
export interface JobMessage<Job> {
  readonly job: Job;
  readonly transfer: readonly ArrayBuffer[];
}

export interface PoolJob<Job> {
  /** Whose job it is: the owner of the API key. */
  readonly owner: string;
  /** The size of its input. */
  readonly bytes: number;
  /** Called when a thread is free, so that a waiting job has no copy of its input. */
  open(): Promise<JobMessage<Job>>;
}

interface RunningJob<Result> {
  readonly startedMs: number;
  readonly memoryBytes: number;
  /** CPU time of the thread at the start of the job; null until it is known. */
  cpuMs: number | null;
  isEnded: boolean;
  resolve(result: Result): void;
  reject(error: Error): void;
}

export class PoolThread<Job, Result> {
  readonly bytesMax: number;
  readonly #options: ThreadOptions;
  #worker: Worker | null = null;
  /** The number of the thread in the operating system; null until it is known. */
  #taskId: string | null = null;
  #running: RunningJob<Result> | null = null;
  #idleTimer: ReturnType<typeof setTimeout> | null = null;

  constructor(bytesMax: number, options: ThreadOptions) {
    this.bytesMax = bytesMax;
    this.#options = options;
  }

  get isBusy(): boolean {
    return this.#running !== null;
  }

  async run({ open }: PoolJob<Job>): Promise<Result> {
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    // A job that is ended while it is opened has no other handler yet.
    promise.catch(() => {});
    const running: RunningJob<Result> = {
      startedMs: this.#options.monotonicMs(),
      memoryBytes: process.memoryUsage.rss(),
      cpuMs: this.#readCpuMs(),
      isEnded: false,
      resolve,
      reject,
    };
    this.#running = running;
    if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
    try {
      const { job, transfer } = await open();
      if (running.isEnded) return await promise;
      this.#worker ??= this.#start();
      this.#worker.postMessage(job, [...transfer]);
      return await promise;
    } finally {
      this.#running = null;
      this.#idleTimer = setTimeout(() => this.#stop(), this.#options.limits.idleMs);
      this.#idleTimer.unref();
    }
  }

  /** Ends a job that exceeds a limit, and its thread. */
  checkLimits(): void {
    const exceeded = this.#findExceeded();
    if (exceeded !== null) this.#end(new JobLimitError(exceeded));
  }

  close(): void {
    this.#end(new JobLimitError("closed"));
  }

  #findExceeded(): JobLimit | null {
    if (this.#running === null) return null;
    const { limits, monotonicMs } = this.#options;
    const { startedMs, memoryBytes, cpuMs } = this.#running;
    if (process.memoryUsage.rss() - memoryBytes > limits.jobMemoryBytes) return "memory";
    if (monotonicMs() - startedMs > limits.jobMs) return "time";
    const nowCpuMs = this.#readCpuMs();
    return cpuMs !== null && nowCpuMs !== null && nowCpuMs - cpuMs > limits.jobCpuMs ? "time" : null;
  }

  #start(): Worker {
    const worker = this.#options.startWorker();
    // An idle thread must not keep the process alive.
    worker.unref();
    worker.onmessage = ({ data }: MessageEvent<ThreadMessage<Result>>) => this.#receive(data);
    worker.onerror = ({ message }) => this.#end(new Error(`A job of a thread failed: ${message}`));
    return worker;
  }

  #receive(message: ThreadMessage<Result>): void {
    switch (message.kind) {
      case "ready":
        this.#taskId = message.taskId;
        // Loading the modules is not work of the job.
        if (this.#running !== null) this.#running.cpuMs = this.#readCpuMs();
        return;
      case "result":
        this.#running?.resolve(message.result);
        return;
      case "rejected":
        this.#running?.reject(
          new ApiError(message.code, message.message, { param: message.param, rule: message.rule }),
        );
        return;
    }
  }

  #end(error: Error): void {
    this.#stop();
    if (this.#running === null) return;
    this.#running.isEnded = true;
    this.#running.reject(error);
  }

  #stop(): void {
    if (this.#worker === null) return;
    this.#worker.onmessage = null;
    this.#worker.onerror = null;
    this.#worker.terminate();
    this.#worker = null;
    this.#taskId = null;
  }

  /** Null where the operating system does not report the CPU time of threads. */
  #readCpuMs(): number | null {
    if (this.#taskId === null) return null;
    try {
      const [nanoseconds] = readFileSync(`/proc/self/task/${this.#taskId}/schedstat`, "utf8").split(" ", 1);
      return Number(nanoseconds) / 1e6;
    } catch {
      return null;
    }
  }
}
