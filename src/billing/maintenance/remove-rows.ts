/** Removes usage rows older than the configured retention, a few at a time between other work. */

import type { Clock } from "../../net/wire/clock.ts";
import type { Log } from "../../observe/log.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import type { JobLease, RunJob } from "../../store/nodes/job-leases.ts";
import { readUsageRowsKept, removeUsageRows } from "../../store/usage/usage-removal.ts";

export interface RowRemoval {
  /** Runs at once; joins a pass in flight. */
  remove(): Promise<void>;
  stop(): Promise<void>;
}

export interface RowRemovalOptions {
  db: Db;
  log: Log;
  clock: Pick<Clock, "nowMs">;
  everyMs: number;
  /** Maximum number of rows per transaction: SQLite blocks everything else while it runs. */
  rowsMax: number;
  /** Pause between two transactions. */
  pauseMs: number;
  runJob: RunJob;
}

export function startRemovingRows(options: RowRemovalOptions): RowRemoval {
  const { db, log, clock, rowsMax, pauseMs, runJob } = options;
  let inFlight: Promise<void> | null = null;
  let stopped = false;

  async function removeExpired(lease: JobLease): Promise<number> {
    const keptMs = await readUsageRowsKept(db);
    if (keptMs === null) return 0;
    const beforeMs = clock.nowMs() - keptMs;
    let removed = 0;
    while (!stopped) {
      const removedNow = await transaction(db, async (tx) => {
        await lease.check(tx);
        return removeUsageRows(tx, beforeMs, rowsMax);
      });
      removed += removedNow;
      if (removedNow < rowsMax) break;
      await Bun.sleep(pauseMs);
    }
    return removed;
  }

  async function pass(): Promise<void> {
    let removed = 0;
    try {
      await runJob(async (lease) => {
        removed = await removeExpired(lease);
      });
    } catch (error) {
      log.warn("usage_removal_failed", { reason: error instanceof Error ? error.message : "unknown" });
    }
    if (removed > 0) log.info("usage_rows_removed", { rows: removed });
  }

  function remove(): Promise<void> {
    if (stopped) return Promise.resolve();
    inFlight ??= pass().finally(() => {
      inFlight = null;
    });
    return inFlight;
  }

  const timer = setInterval(() => void remove(), options.everyMs);
  timer.unref();
  return {
    remove,
    async stop() {
      stopped = true;
      clearInterval(timer);
      await inFlight;
    },
  };
}
