/** Tracks the progress of held requests and writes it periodically. Recovery settles by it. */

import type { HoldProgress } from "../../store/money/holds.ts";

export interface ProgressLimits {
  /** A change of account is written after this time. A request that ends earlier needs no write. */
  progressMs: number;
  checkpointMs: number;
}

interface ProgressOptions {
  limits: ProgressLimits;
  monotonicMs(): number;
  /** Called when changes have become due. */
  onDue(): void;
}

/** Owns the current progress of the tracked requests, and which of them has changes that are not written. */
export class Progress {
  readonly #options: ProgressOptions;
  readonly #open = new Map<string, HoldProgress>();
  /** Requests with a new account, with a new token count, and with changes that are due. */
  readonly #changed = new Set<string>();
  readonly #counted = new Set<string>();
  readonly #due = new Set<string>();
  #changeTimer: ReturnType<typeof setTimeout> | null = null;
  #countTimer: ReturnType<typeof setTimeout> | null = null;
  #lastCountMs = Number.NEGATIVE_INFINITY;

  constructor(options: ProgressOptions) {
    this.#options = options;
  }

  open(requestId: string, { state, accountId, upstreamModel, outputTokens }: HoldProgress): void {
    this.#open.set(requestId, { state, accountId, upstreamModel, outputTokens });
  }

  set(requestId: string, { state, accountId, upstreamModel }: Omit<HoldProgress, "outputTokens">): void {
    this.#change(requestId, { state, accountId, upstreamModel });
    this.#changed.add(requestId);
    this.#changeTimer ??= setTimeout(() => {
      this.#changeTimer = null;
      this.#makeDue(this.#changed);
    }, this.#options.limits.progressMs);
  }

  recordOutputTokens(requestId: string, outputTokens: number): void {
    const before = this.#open.get(requestId);
    if (before === undefined || before.outputTokens >= outputTokens) return;
    this.#change(requestId, { outputTokens });
    this.#counted.add(requestId);
    const { limits, monotonicMs } = this.#options;
    // Writes soon and not a whole interval later: otherwise a request that counts once a second would lag two
    // seconds.
    const restMs = this.#lastCountMs + limits.checkpointMs - monotonicMs();
    this.#countTimer ??= setTimeout(
      () => {
        this.#countTimer = null;
        this.#lastCountMs = monotonicMs();
        this.#makeDue(this.#counted);
      },
      Math.max(limits.progressMs, restMs),
    );
  }

  /** Stops tracking: nothing more is written for this request. */
  close(requestId: string): void {
    this.#open.delete(requestId);
    this.#changed.delete(requestId);
    this.#counted.delete(requestId);
    this.#due.delete(requestId);
  }

  isOpen(requestId: string): boolean {
    return this.#open.has(requestId);
  }

  isDue(): boolean {
    return this.#due.size > 0;
  }

  /** Makes all pending changes due now. */
  makeAllDue(): void {
    this.#makeDue(this.#changed);
    this.#makeDue(this.#counted);
  }

  /** Removes and returns the changes that are due. */
  takeDue(max: number): [string, HoldProgress][] {
    const taken: [string, HoldProgress][] = [];
    for (const requestId of this.#due) {
      if (taken.length === max) break;
      this.#due.delete(requestId);
      const progress = this.#open.get(requestId);
      if (progress !== undefined) taken.push([requestId, progress]);
    }
    return taken;
  }

  requeue(taken: readonly (readonly [string, HoldProgress])[]): void {
    for (const [requestId] of taken) if (this.#open.has(requestId)) this.#due.add(requestId);
  }

  stop(): void {
    if (this.#changeTimer !== null) clearTimeout(this.#changeTimer);
    if (this.#countTimer !== null) clearTimeout(this.#countTimer);
  }

  #makeDue(requestIds: Set<string>): void {
    for (const requestId of requestIds) this.#due.add(requestId);
    requestIds.clear();
    if (this.#due.size > 0) this.#options.onDue();
  }

  #change(requestId: string, part: Partial<HoldProgress>): void {
    const before = this.#open.get(requestId);
    if (before !== undefined) this.#open.set(requestId, { ...before, ...part });
  }
}
