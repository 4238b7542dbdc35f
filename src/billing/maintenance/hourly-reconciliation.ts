/**
 * Runs the reconciliation of a running server in a worker thread: SQLite runs on the calling thread, and a query over
 * a million rows would block every request.
 */

import { PeriodicTask } from "../../base/periodic-task.ts";
import type { BillingFaults } from "../../observe/billing-faults.ts";
import type { Log } from "../../observe/log.ts";
import type { RunJob } from "../../store/nodes/job-leases.ts";
import { logReconciliation, type ReconciliationReport } from "./reconciliation.ts";

interface HourlyReconciliation {
  /** Runs at once. */
  run(): Promise<void>;
  stop(): void;
}

interface HourlyReconciliationOptions {
  databaseUrl: string;
  log: Log;
  everyMs: number;
  holdAgeMaxMs: number;
  runJob: RunJob;
  faults: Pick<BillingFaults, "add">;
}

export interface ReconciliationCommand {
  databaseUrl: string;
  holdAgeMaxMs: number;
}

export type ReconciliationReply = { ok: true; report: ReconciliationReport } | { ok: false; reason: string };

export function startHourlyReconciliation({
  databaseUrl,
  log,
  everyMs,
  holdAgeMaxMs,
  runJob,
  faults,
}: HourlyReconciliationOptions): HourlyReconciliation {
  let worker: Worker | null = null;

  async function reconcile(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<ReconciliationReply>();
    worker = new Worker(new URL("./reconciliation-worker.ts", import.meta.url).href);
    worker.onmessage = (event: MessageEvent<ReconciliationReply>) => resolve(event.data);
    worker.onerror = (event) => resolve({ ok: false, reason: event.message });
    worker.postMessage({ databaseUrl, holdAgeMaxMs } satisfies ReconciliationCommand);
    const result = await promise;
    worker.terminate();
    worker = null;
    if (!result.ok) {
      log.error("audit_unavailable", { reason: result.reason });
      return;
    }
    logReconciliation(log, result.report);
    // Once for each run: the log names the contradictions.
    if (result.report.findings.length > 0) faults.add("reconciliation_failed");
  }

  const task = new PeriodicTask({
    everyMs,
    run: () => runJob(reconcile),
    onError: (reason) => log.error("audit_unavailable", { reason }),
  });
  return {
    run: () => task.run(),
    stop() {
      void task.stop();
      worker?.terminate();
    },
  };
}
