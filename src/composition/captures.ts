/** Opens the recorder of captured requests, and the job that deletes old ones. At shutdown it stores the last ones. */

import { CaptureRecorder } from "../capture/capture-recorder.ts";
import { startDeletingCaptures } from "../capture/delete-old-captures.ts";
import type { ProcessContext } from "./process-context.ts";
import type { ThisNode } from "./this-node.ts";

export function openCaptures({
  installation,
  settings,
  limits,
  log,
  closers,
}: ProcessContext): CaptureRecorder {
  const { db, keyring, clock } = installation;
  const recorder = new CaptureRecorder({
    db,
    keyring,
    clock,
    log,
    settings: settings.capture,
    limits: limits.capture,
    threadLimits: limits.captureThread,
  });
  closers.add(() => recorder.close());
  return recorder;
}

export function startCaptureRetention(
  { installation, settings, limits, log, closers }: ProcessContext,
  { jobs }: ThisNode,
): void {
  const { db, clock } = installation;
  const { sweepMs, sweepRows } = limits.capture;
  const job = startDeletingCaptures({
    db,
    clock,
    log,
    keptMs: settings.capture.keptMs,
    everyMs: sweepMs,
    batchRows: sweepRows,
    runJob: jobs.forJob("captures", sweepMs),
  });
  closers.add(() => job.stop());
}
