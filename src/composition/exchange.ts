/** Connects this node with the others: wake-ups, the health of accounts, and counts of throttles. */

import type { BillingEngine } from "../billing/engine/billing-engine.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { HealthExchange } from "../nodes/health-exchange.ts";
import { ThrottleExchange } from "../nodes/throttle-exchange.ts";
import type { LivePolicy } from "../policy/live-policy.ts";
import { isSharedServer } from "../store/engine/dialect.ts";
import { listenForChanges } from "../store/engine/notify.ts";
import type { ProcessContext } from "./process-context.ts";
import type { ThisNode } from "./this-node.ts";

/** Null if the database has one node. */
export function openThrottleExchange(
  { installation, limits, log, closers }: ProcessContext,
  { self }: Pick<ThisNode, "self">,
): ThrottleExchange | null {
  const { db, clock, digest } = installation;
  if (!isSharedServer(db)) return null;
  const exchange = new ThrottleExchange({
    db,
    clock,
    log,
    node: self.id,
    digest,
    limits: limits.throttleExchange,
  });
  exchange.start();
  closers.add(() => exchange.stop());
  return exchange;
}

/** Null if the database has one node. Resolves when the reports of the other nodes are applied. */
export async function openHealthExchange(
  { installation, limits, log, closers }: ProcessContext,
  { self }: Pick<ThisNode, "self">,
  { policy, dispatcher }: Pick<Gateway, "policy" | "dispatcher">,
): Promise<HealthExchange | null> {
  const { db, clock, digest } = installation;
  if (!isSharedServer(db)) return null;
  const exchange = new HealthExchange({
    db,
    clock,
    log,
    node: self.id,
    policy,
    pool: dispatcher.pool,
    digest,
    limits: limits.healthExchange,
  });
  await exchange.start();
  closers.add(() => exchange.stop());
  return exchange;
}

interface ListeningServices {
  readonly policy: LivePolicy;
  readonly health: HealthExchange | null;
  readonly billingEngine: Pick<BillingEngine, "answerRecalls">;
}

/** Notifications only make changes faster: without them, each part polls. */
export function startListening(
  { installation, settings, log, closers }: ProcessContext,
  { policy, health, billingEngine }: ListeningServices,
): void {
  if (!isSharedServer(installation.db)) return;
  const refreshPolicy = () => {
    policy.refresh().catch((error: unknown) => {
      log.error("policy_refresh_failed", { reason: error instanceof Error ? error.message : "unknown" });
    });
  };
  const wakeUps = listenForChanges({
    url: settings.databaseListenUrl,
    onTopic(topic) {
      if (topic === "policy") refreshPolicy();
      else if (topic === "health") health?.receive();
      else void billingEngine.answerRecalls();
    },
    onConnected() {
      refreshPolicy();
      health?.receive();
    },
    onFailure: (error) =>
      log.warn("notifications_unavailable", { reason: error instanceof Error ? error.message : "unknown" }),
  });
  closers.add(() => wakeUps.stop());
}
