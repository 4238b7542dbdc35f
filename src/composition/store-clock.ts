/** Keeps the wall-clock time of this process in step with the database's, if other nodes share the database. */

import { systemClock } from "../base/clock.ts";
import { PeriodicTask } from "../base/periodic-task.ts";
import { isSharedServer } from "../store/engine/dialect.ts";
import { StoreClock } from "../store/engine/store-clock.ts";
import type { ProcessContext } from "./process-context.ts";

/** A context whose clock is the database's. Tests that set another clock keep theirs. */
export async function withStoreClock(context: ProcessContext): Promise<ProcessContext> {
  const { installation, limits, log, closers } = context;
  if (!isSharedServer(installation.db) || installation.clock !== systemClock) return context;
  const clock = new StoreClock(installation.clock);
  await clock.synchronize(installation.db);
  const task = new PeriodicTask({
    everyMs: limits.clockSynchronizationMs,
    run: () => clock.synchronize(installation.db),
    onError: (reason) => log.warn("clock_unsynchronized", { reason }),
  });
  closers.add(() => task.stop());
  return { ...context, installation: { ...installation, clock } };
}
