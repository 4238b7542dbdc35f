/**
 * The alert conditions of the installation itself: its nodes, their coordinator and clocks, and its database. Each
 * makes it less exact or less available.
 */

import type { AlertDetails } from "../store/alerts/alerts.ts";
import { findCondition, hasClosedLimits, hasWrongClock, type NodeRecord } from "../store/nodes/nodes.ts";
import type { AlertView } from "./alert-view.ts";
import type { Condition } from "./condition.ts";

interface NodeRule {
  applies(node: NodeRecord, view: AlertView): boolean;
  describe(node: NodeRecord): string;
  details(node: NodeRecord): AlertDetails;
}

/** A rule that is checked for each node. All nodes read the same list, so its alerts are posted once. */
function nodeCondition({ applies, describe, details }: NodeRule): Condition<unknown> {
  return {
    seenBy: "all",
    find: (view) =>
      (view.nodes ?? [])
        .filter((node) => applies(node, view))
        .map((node) => {
          const name = node.address ?? `${node.hostName} (pid ${node.pid})`;
          return {
            subject: node.id,
            message: `Node ${name} ${describe(node)}`,
            details: { node_id: node.id, node: name, ...details(node) },
          };
        }),
    isOver: (_, { nodes }) => nodes !== null,
  };
}

/** What a silent node published last may be out of date. */
const isCurrent = (node: NodeRecord) => findCondition(node) !== "silent";

export const NODE_SILENT = nodeCondition({
  applies: ({ sinceHeartbeatMs }, { nodeSilentMs }) => sinceHeartbeatMs >= nodeSilentMs,
  describe: ({ sinceHeartbeatMs }) =>
    `has sent no heartbeat for ${toSeconds(sinceHeartbeatMs)} s. If it does not return, other nodes settle its requests and remove it after about a minute. Check the machine, the process and its connection to the database.`,
  details: ({ sinceHeartbeatMs }) => ({ seconds: toSeconds(sinceHeartbeatMs) }),
});

export const COORDINATOR_LOST = nodeCondition({
  applies: (node, { uncoordinatedNodeIds }) => isCurrent(node) && uncoordinatedNodeIds.has(node.id),
  describe: () =>
    "cannot reach the coordinator of limits. If another node reaches it, this one rejects requests with limits; otherwise on_coordinator_loss decides. Check Redis or PostgreSQL and its network; the log line coordinator_lost has the reason.",
  details: ({ coordinator }) => ({ coordinator: coordinator ?? "" }),
});

export const LIMITS_CLOSED = nodeCondition({
  applies: (node) => isCurrent(node) && hasClosedLimits(node),
  describe: () =>
    "rejects requests with limits: the coordinator has lost its state, and a registered node has not declared what it holds. The log line limits_closed names the processes that are missing. Stop them, or restore their connection to the coordinator.",
  details: ({ coordinator }) => ({ coordinator: coordinator ?? "" }),
});

export const CLOCK_SKEW = nodeCondition({
  applies: (node) => isCurrent(node) && hasWrongClock(node),
  describe: ({ clockSkewMs }) =>
    `has a clock that is ${((clockSkewMs ?? 0) / 1_000).toFixed(1)} s off the clock of the database. Synchronize the clocks of all machines (NTP).`,
  details: ({ clockSkewMs }) => ({ skew_ms: clockSkewMs ?? 0 }),
});

export const DATABASE_FAILOVER: Condition<unknown> = {
  seenBy: "all",
  find: ({ storeReplacedAtMs, nowMs, failoverMs }) =>
    storeReplacedAtMs === null || nowMs - storeReplacedAtMs >= failoverMs
      ? []
      : [
          {
            subject: "",
            message:
              "The database was replaced: a standby was promoted, or a backup was restored. Requests of the last seconds are booked again. Run model-gateway audit, and check that the former server cannot accept writes.",
            details: { at: storeReplacedAtMs },
          },
        ],
  // A process that started later has not noticed it.
  isOver: ({ startedAtMs }, { nowMs, failoverMs }) => nowMs - startedAtMs >= failoverMs,
};

function toSeconds(ms: number): number {
  return Math.round(ms / 1_000);
}
