/** `model-gateway nodes`: lists the running nodes of the installation. */

import { findCondition, listNodes, type NodeCondition, type NodeRecord } from "../store/nodes/nodes.ts";
import { type CommandDefinition, DATA_OPTION, JSON_OPTION } from "./command.ts";
import { printList } from "./output.ts";
import { withInstallation } from "./store-access.ts";
import type { Paint } from "./terminal.ts";

export const listAllNodes: CommandDefinition = {
  changes: "nothing",
  about: `A node is listed from its start to its end. One that was killed is "silent" until another node removes it,
which takes about a minute.`,
  options: { json: JSON_OPTION, data: DATA_OPTION },
  run: (input) =>
    withInstallation(input, async ({ db, clock }) => {
      const nodes = await listNodes(db, clock);
      printList(input, {
        json: nodes.map(nodeObject),
        header: ["NODE", "STATE", "VERSION", "SCHEMA", "STARTED", "HEARTBEAT", "CLOCK", "LIMITS", "JOBS"],
        rows: nodes.map((node) => buildRow(node, input.terminal.paint)),
        empty: "No node runs. To start one: npx model-gateway start",
      });
    }),
};

function nodeObject(node: NodeRecord) {
  return {
    id: node.id,
    address: node.address,
    host: node.hostName,
    pid: node.pid,
    state: findCondition(node),
    version: node.version,
    schema: node.schemaKnown,
    started: new Date(node.startedAtMs).toISOString(),
    since_heartbeat_ms: node.sinceHeartbeatMs,
    clock_skew_ms: node.clockSkewMs,
    coordinator: node.coordinator,
    jobs: node.jobs,
  };
}

function buildRow(node: NodeRecord, paint: Paint): string[] {
  const condition = findCondition(node);
  const colour: Record<NodeCondition, (text: string) => string> = {
    ready: paint.green,
    starting: paint.yellow,
    draining: paint.yellow,
    silent: paint.red,
    unknown: paint.dim,
  };
  return [
    node.address ?? `${node.hostName} (pid ${node.pid})`,
    colour[condition](condition),
    node.version ?? "-",
    node.schemaKnown === null ? "-" : String(node.schemaKnown),
    new Date(node.startedAtMs).toISOString().slice(0, 16).replace("T", " "),
    `${Math.round(node.sinceHeartbeatMs / 1_000)}s ago`,
    node.clockSkewMs === null ? "-" : `${node.clockSkewMs >= 0 ? "+" : ""}${node.clockSkewMs} ms`,
    node.coordinator ?? "-",
    node.jobs.join(", ") || "-",
  ];
}
