/** Removes stored responses after their retention, those of revoked keys, and the oldest ones above the total limit. */

import type { Clock } from "../../base/clock.ts";
import { PeriodicTask } from "../../base/periodic-task.ts";
import type { Log } from "../../observe/log.ts";
import type { Db } from "../../store/engine/db.ts";
import type { RunJob } from "../../store/nodes/job-leases.ts";
import { readResponsesKept } from "../../store/responses/response-retention.ts";
import {
  limitTotalBytes,
  removeConversationsOfRevokedKeys,
  removeExpiredConversations,
} from "../../store/responses/stored-response-removal.ts";

interface ResponseSweepOptions {
  readonly db: Db;
  readonly clock: Pick<Clock, "nowMs">;
  readonly log: Pick<Log, "info" | "warn">;
  readonly sweepMs: number;
  readonly bytesMax: number;
  readonly runJob: RunJob;
}

/** Keys that were revoked earlier have been swept, unless every node was stopped: then the retention applies. */
const REVOKED_SINCE_MS = 86_400_000;

export function startSweepingResponses(options: ResponseSweepOptions): PeriodicTask {
  const { log, runJob, sweepMs } = options;
  const task = new PeriodicTask({
    everyMs: sweepMs,
    run: () => runJob(() => removeExpiredResponses(options, () => task.isStopped)),
    onError: (reason) => log.warn("stored_response_sweep_failed", { reason }),
  });
  return task;
}

export async function removeExpiredResponses(
  { db, clock, log, bytesMax }: Pick<ResponseSweepOptions, "db" | "clock" | "log" | "bytesMax">,
  isStopped: () => boolean = () => false,
): Promise<void> {
  const nowMs = clock.nowMs();
  const beforeMs = nowMs - (await readResponsesKept(db));
  let removed = 0;
  for (let batch = 1; batch > 0 && !isStopped(); removed += batch)
    batch = await removeExpiredConversations(db, beforeMs);
  for (let batch = 1; batch > 0 && !isStopped(); removed += batch)
    batch = await removeConversationsOfRevokedKeys(db, nowMs - REVOKED_SINCE_MS);
  if (!isStopped()) removed += await limitTotalBytes(db, bytesMax);
  if (removed > 0) log.info("stored_responses_removed", { conversations: removed });
}
