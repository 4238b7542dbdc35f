/** Tracks the progress of write-behind holds and writes it to the journal periodically. */

import { type HoldProgress, UNSENT } from "../../store/money/holds.ts";
import { inParts } from "../engine/in-parts.ts";
import type { ProgressLimits } from "../engine/progress.ts";
import type { RequestProgress } from "../journal/journal-lines.ts";
import type { ReservedHold } from "./wallet-reservations.ts";

export interface WriteBehindProgress {
  set(held: ReservedHold, change: Omit<HoldProgress, "outputTokens">): void;
  count(held: ReservedHold, outputTokens: number): void;
  stop(): void;
}

/** `write` returns whether the progress was written. If not, it is written with the next change. */
export function openWriteBehindProgress(
  limits: ProgressLimits,
  write: (due: Iterable<ReservedHold>) => boolean,
  monotonicMs: () => number,
): WriteBehindProgress {
  let changed: ReservedHold[] = [];
  /** Shared by consecutive holds with the same progress. */
  let latest: HoldProgress = UNSENT;
  let counted = new Set<ReservedHold>();
  let timer: ReturnType<typeof setTimeout> | null = null;
  let countTimer: ReturnType<typeof setTimeout> | null = null;
  let countedMs = Number.NEGATIVE_INFINITY;
  let stopped = false;

  /**
   * A hold is made in the same turn of the event loop as its request. If that turn is long, the timer fires before
   * anything was sent. Sockets are served between two immediates, so after the second one the bytes have been sent.
   */
  function writeChangesSoon(): void {
    timer = null;
    const due = changed;
    changed = [];
    setImmediate(() => setImmediate(() => writeChanged(due)));
  }

  /** Changes after this point are written the next time. */
  function writeChanged(due: readonly ReservedHold[]): void {
    for (const held of due) held.isChanged = false;
    writeDue(due);
  }

  function writeDue(due: Iterable<ReservedHold>): void {
    if (stopped || write(due)) return;
    for (const held of due) markChanged(held);
  }

  function markChanged(held: ReservedHold): void {
    if (held.isChanged) return;
    held.isChanged = true;
    changed.push(held);
  }

  function writeCounted(): void {
    countTimer = null;
    countedMs = monotonicMs();
    const due = counted;
    counted = new Set();
    writeDue(due);
  }

  return {
    set(held, { state, accountId, upstreamModel }) {
      const now = { state, accountId, upstreamModel, outputTokens: held.progress.outputTokens };
      if (!isEqual(latest, now)) latest = now;
      held.progress = latest;
      markChanged(held);
      timer ??= setTimeout(writeChangesSoon, limits.progressMs);
    },
    count(held, outputTokens) {
      if (held.progress.outputTokens >= outputTokens) return;
      held.progress = { ...held.progress, outputTokens };
      counted.add(held);
      // Writes soon and not a whole interval later: otherwise a request that counts once a second would lag two
      // seconds.
      const restMs = countedMs + limits.checkpointMs - monotonicMs();
      countTimer ??= setTimeout(writeCounted, Math.max(limits.progressMs, restMs));
    },
    stop() {
      stopped = true;
      if (timer !== null) clearTimeout(timer);
      if (countTimer !== null) clearTimeout(countTimer);
    },
  };
}

/** Maximum number of requests in one journal line. */
const LINE_REQUESTS_MAX = 64;

/**
 * Groups the open holds by progress. Most requests sent at about the same time go to few accounts and have the same
 * progress.
 */
export function isSameProgress(all: Iterable<ReservedHold>): RequestProgress[] {
  const groups: ProgressGroup[] = [];
  const byAccount = new Map<string | null, ProgressGroup[]>();
  let group: ProgressGroup | undefined;
  for (const { asked, progress, isOpen } of all) {
    if (!isOpen) continue;
    if (group?.progress !== progress) {
      const some = byAccount.get(progress.accountId) ?? [];
      group = some.find((one) => isEqual(one.progress, progress));
      if (group === undefined) {
        group = { progress, requestIds: [] };
        groups.push(group);
        // Requests with output rarely have the same token count, so only those without output are grouped.
        if (progress.outputTokens === 0) byAccount.set(progress.accountId, [...some, group]);
      }
    }
    group.requestIds.push(asked.requestId);
  }
  return groups.flatMap(({ progress, requestIds }) =>
    [...inParts(requestIds, LINE_REQUESTS_MAX)].map((ids) => ({ progress, requestIds: ids })),
  );
}

interface ProgressGroup {
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
