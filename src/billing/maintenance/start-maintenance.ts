/** Starts the periodic jobs of billing, each of which one node runs for all. */

import type { Clock } from "../../base/clock.ts";
import { PeriodicTask } from "../../base/periodic-task.ts";
import type { BillingFaults } from "../../observe/billing-faults.ts";
import type { Log } from "../../observe/log.ts";
import { type Db, openDb } from "../../store/engine/db.ts";
import type { JobLeases } from "../../store/nodes/job-leases.ts";
import type { Idempotency } from "../idempotency/idempotency.ts";
import { startFoldingDays } from "./fold-days.ts";
import { startHourlyReconciliation } from "./hourly-reconciliation.ts";
import { RowRemoval, type RowRemovalOptions } from "./remove-rows.ts";

export interface MaintenanceLimits {
  idempotencySweepMs: number;
  foldDaysMs: number;
  usageRemoval: Pick<RowRemovalOptions, "everyMs" | "firstAfterMs" | "rowsMax" | "pauseMs">;
  reconciliationIntervalMs: number;
  holdAgeMaxMs: number;
}

interface MaintenanceOptions {
  db: Db;
  databaseUrl: string;
  clock: Clock;
  log: Log;
  jobs: JobLeases;
  faults: Pick<BillingFaults, "add">;
  limits: MaintenanceLimits;
}

/** No job starts after `stop`; it resolves when none runs. */
export function startMaintenance(
  options: MaintenanceOptions,
  idempotency: Pick<Idempotency, "endOrphanedClaims" | "deleteExpired">,
): { stop(): Promise<void> } {
  const { db, databaseUrl, clock, log, jobs, faults, limits } = options;
  const runSweep = jobs.forJob("idempotency", limits.idempotencySweepMs);
  const sweep = new PeriodicTask({
    everyMs: limits.idempotencySweepMs,
    run: () =>
      runSweep(async () => {
        await Promise.all([idempotency.endOrphanedClaims(), idempotency.deleteExpired()]);
      }),
    onError: (reason) => log.warn("idempotency_sweep_failed", { reason }),
  });
  const folding = startFoldingDays({
    db,
    log,
    clock,
    everyMs: limits.foldDaysMs,
    runJob: jobs.forJob("roll_up", limits.foldDaysMs),
  });
  const removal = new RowRemoval({
    db,
    openMaintenanceDb: () => openDb(databaseUrl, { workload: "maintenance" }),
    log,
    clock,
    ...limits.usageRemoval,
    runJob: jobs.forJob("retention", limits.usageRemoval.everyMs),
  });
  const reconciliation = startHourlyReconciliation({
    databaseUrl,
    log,
    everyMs: limits.reconciliationIntervalMs,
    holdAgeMaxMs: limits.holdAgeMaxMs,
    runJob: jobs.forJob("reconciliation", limits.reconciliationIntervalMs),
    faults,
  });
  return {
    async stop() {
      reconciliation.stop();
      await Promise.all([sweep.stop(), folding.stop(), removal.stop()]);
    },
  };
}
