/**
 * Tracks the progress of each held request and writes it periodically. Recovery settles by this progress if the
 * process dies.
 */

import { type HoldProgress, UNSENT } from "../../store/money/holds.ts";

export interface Progress {
  open(requestId: string, progress: HoldProgress): void;
  set(requestId: string, change: Omit<HoldProgress, "outputTokens">): void;
  count(requestId: string, outputTokens: number): void;
  /** Stops tracking: nothing more is written for this request. */
  close(requestId: string): void;
  isOpen(requestId: string): boolean;
  /** The current progress; for a request that is not tracked, the initial progress. */
  of(requestId: string): HoldProgress;
  isDue(): boolean;
  /** Makes all pending changes due now. */
  hurry(): void;
  /** Removes and returns the changes that are due. */
  take(max: number): [string, HoldProgress][];
  putBack(taken: readonly (readonly [string, HoldProgress])[]): void;
  stop(): void;
}

export interface ProgressLimits {
  /** A change of account is written after this time. A request that ends earlier needs no write. */
  progressMs: number;
  checkpointMs: number;
}

export function openProgress(limits: ProgressLimits, wake: () => void, monotonicMs: () => number): Progress {
  const open = new Map<string, HoldProgress>();
  const changed = new Set<string>();
  const counted = new Set<string>();
  const due = new Set<string>();
  let timer: ReturnType<typeof setTimeout> | null = null;
  let countTimer: ReturnType<typeof setTimeout> | null = null;
  let countedMs = Number.NEGATIVE_INFINITY;

  function makeDue(from: Set<string>): void {
    for (const requestId of from) due.add(requestId);
    from.clear();
    if (due.size > 0) wake();
  }

  function change(requestId: string, part: Partial<HoldProgress>): void {
    const before = open.get(requestId);
    if (before !== undefined) open.set(requestId, { ...before, ...part });
  }

  return {
    open: (requestId, { state, accountId, upstreamModel, outputTokens }) =>
      void open.set(requestId, { state, accountId, upstreamModel, outputTokens }),
    set(requestId, { state, accountId, upstreamModel }) {
      change(requestId, { state, accountId, upstreamModel });
      changed.add(requestId);
      timer ??= setTimeout(() => {
        timer = null;
        makeDue(changed);
      }, limits.progressMs);
    },
    count(requestId, outputTokens) {
      const before = open.get(requestId);
      if (before === undefined || before.outputTokens >= outputTokens) return;
      change(requestId, { outputTokens });
      counted.add(requestId);
      // Writes soon and not a whole interval later: otherwise a request that counts once a second would lag two
      // seconds.
      const restMs = countedMs + limits.checkpointMs - monotonicMs();
      countTimer ??= setTimeout(
        () => {
          countTimer = null;
          countedMs = monotonicMs();
          makeDue(counted);
        },
        Math.max(limits.progressMs, restMs),
      );
    },
    close(requestId) {
      open.delete(requestId);
      changed.delete(requestId);
      counted.delete(requestId);
      due.delete(requestId);
    },
    isOpen: (requestId) => open.has(requestId),
    of: (requestId) => open.get(requestId) ?? UNSENT,
    isDue: () => due.size > 0,
    hurry() {
      makeDue(changed);
      makeDue(counted);
    },
    take(max) {
      const taken: [string, HoldProgress][] = [];
      for (const requestId of due) {
        if (taken.length === max) break;
        due.delete(requestId);
        const progress = open.get(requestId);
        if (progress !== undefined) taken.push([requestId, progress]);
      }
      return taken;
    },
    putBack(taken) {
      for (const [requestId] of taken) if (open.has(requestId)) due.add(requestId);
    },
    stop() {
      if (timer !== null) clearTimeout(timer);
      if (countTimer !== null) clearTimeout(countTimer);
    },
  };
}
