/** One process of a supervisor, from its start to its end. */

import type { ProcessCommand, ProcessReport, ProcessRole } from "./process-messages.ts";

export interface ProcessEnd {
  readonly code: number | null;
  readonly signal: string | null;
}

/** The operating system's side of a process. */
interface ChildProcess {
  readonly pid: number;
  send(command: ProcessCommand): void;
  kill(signal: "SIGTERM" | "SIGKILL"): void;
}

export interface ChildEvents {
  onReport(report: ProcessReport): void;
  onEnd(end: ProcessEnd): void;
}

export type SpawnProcess = (number: number, role: ProcessRole, events: ChildEvents) => ChildProcess;

type ProcessState = "starting" | "ready" | "leaving" | "ended";

export class SupervisedProcess {
  readonly number: number;
  readonly #child: ChildProcess;
  readonly #monotonicMs: () => number;
  readonly #ready = Promise.withResolvers<boolean>();
  readonly #ended = Promise.withResolvers<ProcessEnd>();
  #state: ProcessState = "starting";
  #readyAtMs = 0;
  #missedReports = 0;
  /** Whether its end was requested. */
  isLeaving = false;

  constructor(
    number: number,
    { spawn, role, monotonicMs }: { spawn: SpawnProcess; role: ProcessRole; monotonicMs: () => number },
  ) {
    this.number = number;
    this.#monotonicMs = monotonicMs;
    this.#child = spawn(number, role, {
      onReport: (report) => this.#onReport(report),
      onEnd: (end) => this.#onEnd(end),
    });
  }

  get pid(): number {
    return this.#child.pid;
  }

  get hasEnded(): boolean {
    return this.#state === "ended";
  }

  /** Resolves to false if the process ends before it is ready. */
  get ready(): Promise<boolean> {
    return this.#ready.promise;
  }

  get ended(): Promise<ProcessEnd> {
    return this.#ended.promise;
  }

  /** How long the process has been ready. */
  get servedMs(): number {
    return this.#readyAtMs === 0 ? 0 : this.#monotonicMs() - this.#readyAtMs;
  }

  /** Lets the process finish its requests. A process that does not serve yet is ended at once. */
  leave(command: ProcessCommand): void {
    if (this.#state === "ended" || this.#state === "leaving") return;
    this.isLeaving = true;
    if (this.#state === "starting") this.#child.kill("SIGTERM");
    else this.#child.send(command);
    this.#state = "leaving";
  }

  kill(): void {
    if (this.#state !== "ended") this.#child.kill("SIGKILL");
  }

  /** Called at each interval. Returns the number of intervals without a report, including this one. */
  countMissedReport(): number {
    this.#missedReports += 1;
    return this.#missedReports;
  }

  #onReport(report: ProcessReport): void {
    this.#missedReports = 0;
    if (report !== "ready" || this.#state !== "starting") return;
    this.#state = "ready";
    this.#readyAtMs = this.#monotonicMs();
    this.#ready.resolve(true);
  }

  #onEnd(end: ProcessEnd): void {
    this.#state = "ended";
    this.#ready.resolve(false);
    this.#ended.resolve(end);
  }
}
