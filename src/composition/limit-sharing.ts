/** Divides the limits over the nodes that share a database. */

import type { WindowSeeds } from "../gateway/admission/seed-windows.ts";
import type { Coordinator } from "../limits/sharing/coordinator.ts";
import { LimitSharing } from "../limits/sharing/limit-sharing.ts";
import { ShareAllocator } from "../limits/sharing/share-allocator.ts";
import { systemTimers } from "../limits/sharing/timers.ts";
import type { SubjectRegistry } from "../limits/subject-registry.ts";
import type { SubjectState } from "../limits/subject-state.ts";
import type { OwnUse } from "../nodes/own-use.ts";
import { PostgresCoordinator } from "../nodes/postgres-coordinator.ts";
import { RedisCoordinator } from "../nodes/redis-coordinator.ts";
import { openDb } from "../store/engine/db.ts";
import { isSharedServer } from "../store/engine/dialect.ts";
import { listNodeIds } from "../store/nodes/account-facts.ts";
import type { ProcessContext } from "./process-context.ts";
import type { ThisNode } from "./this-node.ts";

export interface SharedLimits {
  readonly sharing: LimitSharing;
  /** From now on, called when this node may use more of a limit. */
  observeGains(onGain: (state: SubjectState) => void): void;
}

async function openCoordinator({ installation, settings }: ProcessContext): Promise<Coordinator> {
  const { clock, digest, newId } = installation;
  const newToken = () => newId("doc");
  if (settings.redisUrl === null)
    return new PostgresCoordinator(
      await openDb(settings.databaseUrl, { workload: "coordination" }),
      newToken,
    );
  // Installations may share a server. The braces keep the key in one slot of a Redis cluster.
  const key = `model-gateway:{${digest("coordinator").slice(0, DIGEST_CHARS)}}:limits`;
  return new RedisCoordinator({ url: settings.redisUrl, key, newToken, monotonicMs: clock.monotonicMs });
}

const DIGEST_CHARS = 16;

export interface SharedLimitServices {
  readonly subjects: SubjectRegistry;
  readonly seeds: WindowSeeds;
  /** Null if the database has one node. */
  readonly ownUse: OwnUse | null;
}

/** Null if the database has one node. Resolves when the other nodes know this one. */
export async function openLimitSharing(
  context: ProcessContext,
  { self, status }: Pick<ThisNode, "self" | "status">,
  { subjects, seeds, ownUse }: SharedLimitServices,
): Promise<SharedLimits | null> {
  const { installation, settings, limits, log, closers } = context;
  const { db, clock, newId } = installation;
  if (!isSharedServer(db) || ownUse === null) return null;
  const coordinator = await openCoordinator(context);
  let onGain: (state: SubjectState) => void = () => {};
  const allocator = new ShareAllocator({
    node: self.id,
    subjects,
    monotonicMs: clock.monotonicMs,
    onGain: (state) => onGain(state),
  });
  subjects.shares = allocator;
  const sharing = new LimitSharing({
    node: self.id,
    coordinator,
    allocator,
    history: { publish: () => ownUse.publish(), learn: (members) => seeds.seed(members) },
    clock,
    timers: systemTimers,
    timing: limits.limitSharing,
    lossRule: settings.onCoordinatorLoss,
    newEpoch: () => newId("epoch"),
    random: Math.random,
    listNodes: () => listNodeIds(db),
    onStateChange(state, reason) {
      if (state === "up") log.info("coordinator_restored", { coordinator: coordinator.kind });
      else log.warn("coordinator_lost", { coordinator: coordinator.kind, reason });
      void status.update({ coordinator: state === "up" ? coordinator.kind : `${coordinator.kind}_lost` });
    },
  });
  closers.add(() => sharing.stop());
  await sharing.start();
  await status.update({ coordinator: coordinator.kind });
  return {
    sharing,
    observeGains(observer) {
      onGain = observer;
    },
  };
}
