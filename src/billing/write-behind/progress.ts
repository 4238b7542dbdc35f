/** Tracks the progress of write-behind holds and writes it to the journal periodically. */

import { type HoldProgress, UNSENT } from "../../store/money/holds.ts";
import type { ProgressLimits } from "../engine/progress.ts";
import { splitIntoChunks } from "../engine/split-into-chunks.ts";
import type { RequestProgress } from "../journal/journal-events.ts";
import type { ReservedHold } from "./wallet-reservations.ts";

interface WriteBehindProgressOptions {
  limits: ProgressLimits;
  monotonicMs(): number;
  /** Returns whether the progress was written. If not, it is written with the next change. */
  write(due: Iterable<ReservedHold>): boolean;
}

/** Owns which holds have progress that the journal does not have. */
export class WriteBehindProgress {
  readonly #options: WriteBehindProgressOptions;
  #changed: ReservedHold[] = [];
  /** Shared by consecutive holds with the same progress. */
  #latest: HoldProgress = UNSENT;
  #counted = new Set<ReservedHold>();
  #changeTimer: ReturnType<typeof setTimeout> | null = null;
  #countTimer: ReturnType<typeof setTimeout> | null = null;
  #lastCountMs = Number.NEGATIVE_INFINITY;
  #isStopped = false;

  constructor(options: WriteBehindProgressOptions) {
    this.#options = options;
  }

  set(held: ReservedHold, { state, accountId, upstreamModel }: Omit<HoldProgress, "outputTokens">): void {
    const now = { state, accountId, upstreamModel, outputTokens: held.progress.outputTokens };
    if (!isEqual(this.#latest, now)) this.#latest = now;
    held.progress = this.#latest;
    this.#markChanged(held);
    this.#changeTimer ??= setTimeout(() => this.#writeChanged(), this.#options.limits.progressMs);
  }

  recordOutputTokens(held: ReservedHold, outputTokens: number): void {
    if (held.progress.outputTokens >= outputTokens) return;
    held.progress = { ...held.progress, outputTokens };
    this.#counted.add(held);
    const { limits, monotonicMs } = this.#options;
    // Writes soon and not a whole interval later: otherwise a request that counts once a second would lag two
    // seconds.
    const restMs = this.#lastCountMs + limits.checkpointMs - monotonicMs();
    this.#countTimer ??= setTimeout(() => this.#writeCounted(), Math.max(limits.progressMs, restMs));
  }

  stop(): void {
    this.#isStopped = true;
    if (this.#changeTimer !== null) clearTimeout(this.#changeTimer);
    if (this.#countTimer !== null) clearTimeout(this.#countTimer);
  }

  #writeChanged(): void {
    this.#changeTimer = null;
    const due = this.#changed;
    this.#changed = [];
    for (const held of due) held.isChanged = false;
    this.#writeDue(due);
  }

  #writeCounted(): void {
    this.#countTimer = null;
    this.#lastCountMs = this.#options.monotonicMs();
    const due = this.#counted;
    this.#counted = new Set();
    this.#writeDue(due);
  }

  #writeDue(due: Iterable<ReservedHold>): void {
    if (this.#isStopped || this.#options.write(due)) return;
    for (const held of due) this.#markChanged(held);
  }

  #markChanged(held: ReservedHold): void {
    if (held.isChanged) return;
    held.isChanged = true;
    this.#changed.push(held);
  }
}

/** Maximum number of requests in one journal line. */
const LINE_REQUESTS_MAX = 64;

/** By progress: most requests sent at about the same time go to few accounts and have the same. */
export function groupByProgress(all: Iterable<ReservedHold>): RequestProgress[] {
  const groups: ProgressGroup[] = [];
  const byAccount = new Map<string | null, ProgressGroup[]>();
  let group: ProgressGroup | undefined;
  for (const { request, progress, isOpen } of all) {
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
    group.requestIds.push(request.requestId);
  }
  return groups.flatMap(({ progress, requestIds }) =>
    [...splitIntoChunks(requestIds, LINE_REQUESTS_MAX)].map((ids) => ({ progress, requestIds: ids })),
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
