/** The alert conditions of the installation itself: its nodes, their coordinator and clocks, and its database. */

import type { AlertDetails, AlertRule } from "../store/alerts/alerts.ts";
import { findCondition, hasClosedLimits, hasWrongClock, type NodeRecord } from "../store/nodes/nodes.ts";
import type { AlertCondition, AlertView } from "./alert-view.ts";

/** A rule that is checked for each node. All nodes read the same list, so its alerts are posted once. */
interface NodeRule {
  readonly rule: AlertRule;
  applies(node: NodeRecord, view: AlertView): boolean;
  describe(node: NodeRecord): string;
  details(node: NodeRecord): AlertDetails;
}

/** What a silent node published last may be out of date. */
const isCurrent = (node: NodeRecord) => findCondition(node) !== "silent";

const NODE_RULES: readonly NodeRule[] = [
  {
    rule: "node_silent",
    applies: ({ sinceHeartbeatMs }, { nodeSilentMs }) => sinceHeartbeatMs >= nodeSilentMs,
    describe: ({ sinceHeartbeatMs }) =>
      `has sent no heartbeat for ${toSeconds(sinceHeartbeatMs)} s. If it does not return, other nodes settle its requests and remove it after about a minute. Check the machine, the process and its connection to the database.`,
    details: ({ sinceHeartbeatMs }) => ({ seconds: toSeconds(sinceHeartbeatMs) }),
  },
  {
    rule: "coordinator_lost",
    applies: (node, { uncoordinatedNodeIds }) => isCurrent(node) && uncoordinatedNodeIds.has(node.id),
    describe: () =>
      "cannot reach the coordinator of limits. If another node reaches it, this one rejects requests with limits; otherwise on_coordinator_loss decides. Check Redis or PostgreSQL and its network; the log line coordinator_lost has the reason.",
    details: ({ coordinator }) => ({ coordinator: coordinator ?? "" }),
  },
  {
    rule: "limits_closed",
    applies: (node) => isCurrent(node) && hasClosedLimits(node),
    describe: () =>
      "rejects requests with limits: the coordinator has lost its state, and a registered node has not declared what it holds. The log line limits_closed names the processes that are missing. Stop them, or restore their connection to the coordinator.",
    details: ({ coordinator }) => ({ coordinator: coordinator ?? "" }),
  },
  {
    rule: "clock_skew",
    applies: (node) => isCurrent(node) && hasWrongClock(node),
    describe: ({ clockSkewMs }) =>
      `has a clock that is ${((clockSkewMs ?? 0) / 1_000).toFixed(1)} s off the clock of the database. Synchronize the clocks of all machines (NTP).`,
    details: ({ clockSkewMs }) => ({ skew_ms: clockSkewMs ?? 0 }),
  },
];

/** Always enabled: each of these makes the installation less exact or less available. */
export function findNodeConditions(view: AlertView): AlertCondition[] {
  const { nodes, nowMs, storeReplacedAtMs, failoverMs } = view;
  const found: AlertCondition[] = [];
  for (const node of nodes ?? []) {
    const name = node.address ?? `${node.hostName} (pid ${node.pid})`;
    for (const { rule, applies, describe, details } of NODE_RULES) {
      if (!applies(node, view)) continue;
      const message = `Node ${name} ${describe(node)}`;
      const all = { node_id: node.id, node: name, ...details(node) };
      found.push({ rule, subject: node.id, seenBy: "all", message, details: all });
    }
  }
  if (storeReplacedAtMs !== null && nowMs - storeReplacedAtMs < failoverMs) {
    found.push({
      rule: "database_failover",
      subject: "",
      seenBy: "all",
      message:
        "The database was replaced: a standby was promoted, or a backup was restored. Requests of the last seconds are booked again. Run model-gateway audit, and check that the former server cannot accept writes.",
      details: { at: storeReplacedAtMs },
    });
  }
  return found;
}

function toSeconds(ms: number): number {
  return Math.round(ms / 1_000);
}
