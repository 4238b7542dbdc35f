/**
 * Removes usage rows older than the configured retention: on PostgreSQL with their partition, elsewhere a few at a time
 * between other work.
 */

import type { Clock } from "../../base/clock.ts";
import { PeriodicTask } from "../../base/periodic-task.ts";
import type { Log } from "../../observe/log.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import type { JobLease, RunJob } from "../../store/nodes/job-leases.ts";
import {
  analyzeUsageRows,
  canPartitionUsageRows,
  createPartitionsAhead,
  dropExpiredPartitions,
  listUnboundedTables,
  type PartitionJob,
} from "../../store/usage/usage-partitions.ts";
import { readUsageRowsKept, removeUsageRows } from "../../store/usage/usage-removal.ts";

export interface RowRemovalOptions {
  db: Db;
  /** Opens connections whose statements may take long. */
  openMaintenanceDb: () => Promise<Db>;
  log: Log;
  clock: Pick<Clock, "nowMs">;
  everyMs: number;
  /** How long after the start the first pass begins. */
  firstAfterMs: number;
  /** Maximum number of rows per transaction: SQLite blocks everything else while it runs. */
  rowsMax: number;
  /** Pause between two transactions. */
  pauseMs: number;
  runJob: RunJob;
}

/** Partitions and removes usage rows periodically. */
export class RowRemoval {
  readonly #options: RowRemovalOptions;
  readonly #firstTimer: ReturnType<typeof setTimeout>;
  readonly #task: PeriodicTask;

  constructor(options: RowRemovalOptions) {
    this.#options = options;
    this.#task = new PeriodicTask({
      everyMs: options.everyMs,
      run: () => this.#pass(),
      onError: (reason) => options.log.warn("usage_removal_failed", { reason }),
    });
    this.#firstTimer = setTimeout(() => void this.remove(), options.firstAfterMs);
    this.#firstTimer.unref();
  }

  /** Runs at once; joins a pass in flight. */
  remove(): Promise<void> {
    return this.#task.run();
  }

  stop(): Promise<void> {
    clearTimeout(this.#firstTimer);
    return this.#task.stop();
  }

  async #pass(): Promise<void> {
    const { db, clock, log, runJob } = this.#options;
    let removed = 0;
    try {
      await runJob(async (lease) => {
        const keptMs = await readUsageRowsKept(db);
        const nowMs = clock.nowMs();
        const beforeMs = keptMs === null ? null : nowMs - keptMs;
        const dropped = await this.#maintainPartitions({ nowMs, lease }, keptMs);
        removed = dropped.removed;
        if (beforeMs === null) return;
        for (const table of dropped.tables) removed += await this.#removeExpired(lease, { beforeMs, table });
      });
    } finally {
      if (removed > 0) log.info("usage_rows_removed", { rows: removed });
    }
  }

  /** Returns the number of rows that were dropped, and the tables whose rows must be removed one by one. */
  async #maintainPartitions(
    { nowMs, lease }: Omit<PartitionJob, "db">,
    keptMs: number | null,
  ): Promise<{ removed: number; tables: string[] }> {
    const { db, openMaintenanceDb, log } = this.#options;
    if (this.#task.isStopped || !(await canPartitionUsageRows(db)))
      return { removed: 0, tables: ["usage_row"] };
    const maintenanceDb = await openMaintenanceDb();
    const job = { db: maintenanceDb, nowMs, lease };
    try {
      const created = await createPartitionsAhead(job, keptMs);
      const removed = keptMs === null ? 0 : await dropExpiredPartitions(job, nowMs - keptMs);
      if (created > 0 || removed > 0) await analyzeUsageRows(maintenanceDb);
      const tables = keptMs === null ? [] : await listUnboundedTables(maintenanceDb, nowMs - keptMs);
      return { removed, tables };
    } catch (error) {
      // A lock that is not free, for example during a long report. The next pass tries again.
      log.warn("usage_partitions_failed", { reason: error instanceof Error ? error.message : "unknown" });
      return { removed: 0, tables: ["usage_row"] };
    } finally {
      await maintenanceDb.close();
    }
  }

  async #removeExpired(
    lease: JobLease,
    { beforeMs, table }: { beforeMs: number; table: string },
  ): Promise<number> {
    const { db, rowsMax, pauseMs } = this.#options;
    let removed = 0;
    while (!this.#task.isStopped) {
      const removedNow = await transaction(db, async (tx) => {
        await lease.check(tx);
        return removeUsageRows(tx, { beforeMs, rowsMax, table });
      });
      removed += removedNow;
      if (removedNow < rowsMax) break;
      await Bun.sleep(pauseMs);
    }
    return removed;
  }
}
