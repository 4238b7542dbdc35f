/**
 * Usage rows of PostgreSQL in partitions by time, so that expired rows are dropped with their partition. The key of
 * the partitions is the request id, which begins with the time: it stays unique over all partitions.
 */

import { DAY_MS, WEEK_MS } from "../../base/time.ts";
import { type Db, transaction } from "../engine/db.ts";
import {
  addPartition,
  analyzeTable,
  canChangePartitions,
  dropPartition,
  freezePartition,
  listPartitions,
  type NewPartition,
  type Partition,
  type PartitionedTable,
} from "../engine/range-partitions.ts";
import { integer, text } from "../engine/row.ts";
import type { JobLease } from "../nodes/job-leases.ts";
import { requestIdAt, requestIdTime } from "./request-id-time.ts";
import { raiseRemovedBefore } from "./usage-removal.ts";

const USAGE_ROWS: PartitionedTable = { name: "usage_row", key: "request_id" };

const CREATED_AHEAD_MS = WEEK_MS;
/** A partition with more rows that must be kept is not dropped yet. */
const KEPT_ROWS_MAX = 10_000;

type PartitionWidth = "day" | "week" | "month";

/** So that there are tens of partitions, and rows outlive their retention by a fraction of it only. Null: forever. */
export function choosePartitionWidth(keptMs: number | null): PartitionWidth {
  if (keptMs === null || keptMs > 366 * DAY_MS) return "month";
  return keptMs > 31 * DAY_MS ? "week" : "day";
}

/** The first start of a period after this time, in UTC. */
export function endOfPeriod(atMs: number, width: PartitionWidth): number {
  if (width === "day") return (Math.floor(atMs / DAY_MS) + 1) * DAY_MS;
  if (width === "week") return (Math.floor(atMs / WEEK_MS) + 1) * WEEK_MS;
  const date = new Date(atMs);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1);
}

export interface PartitionJob {
  /** Its statements may take long: a partition takes its rows from the default partition. */
  readonly db: Db;
  readonly nowMs: number;
  readonly lease: Pick<JobLease, "check">;
}

/** False on SQLite, and for a role that does not own the table: expired rows are then deleted one by one. */
export function canPartitionUsageRows(db: Db): Promise<boolean> {
  return canChangePartitions(db, USAGE_ROWS);
}

/**
 * Creates the partitions of the next days, and once a first partition of all rows before today: copied rows must not
 * stay in the default partition, which is read whenever a partition is added. Returns the number of days ahead.
 */
export async function createPartitionsAhead(
  { db, nowMs, lease }: PartitionJob,
  keptMs: number | null,
): Promise<number> {
  const width = choosePartitionWidth(keptMs);
  const partitions = await listPartitions(db, USAGE_ROWS);
  const ends = partitions.map(({ to }) => requestIdTime(to ?? "") ?? 0);
  const add = (partition: NewPartition) =>
    transaction(db, async (tx) => {
      await lease.check(tx);
      await addPartition(tx, USAGE_ROWS, partition);
    });
  // After a long pause, the missing periods stay without a partition: late rows go to the default one.
  let fromMs = Math.max(...ends, endOfPeriod(nowMs - DAY_MS, "day"));
  if (partitions.every(({ isDefault }) => isDefault))
    await add({ name: "usage_row_first", from: null, to: requestIdAt(fromMs) });
  let created = 0;
  while (fromMs < nowMs + CREATED_AHEAD_MS) {
    const toMs = endOfPeriod(fromMs, width);
    const name = `usage_row_${new Date(fromMs).toISOString().slice(0, 10).replaceAll("-", "")}`;
    await add({ name, from: requestIdAt(fromMs), to: requestIdAt(toMs) });
    fromMs = toMs;
    created += 1;
  }
  return created;
}

/** Drops partitions whose requests all began before this time. Returns the number of removed rows. */
export async function dropExpiredPartitions(
  { db, lease }: Omit<PartitionJob, "nowMs">,
  beforeMs: number,
): Promise<number> {
  let removed = 0;
  for (const partition of await listPartitions(db, USAGE_ROWS)) {
    const endMs = partition.to === null ? null : requestIdTime(partition.to);
    if (endMs === null || endMs > beforeMs) continue;
    removed += await transaction(db, async (tx) => {
      await lease.check(tx);
      return dropExpired(tx, partition, beforeMs);
    });
  }
  return removed;
}

/** The tables whose expired rows are removed one by one, because they have no end that expires. */
export async function listUnboundedTables(db: Db, beforeMs: number): Promise<string[]> {
  const partitions = await listPartitions(db, USAGE_ROWS);
  return partitions
    .filter(
      ({ from, to, isDefault }) => isDefault || (from === null && (requestIdTime(to ?? "") ?? 0) > beforeMs),
    )
    .map(({ name }) => name);
}

async function dropExpired(tx: Db, partition: Partition, beforeMs: number): Promise<number> {
  await freezePartition(tx, partition);
  const kept = `at_ms >= ${Math.floor(beforeMs)} OR kind_no IN (SELECT no FROM usage_kind WHERE outcome = 'pending')`;
  const keptRows = await tx.sql.text(
    `SELECT request_id FROM "${partition.name}" WHERE ${kept} LIMIT ${KEPT_ROWS_MAX + 1}`,
    [],
  );
  if (keptRows.length > KEPT_ROWS_MAX) return 0;
  const [totals] = await tx.sql.text(
    `SELECT COUNT(*) AS many, COALESCE(MAX(at_ms), 0) AS last_ms FROM "${partition.name}" WHERE NOT (${kept})`,
    [],
  );
  const removed = totals === undefined ? 0 : integer(totals, "many");
  if (totals !== undefined && removed > 0) await raiseRemovedBefore(tx, integer(totals, "last_ms") + 1);
  const keptKeys = keptRows.map((row) => text(row, "request_id"));
  await dropPartition(tx, USAGE_ROWS, partition, keptKeys);
  return removed;
}

export async function analyzeUsageRows(db: Db): Promise<void> {
  await analyzeTable(db, USAGE_ROWS);
}
