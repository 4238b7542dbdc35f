/** Opens billing. At shutdown it writes all pending usage rows. */

import type { BillingEngine } from "../billing/engine/billing-engine.ts";
import { RejectionRows } from "../billing/engine/rejection-rows.ts";
import { type Billing, openBilling } from "../billing/open-billing.ts";
import type { Log } from "../observe/log.ts";
import type { ProcessContext } from "./process-context.ts";
import type { ThisNode } from "./this-node.ts";

export interface BillingServices extends Billing {
  readonly rejections: RejectionRows;
}

/** Settles the usage of earlier processes before it resolves. */
export async function openBillingServices(
  context: ProcessContext,
  { self, jobs }: ThisNode,
): Promise<BillingServices> {
  const { installation, settings, limits, log, closers } = context;
  const { clock } = installation;
  const billing = await openBilling({ ...installation, ...settings, self, jobs, log, limits });
  const { billingEngine } = billing;
  const rejections = new RejectionRows((row) => billingEngine.push(row), limits.rejectionRows);
  closers.add(async () => {
    rejections.writeCounted();
    const flushDeadlineMs = clock.monotonicMs() + limits.flushTimeoutMs;
    await flushUntilDeadline(billingEngine, log, () => clock.monotonicMs() >= flushDeadlineMs);
    await billing.close();
  });
  return { ...billing, rejections };
}

/** If the database comes back in time, every row is written; otherwise the process still has to end. */
async function flushUntilDeadline(
  billingEngine: BillingEngine,
  log: Log,
  isTimeUp: () => boolean,
): Promise<void> {
  for (;;) {
    try {
      return await billingEngine.flush();
    } catch (error) {
      if (!isTimeUp()) continue;
      log.error("usage_lost", { reason: error instanceof Error ? error.message : "unknown" });
      return;
    }
  }
}
