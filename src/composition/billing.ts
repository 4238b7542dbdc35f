/** Opens billing. At shutdown it writes all pending usage rows. */

import type { BillingEngine } from "../billing/engine/billing-engine.ts";
import { ObservedBilling } from "../billing/engine/observed-billing.ts";
import { RejectionRows } from "../billing/engine/rejection-rows.ts";
import { type Billing, openBilling } from "../billing/open-billing.ts";
import { OwnUse } from "../nodes/own-use.ts";
import type { Log } from "../observe/log.ts";
import { isSharedServer } from "../store/engine/dialect.ts";
import type { ProcessContext } from "./process-context.ts";
import type { ThisNode } from "./this-node.ts";

export interface BillingServices extends Billing {
  readonly rejections: RejectionRows;
  /** Null if the database has one node. */
  readonly ownUse: OwnUse | null;
}

/** Settles the usage of earlier processes before it resolves. */
export async function openBillingServices(
  context: ProcessContext,
  { self, jobs }: ThisNode,
): Promise<BillingServices> {
  const { installation, settings, limits, log, closers } = context;
  const { clock } = installation;
  const billing = await openBilling({ ...installation, ...settings, self, jobs, log, limits });
  const ownUse = openOwnUse(context, self.id, billing.billingEngine);
  const billingEngine =
    ownUse === null
      ? billing.billingEngine
      : new ObservedBilling(billing.billingEngine, (row) => ownUse.add(row));
  const rejections = new RejectionRows((row) => billingEngine.push(row), limits.rejectionRows);
  closers.add(async () => {
    rejections.writeCounted();
    const flushDeadlineMs = clock.monotonicMs() + limits.flushTimeoutMs;
    await flushUntilDeadline(billingEngine, log, () => clock.monotonicMs() >= flushDeadlineMs);
    await billing.close();
  });
  // Closed before billing, which it flushes.
  if (ownUse !== null) closers.add(() => ownUse.stop());
  return { ...billing, billingEngine, rejections, ownUse };
}

function openOwnUse(
  { installation, limits, log }: ProcessContext,
  node: string,
  billingEngine: BillingEngine,
): OwnUse | null {
  const { db, clock } = installation;
  if (!isSharedServer(db)) return null;
  const flush = () => billingEngine.flush();
  const ownUse = new OwnUse({ db, clock, log, node, flush, limits: limits.ownUse });
  ownUse.start();
  return ownUse;
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
