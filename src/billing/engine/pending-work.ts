/** Operations that wait for a billing transaction, with the promises to resolve after it. */

import type { HoldProgress } from "../../store/money/holds.ts";
import type { UsageRow } from "../../store/usage/usage.ts";
import type { Batch, HoldRequest, HoldResult, Settlement } from "./booking.ts";

export interface BillingLimits {
  /** How long an unpaid usage row may wait to be written in a batch. */
  gatherMs: number;
  /**
   * After a batch of at least `companyMin` operations that ended less than `companyMs` ago, the next batch waits
   * `companyMs` to collect more operations.
   */
  companyMin: number;
  companyMs: number;
  /** Maximum number of operations in one transaction. */
  batchMax: number;
  waitingMax: number;
  /** A hold is refused after this time in any case. */
  holdPatienceMs: number;
  /** A database that has finished no transaction for this time counts as unavailable: holds are refused. */
  silenceMs: number;
  /** After this time without the database, a settlement is saved on disk, or else in memory. */
  settlePatienceMs: number;
  /** Timeout of a transaction. Repeating the batch shows whether the transaction was committed. */
  transactionMs: number;
  retryMs: number;
  progressMs: number;
  checkpointMs: number;
  /** How long a commit may exist only in the memory of the operating system. */
  flushMs: number;
}

export interface HoldOp {
  asked: HoldRequest;
  sinceMs: number;
  /** The request was refused because the database is unavailable. */
  given: boolean;
  /** A transaction with this hold failed. The hold may be in the database anyway. */
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

/** The batch that is sent to the database. */
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

/** Takes what fits in one transaction. Settlements and releases go before holds, because they free money. */
export function splitWork(work: PendingWork, max: number): { taken: PendingWork; left: PendingWork } {
  if (countOperations(work) <= max) return { taken: work, left: nothing() };
  let slotsLeft = Math.max(0, max - work.progress.length);
  const takeFitting = <T>(list: T[]): T[] => {
    const part = list.splice(0, slotsLeft);
    slotsLeft -= part.length;
    return part;
  };
  const taken = {
    progress: work.progress,
    settles: takeFitting(work.settles),
    releases: takeFitting(work.releases),
    holds: takeFitting(work.holds),
    rows: takeFitting(work.rows),
  };
  return { taken, left: { ...work, progress: [] } };
}

/** Splits the work in two halves, so that one bad operation among many is found in few steps. */
export function halves(work: PendingWork): [PendingWork, PendingWork] {
  const cut = <T>(list: readonly T[]) => Math.ceil(list.length / 2);
  // If every list has at most one entry, the work is split by kind.
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
