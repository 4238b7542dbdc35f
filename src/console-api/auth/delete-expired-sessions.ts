/** Deletes expired sessions, links and records of sign-ins periodically, and suspends people who must sign in again. */

import type { Installation } from "../../config/installation/installation.ts";
import { limits } from "../../config/limits/product-limits.ts";
import type { Log } from "../../observe/log.ts";
import { sweepLinks } from "../../store/identity/links.ts";
import { sweepRejectedPushes } from "../../store/identity/scim-records.ts";
import { sweepSessions } from "../../store/identity/sessions.ts";
import { sweepSignIns } from "../../store/identity/sign-in-records.ts";
import type { RunJob } from "../../store/nodes/job-leases.ts";
import { endIdleTools } from "../../store/policy/tool-tokens.ts";
import { sessionBounds } from "./actor.ts";

interface SessionSweepOptions {
  readonly log: Log;
  readonly sweepMs: number;
  readonly runJob: RunJob;
  suspendOverduePeople(): Promise<void>;
  applyWholeDirectory(): Promise<void>;
}

export function startSweepingSessions(
  { db, clock }: Installation,
  { log, sweepMs, runJob, suspendOverduePeople, applyWholeDirectory }: SessionSweepOptions,
): { stop(): void } {
  const timer = setInterval(() => {
    const nowMs = clock.nowMs();
    runJob(async () => {
      const rejectedBeforeMs = nowMs - limits.companySignIn.rejectionsKeptMs;
      await Promise.all([
        sweepSessions(db, sessionBounds(nowMs)),
        sweepLinks(db, nowMs),
        sweepSignIns(db, { nowMs, rejectedBeforeMs }),
        sweepRejectedPushes(db, rejectedBeforeMs),
        suspendOverduePeople().then(applyWholeDirectory),
        endIdleTools(db, nowMs, limits.toolSignIn.idleMax),
      ]);
    }).catch((error: unknown) => {
      log.warn("session_sweep_failed", { reason: error instanceof Error ? error.message : "unknown" });
    });
  }, sweepMs);
  timer.unref();
  return { stop: () => clearInterval(timer) };
}
