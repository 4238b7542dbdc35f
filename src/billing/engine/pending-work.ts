/** Operations that wait for a billing transaction, with the promises to resolve after it. */

import type { HoldProgress } from "../../store/money/holds.ts";
import type { UsageRow } from "../../store/usage/usage.ts";
import type { Batch, HoldOrder } from "./batch-state.ts";
import type { HoldResult, Settlement } from "./booking.ts";

export interface BillingLimits {
  /** How long an unpaid usage row may wait to be written in a batch. */
  unpaidRowDelayMs: number;
  /**
   * After a batch of at least `busyBatchMin` operations that ended less than `batchDelayMs` ago, the next batch waits
   * `batchDelayMs` to collect more operations.
   */
  busyBatchMin: number;
  batchDelayMs: number;
  /** Maximum number of operations in one transaction. */
  batchMax: number;
  waitingMax: number;
  /** A hold is rejected after this time in any case. */
  holdTimeoutMs: number;
  /** A database that has finished no transaction for this time counts as unavailable: holds are rejected. */
  storeSilenceMaxMs: number;
  /** The same for one whose last transaction failed. */
  storeFailureMaxMs: number;
  /** A database that has accepted no batch for this time makes the node unready. */
  stalledAfterMs: number;
  /** After this time without the database, a settlement is saved on disk, or else in memory. */
  settlementTimeoutMs: number;
  /** Timeout of a transaction. Repeating the batch shows whether the transaction was committed. */
  transactionMs: number;
  retryMs: number;
  progressMs: number;
  checkpointMs: number;
  /** How long a commit may exist only in the memory of the operating system. */
  flushMs: number;
}

export interface HoldOp extends HoldOrder {
  sinceMs: number;
  /** The request was rejected because the database is unavailable. */
  isRejected: boolean;
  /** A transaction with this hold failed. The hold may be in the database anyway. */
  hasFailed: boolean;
  resolve(result: HoldResult): void;
  reject(error: Error): void;
}

export interface SettleOp {
  settlement: Settlement;
  sinceMs: number;
  savedBy: "no" | "overdue" | "elsewhere";
  promise: Promise<void>;
  resolve(): void;
  reject(error: Error): void;
}

export interface ReleaseOp {
  requestId: string;
  userId: string;
  resolve(): void;
  reject(error: Error): void;
}

export interface PendingWork {
  holds: HoldOp[];
  settlementOps: SettleOp[];
  releases: ReleaseOp[];
  rows: UsageRow[];
  progress: [string, HoldProgress][];
}

/** The batch that is sent to the database. */
export function buildBatch({ holds, settlementOps: settles, releases, rows, progress }: PendingWork): Batch {
  return {
    holds,
    settlements: settles.map((op) => op.settlement),
    releases,
    rows,
    progress,
  };
}

export const buildEmptyWork = (): PendingWork => ({
  holds: [],
  settlementOps: [],
  releases: [],
  rows: [],
  progress: [],
});
export const countOperations = (work: PendingWork) =>
  work.holds.length +
  work.settlementOps.length +
  work.releases.length +
  work.rows.length +
  work.progress.length;

/** Takes what fits in one transaction. Settlements and releases go before holds, because they free money. */
export function splitWork(work: PendingWork, max: number): { taken: PendingWork; left: PendingWork } {
  if (countOperations(work) <= max) return { taken: work, left: buildEmptyWork() };
  let slotsLeft = Math.max(0, max - work.progress.length);
  const takeThatFit = <T>(list: T[]): T[] => {
    const part = list.splice(0, slotsLeft);
    slotsLeft -= part.length;
    return part;
  };
  const taken = {
    progress: work.progress,
    settlementOps: takeThatFit(work.settlementOps),
    releases: takeThatFit(work.releases),
    holds: takeThatFit(work.holds),
    rows: takeThatFit(work.rows),
  };
  return { taken, left: { ...work, progress: [] } };
}

/** Splits the work in two halves, so that one bad operation among many is found in few steps. */
export function splitInHalves(work: PendingWork): [PendingWork, PendingWork] {
  const cut = <T>(list: readonly T[]) => Math.ceil(list.length / 2);
  // If every list has at most one entry, the work is split by kind.
  const lists = [work.holds, work.settlementOps, work.releases, work.rows, work.progress];
  if (lists.some((list) => list.length > 1)) {
    const part = (from: (list: readonly unknown[]) => [number, number | undefined]): PendingWork => ({
      holds: work.holds.slice(...from(work.holds)),
      settlementOps: work.settlementOps.slice(...from(work.settlementOps)),
      releases: work.releases.slice(...from(work.releases)),
      rows: work.rows.slice(...from(work.rows)),
      progress: work.progress.slice(...from(work.progress)),
    });
    return [part((list) => [0, cut(list)]), part((list) => [cut(list), undefined])];
  }
  const money = { ...buildEmptyWork(), holds: work.holds };
  const rest = { ...work, holds: [] };
  if (money.holds.length > 0) return [money, rest];
  if (work.settlementOps.length > 0)
    return [
      { ...buildEmptyWork(), settlementOps: work.settlementOps },
      { ...work, settlementOps: [] },
    ];
  if (work.releases.length > 0)
    return [
      { ...buildEmptyWork(), releases: work.releases },
      { ...work, releases: [] },
    ];
  return [
    { ...buildEmptyWork(), rows: work.rows },
    { ...buildEmptyWork(), progress: work.progress },
  ];
}

/** The users whose money this work changes. Progress has no user: it changes no money. */
export function listUsers({ holds, settlementOps, releases, rows }: PendingWork): string[] {
  const users = new Set<string | null>();
  for (const { request } of holds) users.add(request.userId);
  for (const { settlement } of settlementOps) users.add(settlement.row.userId);
  for (const { userId } of releases) users.add(userId);
  for (const { userId } of rows) users.add(userId);
  return [...users].filter((userId) => userId !== null);
}

/** Separates the operations of some users from the others. */
export function splitByUsers(
  work: PendingWork,
  users: ReadonlySet<string | null>,
): { ofUsers: PendingWork; ofOthers: PendingWork } {
  const part = (isPart: (userId: string | null) => boolean): PendingWork => ({
    holds: work.holds.filter(({ request }) => isPart(request.userId)),
    settlementOps: work.settlementOps.filter(({ settlement }) => isPart(settlement.row.userId)),
    releases: work.releases.filter(({ userId }) => isPart(userId)),
    rows: work.rows.filter(({ userId }) => isPart(userId)),
    progress: [],
  });
  const ofOthers = { ...part((userId) => !users.has(userId)), progress: work.progress };
  return { ofUsers: part((userId) => users.has(userId)), ofOthers };
}

export function operationId({
  holds,
  settlementOps: settles,
  releases,
  rows,
  progress,
}: PendingWork): string | null {
  return (
    holds[0]?.request.requestId ??
    settles[0]?.settlement.row.requestId ??
    releases[0]?.requestId ??
    rows[0]?.requestId ??
    progress[0]?.[0] ??
    null
  );
}
