/**
 * Runs the reconciliation of a running server in a worker thread: SQLite runs on the calling thread, and a query over
 * a million rows would block every request.
 */

import type { Log } from "../../observe/log.ts";
import { type AuditReport, logAudit } from "./reconciliation.ts";

export interface HourlyReconciliation {
  /** Runs at once. */
  run(): Promise<void>;
  stop(): void;
}

export interface HourlyAuditOptions {
  databaseUrl: string;
  log: Log;
  everyMs: number;
  holdLeaseMs: number;
}

export interface ReconciliationCommand {
  databaseUrl: string;
  holdLeaseMs: number;
}

export type ReconciliationReply = { ok: true; report: AuditReport } | { ok: false; reason: string };

export function startHourlyReconciliation({
  databaseUrl,
  log,
  everyMs,
  holdLeaseMs,
}: HourlyAuditOptions): HourlyReconciliation {
  let worker: Worker | null = null;

  async function run(): Promise<void> {
    if (worker !== null) return;
    const { promise, resolve } = Promise.withResolvers<ReconciliationReply>();
    worker = new Worker(new URL("./reconciliation-worker.ts", import.meta.url).href);
    worker.onmessage = (event: MessageEvent<ReconciliationReply>) => resolve(event.data);
    worker.onerror = (event) => resolve({ ok: false, reason: event.message });
    worker.postMessage({ databaseUrl, holdLeaseMs } satisfies ReconciliationCommand);
    const result = await promise;
    worker.terminate();
    worker = null;
    if (result.ok) logAudit(log, result.report);
    else log.error("audit_unavailable", { reason: result.reason });
  }

  const timer = setInterval(() => void run(), everyMs);
  timer.unref();
  return {
    run,
    stop() {
      clearInterval(timer);
      worker?.terminate();
    },
  };
}
