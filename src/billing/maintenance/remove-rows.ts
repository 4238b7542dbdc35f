/** Removes rows of usage that are older than the operator wants to keep, a few at a time, between other work. */

import type { Clock } from "../../net/wire/clock.ts";
import type { Log } from "../../observe/log.ts";
import type { Db } from "../../store/engine/db.ts";
import { readUsageRowsKept, removeUsageRows } from "../../store/usage/usage-removal.ts";

export interface RowRemoval {
  /** At once; joins a pass under way. */
  remove(): Promise<void>;
  stop(): Promise<void>;
}

export interface RowRemovalOptions {
  db: Db;
  log: Log;
  clock: Pick<Clock, "nowMs">;
  everyMs: number;
  /** One transaction: SQLite holds everybody up for its length. */
  rowsMax: number;
  /** Between two of them. */
  pauseMs: number;
}

export function startRemovingRows(options: RowRemovalOptions): RowRemoval {
  const { db, log, clock, rowsMax, pauseMs } = options;
  let underWay: Promise<void> | null = null;
  let stopped = false;

  async function pass(): Promise<void> {
    let removed = 0;
    try {
      const keptMs = await readUsageRowsKept(db);
      if (keptMs === null) return;
      const beforeMs = clock.nowMs() - keptMs;
      while (!stopped) {
        const many = await removeUsageRows(db, beforeMs, rowsMax);
        removed += many;
        if (many < rowsMax) break;
        await Bun.sleep(pauseMs);
      }
    } catch (error) {
      log.warn("usage_removal_failed", { reason: error instanceof Error ? error.message : "unknown" });
    }
    if (removed > 0) log.info("usage_rows_removed", { rows: removed });
  }

  function remove(): Promise<void> {
    if (stopped) return Promise.resolve();
    underWay ??= pass().finally(() => {
      underWay = null;
    });
    return underWay;
  }

  const timer = setInterval(() => void remove(), options.everyMs);
  timer.unref();
  return {
    remove,
    async stop() {
      stopped = true;
      clearInterval(timer);
      await underWay;
    },
  };
}
