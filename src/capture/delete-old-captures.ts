/** Deletes captures after their retention, periodically and on one node at a time. */

import type { Clock } from "../base/clock.ts";
import type { Log } from "../observe/log.ts";
import { deleteOldCaptures } from "../store/captures/captures.ts";
import { type Db, transaction } from "../store/engine/db.ts";
import type { RunJob } from "../store/nodes/job-leases.ts";

export interface CaptureRetentionOptions {
  readonly db: Db;
  readonly clock: Pick<Clock, "nowMs">;
  readonly log: Log;
  readonly keptMs: number;
  readonly everyMs: number;
  /** How many captures one transaction deletes. */
  readonly batchRows: number;
  readonly runJob: RunJob;
}

export function startDeletingCaptures(options: CaptureRetentionOptions): { stop(): void } {
  const { db, clock, log, keptMs, everyMs, batchRows, runJob } = options;
  let isStopped = false;
  const run = () =>
    runJob(async (lease) => {
      const beforeMs = clock.nowMs() - keptMs;
      const deleteBatch = () =>
        transaction(db, async (tx) => {
          await lease.check(tx);
          return deleteOldCaptures(tx, beforeMs, batchRows);
        });
      while (!isStopped && (await deleteBatch()) === batchRows);
    }).catch((error: unknown) => {
      log.warn("capture_retention_failed", { reason: error instanceof Error ? error.message : "unknown" });
    });
  const timer = setInterval(() => void run(), everyMs);
  timer.unref();
  return {
    stop() {
      isStopped = true;
      clearInterval(timer);
    },
  };
}
