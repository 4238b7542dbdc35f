/** Deletes expired sessions and links periodically. */

import type { Installation } from "../../config/installation/installation.ts";
import type { Log } from "../../observe/log.ts";
import { sweepLinks } from "../../store/identity/links.ts";
import { sweepSessions } from "../../store/identity/sessions.ts";
import type { RunJob } from "../../store/nodes/job-leases.ts";
import { sessionBounds } from "./actor.ts";

export interface SessionSweepOptions {
  readonly log: Log;
  readonly sweepMs: number;
  readonly runJob: RunJob;
}

export function startSweepingSessions(
  { db, clock }: Installation,
  { log, sweepMs, runJob }: SessionSweepOptions,
): { stop(): void } {
  const timer = setInterval(() => {
    const nowMs = clock.nowMs();
    runJob(async () => {
      await Promise.all([sweepSessions(db, sessionBounds(nowMs)), sweepLinks(db, nowMs)]);
    }).catch((error: unknown) => {
      log.warn("session_sweep_failed", { reason: error instanceof Error ? error.message : "unknown" });
    });
  }, sweepMs);
  timer.unref();
  return { stop: () => clearInterval(timer) };
}
