/** Opens the limits: in memory for one node; for several nodes on one database, borrowed from coordinators. */

import { keyInGroupId } from "../gateway/admission/caller-limits.ts";
import { WindowSeeds } from "../gateway/admission/seed-windows.ts";
import { systemTimers } from "../limits/borrower/borrower-timers.ts";
import { LimitBorrower } from "../limits/borrower/limit-borrower.ts";
import type { LimitCoordinator } from "../limits/coordinator/protocol.ts";
import { nameRecord } from "../limits/coordinator/record-name.ts";
import type { CountLateUse, LateUse } from "../limits/late-use.ts";
import { openLimiter } from "../limits/limiter.ts";
import type { Limiter } from "../limits/limiter-types.ts";
import { PostgresLimitCoordinator } from "../nodes/postgres-limit-coordinator.ts";
import { RedisLimitCoordinator } from "../nodes/redis-limit-coordinator.ts";
import type { LivePolicy } from "../policy/live-policy.ts";
import { openDb } from "../store/engine/db.ts";
import { isSharedServer } from "../store/engine/dialect.ts";
import { markSubjectsUnread, markWindowsUnread } from "../store/engine/limit-coordination.ts";
import { listCoordinatedNodes, nameCoordinator } from "../store/nodes/nodes.ts";
import type { BillingServices } from "./billing.ts";
import type { ProcessContext } from "./process-context.ts";
import type { ThisNode } from "./this-node.ts";

interface OpenedLimits {
  readonly limiter: Limiter;
  /** Null if there is one node. */
  readonly limitBorrower: LimitBorrower | null;
  readonly countLateUse: CountLateUse;
}

interface LimitDependencies {
  readonly node: ThisNode;
  readonly policy: LivePolicy;
  readonly billing: BillingServices;
}

/** Resolves when the limits can be used, or when the coordinator does not respond. */
export async function openLimits(
  context: ProcessContext,
  dependencies: LimitDependencies,
): Promise<OpenedLimits> {
  const { db, clock } = context.installation;
  if (isSharedServer(db)) {
    const limitBorrower = await openLimitBorrower(context, dependencies);
    return {
      limiter: limitBorrower.limiter,
      limitBorrower,
      countLateUse: (use) => markSubjectsUnread(db, listNames(use)),
    };
  }
  const limiter = openLimiter(clock);
  const seeds = new WindowSeeds({ db, policy: dependencies.policy, limiter, clock });
  await seeds.seed();
  return { limiter, limitBorrower: null, countLateUse: async (use) => seeds.add(use) };
}

/** The beginnings of the names of all records that count the use. */
function listNames({ keyId, userId, groupId }: LateUse): string[] {
  const subjects = [
    { scope: "key", id: keyId },
    { scope: "key", id: keyInGroupId(keyId, groupId) },
    { scope: "group", id: groupId },
    ...(userId === null ? [] : [{ scope: "user", id: userId } as const]),
  ] as const;
  return subjects.map((subject) => nameRecord({ ...subject, perMs: null }));
}

async function openLimitBorrower(
  context: ProcessContext,
  { node, policy, billing }: LimitDependencies,
): Promise<LimitBorrower> {
  const { installation, settings, limits, log, closers } = context;
  const { db, clock, newId } = installation;
  const { self, status } = node;
  const coordinators = await openCoordinators(context);
  const [rates] = coordinators;
  const kind = rates?.kind ?? "memory";
  const limitBorrower: LimitBorrower = new LimitBorrower({
    coordinators,
    process: self.id,
    folder: settings.folderId ?? self.id,
    timing: limits.limitBorrower,
    timers: systemTimers,
    lossRule: settings.onCoordinatorLoss,
    monotonicMs: clock.monotonicMs,
    newTerm: () => newId("term"),
    revision: () => policy.revision(),
    listNodes: () => listCoordinatedNodes(db, clock),
    readWindowsAgain: () => markWindowsUnread(db),
    flushUsage: () => billing.billingEngine.flush(),
    onStateChange(coordinator, state, reason) {
      if (state === "up") log.info("coordinator_restored", { coordinator: coordinator.kind });
      else log.warn("coordinator_lost", { coordinator: coordinator.kind, reason });
    },
    onClosed: (coordinator, missing) =>
      missing === null
        ? log.warn("minutes_closed", { coordinator: coordinator.kind })
        : log.warn("limits_closed", { coordinator: coordinator.kind, missing: missing.join(" ") }),
    publish: (contact) => status.update({ coordinator: nameCoordinator(kind, contact) }),
  });
  closers.add(() => limitBorrower.stop());
  // Earlier versions do not report their use. If only they ran, the coordinator may know windows from before them.
  const others = (await listCoordinatedNodes(db, clock)).filter(({ id }) => id !== self.id);
  if (others.every(({ isOlder }) => isOlder)) await markWindowsUnread(db);
  await limitBorrower.start();
  await status.update({ coordinator: nameCoordinator(kind, limitBorrower.contact) });
  return limitBorrower;
}

async function openCoordinators({
  installation,
  settings,
  limits,
}: ProcessContext): Promise<LimitCoordinator[]> {
  const { clock, digest, newId } = installation;
  const { redisUrl, databaseUrl, databaseListenUrl } = settings;
  const shared = {
    db: await openDb(databaseUrl, { workload: "coordination" }),
    listenUrl: databaseListenUrl,
    limits: limits.limitCoordinator,
  };
  if (redisUrl === null) return [new PostgresLimitCoordinator({ ...shared, serves: ["rates", "window"] })];
  // Installations may share a server. The braces keep all keys in one slot of a Redis cluster.
  const prefix = `model-gateway:{${digest("coordinator").slice(0, DIGEST_CHARS)}}:`;
  return [
    new RedisLimitCoordinator({
      url: redisUrl,
      prefix,
      limits: limits.limitCoordinator,
      newId: () => newId("epoch"),
      monotonicMs: clock.monotonicMs,
    }),
    new PostgresLimitCoordinator({ ...shared, serves: ["window"] }),
  ];
}

const DIGEST_CHARS = 16;
