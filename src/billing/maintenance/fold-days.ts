/**
 * Keeps the daily roll-up up to date. Each pass folds the keys with usage since the previous pass, minus a few hours
 * of grace, because a request counts for the hour it began in. The writer marks days of later rows. Once an hour, and
 * at start, the last two days are folded completely.
 */

import type { Clock } from "../../base/clock.ts";
import { PeriodicTask } from "../../base/periodic-task.ts";
import { DAY_MS, HOUR_MS } from "../../base/time.ts";
import type { Log } from "../../observe/log.ts";
import type { Db } from "../../store/engine/db.ts";
import type { RunJob } from "../../store/nodes/job-leases.ts";
import {
  FOLD_GRACE_MS,
  foldDay,
  readFirstHour,
  readFoldState,
  startOfDay,
  writeFolded,
} from "../../store/usage/usage-day.ts";

/** `whole`: the last two days are folded from their start. Returns the days that were folded. */
export async function foldDays(db: Db, nowMs: number, whole: boolean): Promise<number[]> {
  const { foldedAtMs, marks } = await readFoldState(db);
  const since = new Map<number, number>();
  const firstMs = foldedAtMs === 0 ? await readFirstHour(db) : Math.min(foldedAtMs, nowMs) - FOLD_GRACE_MS;
  const recentMs = startOfDay(nowMs) - DAY_MS;
  const fromMs = firstMs === null ? recentMs : whole ? Math.min(firstMs, recentMs) : firstMs;
  // Includes the next day, because the clock of another node may be ahead.
  for (let dayMs = startOfDay(fromMs); dayMs <= startOfDay(nowMs) + DAY_MS; dayMs += DAY_MS) {
    since.set(dayMs, whole || foldedAtMs === 0 ? dayMs : Math.floor(fromMs / HOUR_MS) * HOUR_MS);
  }
  for (const { dayMs } of marks) since.set(dayMs, dayMs);
  const folded: number[] = [];
  for (const [dayMs, sinceMs] of since) {
    if (await foldDay(db, dayMs, sinceMs)) folded.push(dayMs);
  }
  await writeFolded(db, nowMs, marks);
  return folded;
}

export function startFoldingDays({
  db,
  log,
  clock,
  everyMs,
  runJob,
}: {
  db: Db;
  log: Log;
  clock: Pick<Clock, "nowMs">;
  everyMs: number;
  runJob: RunJob;
}): PeriodicTask {
  let wholeAtMs = 0;
  return new PeriodicTask({
    everyMs,
    run() {
      const nowMs = clock.nowMs();
      const whole = Math.abs(nowMs - wholeAtMs) >= HOUR_MS;
      return runJob(async () => {
        await foldDays(db, nowMs, whole);
        if (whole) wholeAtMs = nowMs;
      });
    },
    // The next pass starts where the last successful one ended.
    onError: (reason) => log.warn("usage_fold_failed", { reason }),
  });
}
