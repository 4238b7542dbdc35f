/**
 * The audit beside a running server, in a thread of its own: SQLite answers on the thread that asks, and a question
 * about a million rows would hold every request up.
 */

import type { Log } from "../../observe/log.ts";
import { type AuditReport, logAudit } from "./reconciliation.ts";

export interface HourlyReconciliation {
  /** At once. */
  run(): Promise<void>;
  stop(): void;
}

export interface HourlyAuditOptions {
  databaseUrl: string;
  log: Log;
  everyMs: number;
  holdLeaseMs: number;
}

export interface AuditOrder {
  databaseUrl: string;
  holdLeaseMs: number;
}

export type AuditAnswer = { ok: true; report: AuditReport } | { ok: false; reason: string };

export function startHourlyReconciliation({
  databaseUrl,
  log,
  everyMs,
  holdLeaseMs,
}: HourlyAuditOptions): HourlyReconciliation {
  let worker: Worker | null = null;

  async function run(): Promise<void> {
    if (worker !== null) return;
    const { promise, resolve } = Promise.withResolvers<AuditAnswer>();
    worker = new Worker(new URL("./reconciliation-worker.ts", import.meta.url).href);
    worker.onmessage = (event: MessageEvent<AuditAnswer>) => resolve(event.data);
    worker.onerror = (event) => resolve({ ok: false, reason: event.message });
    worker.postMessage({ databaseUrl, holdLeaseMs } satisfies AuditOrder);
    const answer = await promise;
    worker.terminate();
    worker = null;
    if (answer.ok) logAudit(log, answer.report);
    else log.error("audit_unavailable", { reason: answer.reason });
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
