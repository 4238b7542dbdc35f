/**
 * Usage rows of PostgreSQL in partitions by time, so that expired rows are dropped with their partition. The key of
 * the partitions is the request id, which begins with the time: it stays unique over all partitions.
 */

import { type Db, transaction } from "../engine/db.ts";
import {
  addBound,
  addPartition,
  analyzeTable,
  dropPartition,
  freezePartition,
  listPartitions,
  type Partition,
  type PartitionedTable,
  partitionTable,
  readTableForm,
  removeBound,
  type TableForm,
  validateBound,
} from "../engine/range-partitions.ts";
import { integer, text } from "../engine/row.ts";
import type { JobLease } from "../nodes/job-leases.ts";
import { requestIdAt, requestIdTime } from "./request-id-time.ts";
import { raiseRemovedBefore } from "./usage-removal.ts";

const USAGE_ROWS: PartitionedTable = { name: "usage_row", key: "request_id", views: ["usage"] };

const DAY_MS = 86_400_000;
const WEEK_MS = 7 * DAY_MS;

/** Up to this many rows are read under a lock: it takes milliseconds. */
const SMALL_TABLE_ROWS = 20_000;
/**
 * A large table becomes the partition of all requests up to this time from now. Until it is one, it rejects later
 * requests: an interrupted change must be continued before then, or it ends usage rows for good.
 */
const BOUND_AHEAD_MS = 8 * DAY_MS;
/** An interrupted change starts again with a new bound if less than this is left. */
const BOUND_LEFT_MS = 2 * DAY_MS;
const CREATED_AHEAD_MS = WEEK_MS;
/** A partition with more rows that must be kept is not dropped yet. */
const KEPT_ROWS_MAX = 10_000;

export type PartitionWidth = "day" | "week" | "month";

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
  /** Its statements may take long: validating a bound reads all rows. */
  readonly db: Db;
  readonly nowMs: number;
  readonly lease: Pick<JobLease, "check">;
}

export function readUsageRowsForm(db: Db): Promise<TableForm> {
  return readTableForm(db, USAGE_ROWS);
}

/**
 * Partitions a plain table. Readers and writers of any version continue: they wait for a change of the catalogs, but
 * never while rows are read.
 */
export async function partitionUsageRows(
  { db, nowMs, lease }: PartitionJob,
  smallTableRows = SMALL_TABLE_ROWS,
): Promise<void> {
  const form = await readUsageRowsForm(db);
  if (form.kind !== "plain") return;
  const rows = await db.sql.text(
    `SELECT COUNT(*) AS many FROM (SELECT 1 FROM usage_row LIMIT ${smallTableRows + 1}) AS counted`,
    [],
  );
  const rowCount = rows[0] === undefined ? 0 : integer(rows[0], "many");
  if (form.bound === null && rowCount <= smallTableRows) {
    // The rows of an empty table begin in a partition at once.
    const boundMs = rowCount === 0 ? endOfPeriod(nowMs - DAY_MS, "day") : endOfPeriod(nowMs, "day");
    await transaction(db, async (tx) => {
      await lease.check(tx);
      await partitionTable(tx, USAGE_ROWS, requestIdAt(boundMs));
    });
    return;
  }
  const bound = await ensureBound({ db, nowMs, lease }, form.bound);
  await validateBound(db, USAGE_ROWS);
  await transaction(db, async (tx) => {
    await lease.check(tx);
    await partitionTable(tx, USAGE_ROWS, bound);
  });
  await analyzeTable(db, USAGE_ROWS);
}

async function ensureBound({ db, nowMs, lease }: PartitionJob, present: string | null): Promise<string> {
  if (present !== null && (requestIdTime(present) ?? 0) - nowMs > BOUND_LEFT_MS) return present;
  const bound = requestIdAt(endOfPeriod(nowMs + BOUND_AHEAD_MS, "day"));
  await transaction(db, async (tx) => {
    await lease.check(tx);
    await removeBound(tx, USAGE_ROWS);
    const [later] = await tx.sql`SELECT request_id FROM usage_row WHERE request_id >= ${bound} LIMIT 1`;
    if (later !== undefined)
      throw new Error(`The request ${text(later, "request_id")} has a time more than a week ahead.`);
    await addBound(tx, USAGE_ROWS, bound);
  });
  return bound;
}

/** Creates the partitions of the next days. Returns their number. */
export async function createPartitionsAhead(
  { db, nowMs, lease }: PartitionJob,
  keptMs: number | null,
): Promise<number> {
  const width = choosePartitionWidth(keptMs);
  const partitions = await listPartitions(db, USAGE_ROWS);
  const ends = partitions.map(({ to }) => requestIdTime(to ?? "") ?? 0);
  // After a long pause, the missing periods stay without a partition: late rows go to the default one.
  let fromMs = Math.max(...ends, endOfPeriod(nowMs - DAY_MS, "day"));
  let created = 0;
  while (fromMs < nowMs + CREATED_AHEAD_MS) {
    const range = { fromMs, toMs: endOfPeriod(fromMs, width) };
    await transaction(db, async (tx) => {
      await lease.check(tx);
      await addPartition(tx, USAGE_ROWS, {
        name: `usage_row_${new Date(range.fromMs).toISOString().slice(0, 10).replaceAll("-", "")}`,
        from: requestIdAt(range.fromMs),
        to: requestIdAt(range.toMs),
      });
    });
    fromMs = range.toMs;
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
