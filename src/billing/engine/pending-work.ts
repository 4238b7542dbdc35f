/** What waits for one of the till's transactions, and who is to be told of it. */

import type { HoldProgress } from "../../store/money/holds.ts";
import type { UsageRow } from "../../store/usage/usage.ts";
import type { Batch, HoldRequest, HoldResult, Settlement } from "./booking.ts";

export interface BillingLimits {
  /** A row that nobody waits for waits this long for company. */
  gatherMs: number;
  /** After a batch of so many, no longer ago than `companyMs`, the next one waits that long for company. */
  companyMin: number;
  companyMs: number;
  /** Operations of one transaction. */
  batchMax: number;
  waitingMax: number;
  /** A hold is refused after this long in any case. */
  holdPatienceMs: number;
  /** A store that has ended no transaction for so long is away: holds are refused. */
  silenceMs: number;
  /** A settlement is kept on the disk, or in memory, after this long without the store. */
  settlePatienceMs: number;
  /** A transaction that takes longer is given up on; whether it was committed is found out by doing it again. */
  transactionMs: number;
  retryMs: number;
  progressMs: number;
  checkpointMs: number;
  /** How long a commit may be only in the system's memory. */
  flushMs: number;
}

export interface HoldOp {
  asked: HoldRequest;
  sinceMs: number;
  /** It was told that the store is away. */
  given: boolean;
  /** A transaction with it failed: it may be in the store all the same. */
  tried: boolean;
  resolve(result: HoldResult): void;
  reject(error: Error): void;
}

export interface SettleOp {
  settlement: Settlement;
  sinceMs: number;
  kept: "no" | "overdue" | "elsewhere";
  promise: Promise<void>;
  resolve(): void;
  reject(error: Error): void;
}

export interface PendingWork {
  holds: HoldOp[];
  settles: SettleOp[];
  releases: { requestId: string; userId: string }[];
  rows: UsageRow[];
  progress: [string, HoldProgress][];
}

/** What the store is to be asked for. */
export function buildBatch({ holds, settles, releases, rows, progress }: PendingWork): Batch {
  return {
    holds: holds.map((op) => op.asked),
    settlements: settles.map((op) => op.settlement),
    releases,
    rows,
    progress,
  };
}

export const nothing = (): PendingWork => ({ holds: [], settles: [], releases: [], rows: [], progress: [] });
export const countOperations = (work: PendingWork) =>
  work.holds.length + work.settles.length + work.releases.length + work.rows.length + work.progress.length;

/** As much as one transaction takes. What ends goes before what begins: it brings money back. */
export function splitWork(work: PendingWork, max: number): { taken: PendingWork; left: PendingWork } {
  if (countOperations(work) <= max) return { taken: work, left: nothing() };
  let room = Math.max(0, max - work.progress.length);
  const some = <T>(list: T[]): T[] => {
    const part = list.splice(0, room);
    room -= part.length;
    return part;
  };
  const taken = {
    progress: work.progress,
    settles: some(work.settles),
    releases: some(work.releases),
    holds: some(work.holds),
    rows: some(work.rows),
  };
  return { taken, left: { ...work, progress: [] } };
}

/** Two works of half the size, so that one bad operation among many is found in few steps. */
export function halves(work: PendingWork): [PendingWork, PendingWork] {
  const cut = <T>(list: readonly T[]) => Math.ceil(list.length / 2);
  // Where every list has one entry at most, the kinds are parted instead.
  const lists = [work.holds, work.settles, work.releases, work.rows, work.progress];
  if (lists.some((list) => list.length > 1)) {
    const part = (from: (list: readonly unknown[]) => [number, number | undefined]): PendingWork => ({
      holds: work.holds.slice(...from(work.holds)),
      settles: work.settles.slice(...from(work.settles)),
      releases: work.releases.slice(...from(work.releases)),
      rows: work.rows.slice(...from(work.rows)),
      progress: work.progress.slice(...from(work.progress)),
    });
    return [part((list) => [0, cut(list)]), part((list) => [cut(list), undefined])];
  }
  const money = { ...nothing(), holds: work.holds };
  const rest = { ...work, holds: [] };
  if (money.holds.length > 0) return [money, rest];
  if (work.settles.length > 0)
    return [
      { ...nothing(), settles: work.settles },
      { ...work, settles: [] },
    ];
  if (work.releases.length > 0)
    return [
      { ...nothing(), releases: work.releases },
      { ...work, releases: [] },
    ];
  return [
    { ...nothing(), rows: work.rows },
    { ...nothing(), progress: work.progress },
  ];
}

export function operationId({ holds, settles, releases, rows, progress }: PendingWork): string | null {
  return (
    holds[0]?.asked.requestId ??
    settles[0]?.settlement.row.requestId ??
    releases[0]?.requestId ??
    rows[0]?.requestId ??
    progress[0]?.[0] ??
    null
  );
}
