/** Registers this process among the nodes of the database, and finishes migrations that wait for other nodes. */

import { systemClock } from "../base/clock.ts";
import { PeriodicTask } from "../base/periodic-task.ts";
import { describeProcess } from "../billing/recovery/process-watch.ts";
import { isSharedServer } from "../store/engine/dialect.ts";
import { finishMigrations } from "../store/engine/migrate.ts";
import { type ProcessRecord, registerProcess, storeNowMs } from "../store/money/processes.ts";
import { JobLeases } from "../store/nodes/job-leases.ts";
import { NodeStatus } from "./node-status.ts";
import type { ProcessContext } from "./process-context.ts";

export interface ThisNode {
  readonly self: ProcessRecord;
  readonly jobs: JobLeases;
  readonly status: NodeStatus;
}

/** Billing deletes the registration at the end of the process. */
export async function openThisNode(context: ProcessContext): Promise<ThisNode> {
  const { installation, settings, limits, log, closers } = context;
  const { db, clock, newId } = installation;
  const self = describeProcess(newId("inc"), await storeNowMs(db, clock), settings.folderId ?? null);
  await registerProcess(db, self);
  const jobs = new JobLeases({ db, clock, holder: self.id });
  // If the database is away now, the leases end with the registration or with their term.
  closers.add(() => jobs.release().catch(() => {}));
  const everyMs = limits.recovery.heartbeatIntervalMs;
  const status = new NodeStatus({ db, machineClock: systemClock, log, id: self.id, everyMs });
  status.start();
  closers.add(() => status.stop());
  return { self, jobs, status };
}

/** Checks at once and then periodically whether the last node of an earlier version has ended. */
export function startFinishingMigrations({ installation, limits, log, closers }: ProcessContext): void {
  const { db } = installation;
  if (!isSharedServer(db)) return;
  const task = new PeriodicTask({
    everyMs: limits.finishMigrationsMs,
    async run() {
      const { applied } = await finishMigrations(db);
      for (const name of applied) log.info("migration_finished", { name });
    },
    onError: (reason) => log.warn("migration_failed", { reason }),
  });
  void task.run();
  closers.add(() => task.stop());
}
