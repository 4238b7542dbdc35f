/** Measures how long the transactions of a database take. */

import type { Clock } from "../base/clock.ts";
import type { HistogramCounts } from "../observe/histogram.ts";
import type { Db } from "../store/engine/db.ts";

/** The same database. Failed transactions are not counted: they end when their time-out does. */
export function measureCommits(
  db: Db,
  commits: Pick<HistogramCounts, "add">,
  { monotonicMs }: Pick<Clock, "monotonicMs">,
): Db {
  return {
    ...db,
    flush: () => db.flush(),
    async begin(mode, work) {
      if (mode !== "write") return db.begin(mode, work);
      const startedMs = monotonicMs();
      const result = await db.begin(mode, work);
      commits.add((monotonicMs() - startedMs) / 1_000);
      return result;
    },
  };
}
