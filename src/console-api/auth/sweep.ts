/** Deletes expired sessions and links periodically. */

import type { Installation } from "../../config/installation/installation.ts";
import { limits } from "../../config/product-limits.ts";
import type { Log } from "../../observe/log.ts";
import { sweepLinks } from "../../store/identity/links.ts";
import { sweepSessions } from "../../store/identity/sessions.ts";
import { sessionBounds } from "./actor.ts";

export function startSweepingSessions({ db, clock }: Installation, log: Log): { stop(): void } {
  const timer = setInterval(() => {
    const nowMs = clock.nowMs();
    Promise.all([sweepSessions(db, sessionBounds(nowMs)), sweepLinks(db, nowMs)]).catch((error: unknown) => {
      log.warn("session_sweep_failed", { reason: error instanceof Error ? error.message : "unknown" });
    });
  }, limits.sessionSweepMs);
  timer.unref();
  return { stop: () => clearInterval(timer) };
}
