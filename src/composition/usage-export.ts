/** Opens the usage export. */

import type { Gateway } from "../gateway/gateway.ts";
import { UsageExport } from "../usage-export/engine.ts";
import type { ProcessContext } from "./process-context.ts";
import type { ThisNode } from "./this-node.ts";

export function openUsageExport(
  { installation, limits, log, closers }: ProcessContext,
  { policy, dispatcher }: Pick<Gateway, "policy" | "dispatcher">,
  { jobs }: Pick<ThisNode, "jobs">,
): UsageExport {
  const { db, clock, keyring } = installation;
  const usageExport = new UsageExport({
    db,
    clock,
    log,
    keyring,
    policy,
    dialer: dispatcher.dialer,
    http: dispatcher.http,
    runJob: jobs.forJob("usage_export", limits.usageExport.intervalMs),
    limits: limits.usageExport,
  });
  usageExport.start();
  closers.add(() => usageExport.stop());
  return usageExport;
}
