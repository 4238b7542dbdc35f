/**
 * Runs several processes that serve one port: starts them, starts one that died again, replaces all by new ones, and
 * stops all. It serves no request and does not use the database.
 */

import { setTimeout as delay } from "node:timers/promises";
import type { limits as productLimits } from "../../config/limits/product-limits.ts";
import type { Log } from "../../observe/log.ts";
import type { ProcessRole } from "./process-messages.ts";
import { type ProcessEnd, type SpawnProcess, SupervisedProcess } from "./supervised-process.ts";

type WidenedLimits<T> = { readonly [name in keyof T]: number };
type SupervisorLimits = WidenedLimits<
  Omit<typeof productLimits.processes, "max" | "silentMs" | "askTimeoutMs" | "accessBatchCharsMax">
>;

interface SupervisorOptions {
  /** How many processes serve at a time. */
  readonly count: number;
  readonly spawn: SpawnProcess;
  readonly log: Log;
  readonly limits: SupervisorLimits;
  monotonicMs(): number;
  /** All processes serve: at the start, and after they were replaced. */
  onReady(): void;
  onReplacing(): void;
}

/** The exit code if a process cannot be kept running. */
const FAILED = 1;

export class Supervisor {
  readonly #options: SupervisorOptions;
  /** By number. A process that died stays until it is started again. */
  readonly #processes = new Map<number, SupervisedProcess>();
  readonly #started = Promise.withResolvers<void>();
  readonly #stopping = new AbortController();
  readonly #watch: ReturnType<typeof setInterval>;
  #exitCode = 0;
  #replacing: Promise<void> | null = null;
  #isReplacementWanted = false;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#watch = setInterval(() => this.#killSilent(), options.limits.reportMs);
    this.#watch.unref();
  }

  /** Resolves to the exit code, when all processes have ended. */
  async run(): Promise<number> {
    const first = this.#start(1, "first");
    if (!(await first.ready)) return this.#end(await first.ended);
    const processes = [first];
    for (let number = 2; number <= this.#options.count; number += 1)
      processes.push(this.#start(number, "further"));
    for (const process of processes) void this.#keep(process);
    await Promise.all(processes.map(({ ready }) => ready));
    if (!this.#stopping.signal.aborted) this.#options.onReady();
    this.#started.resolve();
    await this.#whenStopping();
    await Promise.all([...this.#processes.values()].map(({ ended }) => ended));
    clearInterval(this.#watch);
    return this.#exitCode;
  }

  /** Lets all processes finish their requests. */
  stop(): void {
    this.#stopping.abort();
    for (const process of this.#processes.values()) process.leave("stop");
  }

  kill(): void {
    this.#exitCode = FAILED;
    this.#stopping.abort();
    for (const process of this.#processes.values()) process.kill();
  }

  /**
   * Replaces the processes one after another: a new one serves before a former one stops. They have the program, the
   * environment file and the configuration file of this moment.
   */
  replaceAll(): void {
    this.#isReplacementWanted = true;
    this.#replacing ??= this.#replaceWhileWanted().finally(() => {
      this.#replacing = null;
    });
  }

  /** Without the first process nothing works, so an error is not retried here: the service manager does it. */
  #end({ code }: ProcessEnd): number {
    clearInterval(this.#watch);
    if (this.#stopping.signal.aborted) return this.#exitCode;
    return code === null || code === 0 ? FAILED : code;
  }

  #whenStopping(): Promise<void> {
    const { signal } = this.#stopping;
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  }

  #start(number: number, role: ProcessRole): SupervisedProcess {
    const { spawn, monotonicMs } = this.#options;
    const process = new SupervisedProcess(number, { spawn, role, monotonicMs });
    this.#processes.set(number, process);
    return process;
  }

  /** Starts the process again whenever it ends. Resolves when it has ended as requested. */
  async #keep(process: SupervisedProcess): Promise<void> {
    const { log, limits } = this.#options;
    let current = process;
    let restartMs = limits.restartMinMs;
    let failedStarts = 0;
    for (;;) {
      const wasReady = await current.ready;
      const end = await current.ended;
      if (current.isLeaving || this.#stopping.signal.aborted) return;
      failedStarts = wasReady ? 0 : failedStarts + 1;
      if (current.servedMs >= limits.stableMs) restartMs = limits.restartMinMs;
      const { number, pid } = current;
      const fields = { process: number, pid, code: end.code, signal: end.signal };
      if (failedStarts >= limits.failedStartsMax) {
        log.error("process_failed", { ...fields, failed_starts: failedStarts });
        this.#exitCode = FAILED;
        this.stop();
        return;
      }
      log.error("process_ended", { ...fields, restart_ms: restartMs });
      await this.#wait(restartMs);
      if (this.#stopping.signal.aborted) return;
      restartMs = Math.min(limits.restartMaxMs, restartMs * 2);
      current = this.#start(number, "further");
    }
  }

  async #replaceWhileWanted(): Promise<void> {
    await this.#started.promise;
    while (this.#isReplacementWanted && !this.#stopping.signal.aborted) {
      this.#isReplacementWanted = false;
      this.#options.onReplacing();
      await this.#replaceOneByOne();
      if (!this.#stopping.signal.aborted) this.#options.onReady();
    }
  }

  async #replaceOneByOne(): Promise<void> {
    const { log } = this.#options;
    let role: ProcessRole = "first";
    for (const former of [...this.#processes.values()]) {
      if (this.#stopping.signal.aborted) return;
      // It is started again anyway.
      if (former.hasEnded) continue;
      const next = this.#start(this.#findFreeNumber(), role);
      if (!(await next.ready)) {
        this.#processes.delete(next.number);
        if (this.#stopping.signal.aborted) return;
        const { code, signal } = await next.ended;
        log.error("replacement_failed", { process: next.number, code, signal });
        return;
      }
      role = "further";
      void this.#keep(next);
      former.leave("replace");
      await former.ended;
      if (this.#processes.get(former.number) === former) this.#processes.delete(former.number);
      log.info("process_replaced", { process: former.number, by: next.number, pid: next.pid });
    }
  }

  #findFreeNumber(): number {
    let number = 1;
    while (this.#processes.has(number)) number += 1;
    return number;
  }

  /** Counts intervals, not time: a machine that was suspended has not given its processes time to report. */
  #killSilent(): void {
    const { log, limits } = this.#options;
    for (const process of this.#processes.values()) {
      if (process.hasEnded || process.countMissedReport() < limits.missedMax) continue;
      log.error("process_hung", { process: process.number, pid: process.pid });
      process.kill();
    }
  }

  async #wait(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#stopping.signal }).catch(() => {});
  }
}
