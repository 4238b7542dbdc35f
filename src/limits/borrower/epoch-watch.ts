/**
 * Watches a coordinator that has lost its state until it lends again: when all registered processes have declared what
 * they hold, except those that have left it.
 */

import type { AskResult, LimitCoordinator } from "../coordinator/protocol.ts";
import { type BorrowerTimers, withDeadline } from "./borrower-timers.ts";
import type { BorrowerTiming } from "./borrower-timing.ts";

/** The registered processes, for a coordinator. */
export interface EpochMembers {
  /** Those that have to declare. */
  readonly present: readonly string[];
  /** They are cut off, hold nothing, and have published that. */
  readonly left: readonly string[];
}

export interface EpochWatchOptions {
  readonly coordinator: LimitCoordinator;
  readonly process: string;
  readonly timing: Pick<
    BorrowerTiming,
    "beatMs" | "callMaxMs" | "closedReportMs" | "undeclaredMaxMs" | "unknownUseMs"
  >;
  readonly timers: BorrowerTimers;
  monotonicMs(): number;
  listMembers(): Promise<EpochMembers>;
  hasUnknownUse(): boolean;
  isStopped(): boolean;
  /**
   * The coordinator lends nothing for some time already, because these processes have not declared. Null: it lends no
   * minutes, because the use of a process that has ended is unknown.
   */
  onClosed(missing: readonly string[] | null): void;
  onOpen(): void;
}

export class EpochWatch {
  readonly #options: EpochWatchOptions;
  #startedMs: number | null = null;
  /** How long the coordinator has responded since then: processes that reach it could have declared. */
  #respondedForMs = 0;
  #respondedMs: number | null = null;
  /** The processes that were reported. */
  #missing: string | null = null;
  #minutesReportedMs = Number.NEGATIVE_INFINITY;

  constructor(options: EpochWatchOptions) {
    this.#options = options;
  }

  /** Reported as closed. */
  get isClosed(): boolean {
    return this.#missing !== null;
  }

  note({ isOpen, results }: { readonly isOpen: boolean; readonly results: readonly AskResult[] }): void {
    const { monotonicMs, timing, onClosed } = this.#options;
    if (!isOpen) this.start();
    const nowMs = monotonicMs();
    const areMinutesClosed = isOpen && results.some(({ kind }) => kind === "closed");
    if (!areMinutesClosed || nowMs - this.#minutesReportedMs < timing.unknownUseMs) return;
    this.#minutesReportedMs = nowMs;
    onClosed(null);
  }

  start(): void {
    if (this.#startedMs !== null) return;
    this.#startedMs = this.#options.monotonicMs();
    this.#respondedForMs = 0;
    this.#respondedMs = null;
    void this.#check();
  }

  async #check(): Promise<void> {
    const { timers, timing, isStopped, onOpen } = this.#options;
    const isOpen = await this.#tryToOpen().catch(() => {
      this.#respondedMs = null;
      return false;
    });
    if (isOpen || isStopped()) {
      this.#startedMs = null;
      this.#missing = null;
      onOpen();
    } else timers.after(timing.beatMs, () => void this.#check());
  }

  async #tryToOpen(): Promise<boolean> {
    const { coordinator, process, timing, timers, monotonicMs, hasUnknownUse } = this.#options;
    const { present, left } = await this.#options.listMembers();
    const isLate = this.#respondedForMs >= timing.undeclaredMaxMs;
    const call = {
      process,
      // A process that was silent for so long counts as one that is frozen.
      registered: isLate ? [process] : present,
      hasUnknownUse: hasUnknownUse() || left.length > 0 || isLate,
    };
    const isOpen = await withDeadline(timers, coordinator.openEpoch(call), timing.callMaxMs);
    const nowMs = monotonicMs();
    if (this.#respondedMs !== null) this.#respondedForMs += nowMs - this.#respondedMs;
    this.#respondedMs = nowMs;
    if (!isOpen && nowMs - (this.#startedMs ?? nowMs) > timing.closedReportMs) await this.#report(present);
    return isOpen;
  }

  async #report(present: readonly string[]): Promise<void> {
    const { coordinator, timing, timers, onClosed } = this.#options;
    const running = await withDeadline(timers, coordinator.listProcesses(), timing.callMaxMs);
    const missing = present.filter((id) => !running.includes(id));
    if (this.#missing === missing.join()) return;
    this.#missing = missing.join();
    onClosed(missing);
  }
}
