/**
 * Today's cost at list prices: the daily roll-up of all nodes as of its last fold, plus what this node has counted
 * since. It may lack what other nodes did in the last minute.
 */

import { DAY_MS } from "../base/time.ts";
import type { Db } from "../store/engine/db.ts";
import { readUsageSeries } from "../store/reports/usage-charts.ts";
import { readFoldState, startOfDay } from "../store/usage/usage-day.ts";
import type { History } from "./traffic-history.ts";

export interface SpentToday {
  dayMs: number;
  nano: number;
}

export interface FoldedSpending {
  dayMs: number;
  foldedAtMs: number;
  nano: number;
}

export async function readFolded(db: Db, nowMs: number): Promise<FoldedSpending> {
  const dayMs = startOfDay(nowMs);
  const { foldedAtMs } = await readFoldState(db);
  const [point] = await readUsageSeries(db, {
    scope: { kind: "all" },
    fromMs: dayMs,
    toMs: dayMs + DAY_MS,
    granularity: "day",
    by: "total",
  });
  return { dayMs, foldedAtMs, nano: Number(point?.costNano ?? 0n) };
}

export function computeSpentToday({ dayMs, foldedAtMs, nano }: FoldedSpending, history: History): SpentToday {
  const since = history.sampleAt(Math.max(foldedAtMs, dayMs));
  return { dayMs, nano: nano + history.latest().costNano - since.costNano };
}
