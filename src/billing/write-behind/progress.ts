/** How far the requests of the express lane have come, told to the journal now and then. */

import { type HoldProgress, UNSENT } from "../../store/money/holds.ts";
import { inParts } from "../engine/in-parts.ts";
import type { ProgressLimits } from "../engine/progress.ts";
import type { ProgressOf } from "../journal/journal-lines.ts";
import type { ReservedHold } from "./wallet-reservations.ts";

export interface WriteBehindProgress {
  set(held: ReservedHold, change: Omit<HoldProgress, "outputTokens">): void;
  count(held: ReservedHold, outputTokens: number): void;
  stop(): void;
}

/** `tell` says whether it was written; else it is told with the next change. */
export function openWriteBehindProgress(
  limits: ProgressLimits,
  tell: (due: Iterable<ReservedHold>) => boolean,
  monotonicMs: () => number,
): WriteBehindProgress {
  let changed: ReservedHold[] = [];
  /** Shared by all that are set to the same, one after the other. */
  let latest: HoldProgress = UNSENT;
  let counted = new Set<ReservedHold>();
  let timer: ReturnType<typeof setTimeout> | null = null;
  let countTimer: ReturnType<typeof setTimeout> | null = null;
  let countedMs = Number.NEGATIVE_INFINITY;
  let stopped = false;

  /**
   * A hold is given in the turn of the event loop that asks for it, and where that turn takes long this is due before
   * anything was sent. Sockets have their turn between two immediates: by then the bytes are on their way.
   */
  function changesAreDue(): void {
    timer = null;
    const due = changed;
    changed = [];
    setImmediate(() => setImmediate(() => tellChanged(due)));
  }

  /** What changes from here on is told another time. */
  function tellChanged(due: readonly ReservedHold[]): void {
    for (const held of due) held.isChanged = false;
    tellOf(due);
  }

  function tellOf(due: Iterable<ReservedHold>): void {
    if (stopped || tell(due)) return;
    for (const held of due) note(held);
  }

  function note(held: ReservedHold): void {
    if (held.isChanged) return;
    held.isChanged = true;
    changed.push(held);
  }

  function tellCounted(): void {
    countTimer = null;
    countedMs = monotonicMs();
    const due = counted;
    counted = new Set();
    tellOf(due);
  }

  return {
    set(held, { state, accountId, upstreamModel }) {
      const now = { state, accountId, upstreamModel, outputTokens: held.progress.outputTokens };
      if (!isEqual(latest, now)) latest = now;
      held.progress = latest;
      note(held);
      timer ??= setTimeout(changesAreDue, limits.progressMs);
    },
    count(held, outputTokens) {
      if (held.progress.outputTokens >= outputTokens) return;
      held.progress = { ...held.progress, outputTokens };
      counted.add(held);
      // Soon, not a whole interval later: whoever counts once a second would else be two seconds behind.
      const restMs = countedMs + limits.checkpointMs - monotonicMs();
      countTimer ??= setTimeout(tellCounted, Math.max(limits.progressMs, restMs));
    },
    stop() {
      stopped = true;
      if (timer !== null) clearTimeout(timer);
      if (countTimer !== null) clearTimeout(countTimer);
    },
  };
}

/** Of one line of the journal. */
const TOGETHER = 64;

/** Of those that are open. Most that were sent within a moment went to few accounts, and have come equally far. */
export function isSameProgress(all: Iterable<ReservedHold>): ProgressOf[] {
  const found: Gathering[] = [];
  const byAccount = new Map<string | null, Gathering[]>();
  let same: Gathering | undefined;
  for (const { asked, progress, isOpen } of all) {
    if (!isOpen) continue;
    if (same?.progress !== progress) {
      const some = byAccount.get(progress.accountId) ?? [];
      same = some.find((one) => isEqual(one.progress, progress));
      if (same === undefined) {
        same = { progress, requestIds: [] };
        found.push(same);
        // No two that have begun to answer are likely to be equally far.
        if (progress.outputTokens === 0) byAccount.set(progress.accountId, [...some, same]);
      }
    }
    same.requestIds.push(asked.requestId);
  }
  return found.flatMap(({ progress, requestIds }) =>
    [...inParts(requestIds, TOGETHER)].map((ids) => ({ progress, requestIds: ids })),
  );
}

interface Gathering {
  progress: HoldProgress;
  requestIds: string[];
}

function isEqual(one: HoldProgress, other: HoldProgress): boolean {
  return (
    one.accountId === other.accountId &&
    one.upstreamModel === other.upstreamModel &&
    one.state === other.state &&
    one.outputTokens === other.outputTokens
  );
}
