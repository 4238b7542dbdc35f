/** Deletes captures after their retention, periodically and on one node at a time. */

import type { Clock } from "../base/clock.ts";
import { nextTurn } from "../base/next-turn.ts";
import { PeriodicTask } from "../base/periodic-task.ts";
import type { Log } from "../observe/log.ts";
import { deleteOldCaptures } from "../store/captures/captures.ts";
import { type Db, transaction } from "../store/engine/db.ts";
import type { RunJob } from "../store/nodes/job-leases.ts";

interface CaptureRetentionOptions {
  readonly db: Db;
  readonly clock: Pick<Clock, "nowMs">;
  readonly log: Log;
  readonly keptMs: number;
  readonly everyMs: number;
  /** How many captures one transaction deletes. */
  readonly batchRows: number;
  readonly runJob: RunJob;
}

export function startDeletingCaptures(options: CaptureRetentionOptions): PeriodicTask {
  const { db, clock, log, keptMs, everyMs, batchRows, runJob } = options;
  const task = new PeriodicTask({
    everyMs,
    run: () =>
      runJob(async (lease) => {
        const beforeMs = clock.nowMs() - keptMs;
        const deleteBatch = () =>
          transaction(db, async (tx) => {
            await lease.check(tx);
            return deleteOldCaptures(tx, beforeMs, batchRows);
          });
        while (!task.isStopped && (await deleteBatch()) === batchRows) await nextTurn();
      }),
    onError: (reason) => log.warn("capture_retention_failed", { reason }),
  });
  return task;
}
