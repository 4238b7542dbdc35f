/** Connects this node with the others: wake-ups, the health of accounts, and counts of throttles. */

import type { BillingEngine } from "../billing/engine/billing-engine.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { HealthSharing } from "../nodes/health-sharing.ts";
import { ThrottleSharing } from "../nodes/throttle-sharing.ts";
import type { LivePolicy } from "../policy/live-policy.ts";
import { isSharedServer } from "../store/engine/dialect.ts";
import { listenForChanges } from "../store/engine/notify.ts";
import type { ProcessContext } from "./process-context.ts";
import type { ThisNode } from "./this-node.ts";

/** Null if the database has one node. */
export function openThrottleSharing(
  { installation, limits, log, closers }: ProcessContext,
  { self }: Pick<ThisNode, "self">,
): ThrottleSharing | null {
  const { db, clock, digest } = installation;
  if (!isSharedServer(db)) return null;
  const sharing = new ThrottleSharing({
    db,
    clock,
    log,
    node: self.id,
    digest,
    limits: limits.throttleSharing,
  });
  sharing.start();
  closers.add(() => sharing.stop());
  return sharing;
}

/** Null if the database has one node. Resolves when the reports of the other nodes are applied. */
export async function openHealthSharing(
  { installation, limits, log, closers }: ProcessContext,
  { self }: Pick<ThisNode, "self">,
  { policy, dispatcher }: Pick<Gateway, "policy" | "dispatcher">,
): Promise<HealthSharing | null> {
  const { db, clock, digest } = installation;
  if (!isSharedServer(db)) return null;
  const sharing = new HealthSharing({
    db,
    clock,
    log,
    node: self.id,
    policy,
    pool: dispatcher.pool,
    digest,
    limits: limits.healthSharing,
  });
  await sharing.start();
  closers.add(() => sharing.stop());
  return sharing;
}

interface ListeningServices {
  readonly policy: LivePolicy;
  readonly health: HealthSharing | null;
  readonly billingEngine: Pick<BillingEngine, "handleRecalls">;
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
      else void billingEngine.handleRecalls();
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
