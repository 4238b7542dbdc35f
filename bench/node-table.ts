/** The figures of several nodes as text, with what this machine can and cannot show. */

import { availableParallelism } from "node:os";
import type { CoordinationRun } from "./coordination.ts";
import { median } from "./measure.ts";
import {
  computeCapacity,
  type NodePhase,
  type NodeResults,
  type NodeRun,
  nodeCpuRatio,
  type RoundKind,
} from "./nodes.ts";
import { fixed, NONE, table } from "./text-table.ts";

export function nodeText(results: NodeResults): string {
  return [phaseTable(results), conditions(results), capacityTable(results), coordinationTable(results)].join(
    "\n\n",
  );
}

const over = (runs: readonly NodeRun[], pick: (run: NodeRun) => number | null) =>
  median(runs.map(pick).filter((value) => value !== null));

function phaseTable({ phases, ratePerNode }: NodeResults): string {
  const rows = phases.flatMap((phase) => {
    const names = ["sqlite", "postgres"] as const;
    return names.map((name) => buildRow(phase, name));
  });
  const header = [
    `paid, 1 KB, ${ratePerNode}/s and node`,
    "",
    "node CPU µs",
    "PostgreSQL µs",
    "p50 ms",
    "p99 ms",
    "settle p99 ms",
    "at most req/s",
  ];
  return table(header, rows);
}

function buildRow(phase: NodePhase, name: "sqlite" | "postgres"): string[] {
  const isPostgres = name === "postgres";
  const paced = phase.paced.map((round) => round[name]);
  const saturated = phase.saturated.map((round) => round[name]);
  return [
    isPostgres ? "" : `phase of ${phase.nodes}`,
    isPostgres ? `PostgreSQL, ${phase.nodes} ${phase.nodes === 1 ? "node" : "nodes"}` : "SQLite, 1 node",
    fixed(
      over(paced, ({ nodeMicros }) => nodeMicros),
      1,
    ),
    isPostgres
      ? fixed(
          over(paced, ({ databaseMicros }) => databaseMicros),
          1,
        )
      : NONE,
    fixed(
      over(paced, ({ p50Ms }) => p50Ms),
      2,
    ),
    fixed(
      over(paced, ({ p99Ms }) => p99Ms),
      2,
    ),
    isPostgres ? `≤ ${fixed(phase.settlementP99Ms, 2)}` : NONE,
    fixed(
      over(saturated, ({ requestsPerSecond }) => requestsPerSecond),
      0,
    ),
  ];
}

function conditions({ phases, ratePerNode }: NodeResults): string {
  const ratios = phases.map((phase) => `${phase.nodes}: ${fixed(nodeCpuRatio(phase), 2)}×`).join(", ");
  const reached = phases.map((phase) => {
    const perNode =
      over(
        phase.paced.map(({ postgres }) => postgres),
        ({ requestsPerSecond }) => requestsPerSecond,
      ) / phase.nodes;
    return `${phase.nodes}: ${fixed(perNode, 0)}/s`;
  });
  const idle = phases.map(
    ({ nodes, idleDatabaseMicros }) => `${nodes}: ${fixed(idleDatabaseMicros / 1_000, 1)} ms`,
  );
  const loads = phases.map(({ nodes, loadAverage }) => `${nodes}: ${fixed(loadAverage, 1)}`);
  return [
    `CPU of a node on PostgreSQL against SQLite, median of rounds, by nodes: ${ratios}`,
    `Rate reached for each node, by nodes (wanted: ${ratePerNode}/s): ${reached.join(", ")}`,
    `CPU of PostgreSQL in a second without requests, by nodes: ${idle.join(", ")}`,
    `Load average of the machine, by nodes: ${loads.join(", ")}`,
    `All nodes share one of ${availableParallelism()} cores; PostgreSQL, upstream and load generator share another. So the`,
    "last column shows what one core serves, not how nodes scale. Scaling is computed:",
  ].join("\n");
}

function capacityTable(results: NodeResults): string {
  const { phases, ratePerNode } = results;
  const cells = (phase: NodePhase, kind: RoundKind) => {
    const { requestsPerSecond, databaseCores } = computeCapacity(results, phase, kind);
    return [fixed(requestsPerSecond, 0), fixed(databaseCores, 2)];
  };
  const rows = phases.map((phase) => [
    String(phase.nodes),
    "computed",
    ...cells(phase, "paced"),
    ...cells(phase, "saturated"),
  ]);
  const header = [
    "nodes, a core each",
    "",
    `req/s by CPU at ${ratePerNode}/s`,
    "PostgreSQL cores",
    "req/s by CPU at full load",
    "PostgreSQL cores",
  ];
  return table(header, rows);
}

function coordinationTable({ coordination }: NodeResults): string {
  const row = (run: CoordinationRun) => [
    fixed(run.callsPerSecondAndNode, 1),
    `${run.waited} of ${run.requests}`,
    fixed(run.waitP50Ms, 2),
    fixed(run.waitP99Ms, 2),
  ];
  const rows = coordination.flatMap(({ engine, even, oneSided, roundTripMs, addedP50Ms, addedP99Ms }) => [
    [engine, "even load", ...row(even), fixed(roundTripMs, 2), fixed(addedP50Ms, 3), fixed(addedP99Ms, 2)],
    ["", "each key on one node", ...row(oneSided), NONE, NONE, NONE],
  ]);
  const header = [
    "limits over 3 nodes",
    "",
    "calls/s and node",
    "requests that waited",
    "wait p50 ms",
    "p99 ms",
    "round trip ms",
    "added p50 ms",
    "added p99 ms",
  ];
  const note =
    "Waits are counted by the nodes. Added latency is that of keys with limits minus that of keys without: noise on a\n" +
    "busy machine.";
  return `${table(header, rows)}\n${note}`;
}
