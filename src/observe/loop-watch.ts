/**
 * Watches the event loop: a turn that uses more CPU time than allowed delays every client, so it is logged with the
 * request that it worked for. CPU time of the thread is measured, because a paused machine is not work.
 */

import type { Log } from "./log.ts";

interface LoopWatchLimits {
  /** CPU time of one turn above which it is logged. */
  readonly turnMs: number;
  /** How often the watch looks. A turn is measured with an error of this size. */
  readonly tickMs: number;
  /** How long a slow turn counts for the alert, and how many open it. */
  readonly alertSpanMs: number;
  readonly alertTurns: number;
}

interface LoopWatchOptions {
  readonly limits: LoopWatchLimits;
  readonly log: Log;
  monotonicMs(): number;
  /** CPU time of the calling thread so far. */
  threadCpuMs(): number;
}

/** CPU time of the calling thread so far, in milliseconds. */
export function readThreadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

/** The longest work for one request in a turn. Null if the work belongs to no known request. */
interface Work {
  readonly endpoint: string | null;
  readonly requestId: string | null;
  readonly tookMs: number;
}

/** Work that takes less is not worth an object. */
const NO_WORK: Work = { endpoint: null, requestId: null, tookMs: 1 };

export class LoopWatch {
  readonly #options: LoopWatchOptions;
  #timer: ReturnType<typeof setInterval> | null = null;
  #tickAtMs = 0;
  #tickCpuMs = 0;
  #slowTurns = 0;
  /** When the latest slow turns ended, at most as many as open the alert. */
  #latestAtMs: number[] = [];

  /** The request that the thread works for, as far as known, and since when. */
  #endpoint: string | null = null;
  #requestId: string | null = null;
  #sinceMs = 0;
  #longest: Work = NO_WORK;

  constructor(options: LoopWatchOptions) {
    this.#options = options;
  }

  /** Slow turns since the process started. */
  get slowTurns(): number {
    return this.#slowTurns;
  }

  start(): void {
    const { limits, monotonicMs, threadCpuMs } = this.#options;
    this.#tickAtMs = monotonicMs();
    this.#tickCpuMs = threadCpuMs();
    this.#timer ??= setInterval(() => this.#tick(), limits.tickMs);
    this.#timer.unref();
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  /** Names the request that the thread works for from now on. Called where long work can begin, so it is cheap. */
  enter(endpoint: string, requestId: string): void {
    const nowMs = this.#options.monotonicMs();
    this.#leave(nowMs);
    this.#endpoint = endpoint;
    this.#requestId = requestId;
    this.#sinceMs = nowMs;
  }

  /** How many slow turns the span of the alert contains, if they are enough to open it; otherwise 0. */
  countRepeated(): number {
    const { limits, monotonicMs } = this.#options;
    const sinceMs = monotonicMs() - limits.alertSpanMs;
    const recent = this.#latestAtMs.filter((atMs) => atMs > sinceMs).length;
    return recent >= limits.alertTurns ? recent : 0;
  }

  #leave(nowMs: number): void {
    if (this.#endpoint === null || nowMs - this.#sinceMs <= this.#longest.tookMs) return;
    this.#longest = {
      endpoint: this.#endpoint,
      requestId: this.#requestId,
      tookMs: nowMs - this.#sinceMs,
    };
  }

  #tick(): void {
    const { limits, monotonicMs, threadCpuMs } = this.#options;
    const nowMs = monotonicMs();
    const cpuMs = threadCpuMs();
    const turnMs = Math.min(cpuMs - this.#tickCpuMs, nowMs - this.#tickAtMs);
    this.#tickAtMs = nowMs;
    this.#tickCpuMs = cpuMs;
    if (turnMs > limits.turnMs) {
      this.#leave(nowMs);
      this.#report(turnMs, nowMs);
    }
    this.#endpoint = null;
    this.#longest = NO_WORK;
  }

  #report(turnMs: number, nowMs: number): void {
    const { limits, log } = this.#options;
    const { endpoint, requestId } = this.#longest;
    this.#slowTurns++;
    this.#latestAtMs = [...this.#latestAtMs, nowMs].slice(-limits.alertTurns);
    log.warn("slow_turn", { cpu_ms: Math.round(turnMs), endpoint, request_id: requestId });
  }
}
