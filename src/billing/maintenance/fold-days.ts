/**
 * Keeps the roll-up by day up to date. Each pass folds whoever used something since the pass before, a few hours of
 * grace included, for a request counts for the hour it began in. What arrives later than that is marked by its writer.
 * Once an hour, and at start, the last two days are folded whole.
 */

import type { Clock } from "../../net/wire/clock.ts";
import type { Log } from "../../observe/log.ts";
import type { Db } from "../../store/engine/db.ts";
import {
  DAY_MS,
  FOLD_GRACE_MS,
  firstHour,
  foldDay,
  HOUR_MS,
  readFoldState,
  startOfDay,
  writeFolded,
} from "../../store/usage/usage-day.ts";

/** `whole`: the last two days are looked at from their beginning. Returns the days that were folded. */
export async function foldDays(db: Db, nowMs: number, whole: boolean): Promise<number[]> {
  const { foldedAtMs, marks } = await readFoldState(db);
  const since = new Map<number, number>();
  const firstMs = foldedAtMs === 0 ? await firstHour(db) : Math.min(foldedAtMs, nowMs) - FOLD_GRACE_MS;
  const recentMs = startOfDay(nowMs) - DAY_MS;
  const fromMs = firstMs === null ? recentMs : whole ? Math.min(firstMs, recentMs) : firstMs;
  // A day further: another node's clock may be ahead.
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

export interface DayFolding {
  /** At once; joins a pass under way. */
  fold(): Promise<void>;
  /** No pass begins after it; resolves when none is under way. */
  stop(): Promise<void>;
}

export function startFoldingDays(options: {
  db: Db;
  log: Log;
  clock: Pick<Clock, "nowMs">;
  everyMs: number;
}): DayFolding {
  const { db, log, clock } = options;
  let wholeAtMs = 0;
  let underWay: Promise<void> | null = null;
  let stopped = false;

  async function pass(): Promise<void> {
    const nowMs = clock.nowMs();
    const whole = Math.abs(nowMs - wholeAtMs) >= HOUR_MS;
    try {
      await foldDays(db, nowMs, whole);
      if (whole) wholeAtMs = nowMs;
    } catch (error) {
      // The next pass begins where the last good one ended.
      log.warn("usage_fold_failed", { reason: error instanceof Error ? error.message : "unknown" });
    }
  }

  function fold(): Promise<void> {
    if (stopped) return Promise.resolve();
    underWay ??= pass().finally(() => {
      underWay = null;
    });
    return underWay;
  }

  const timer = setInterval(() => void fold(), options.everyMs);
  timer.unref();
  return {
    fold,
    async stop() {
      stopped = true;
      clearInterval(timer);
      await underWay;
    },
  };
}
