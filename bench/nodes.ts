/**
 * What a paid request costs on PostgreSQL with one, two and three nodes, compared with one node on SQLite. CPU is
 * measured at a fixed rate that does not use up the cores. Rounds of both databases take turns.
 */

import { loadavg } from "node:os";
import { type CoordinationResults, measureCoordination } from "./coordination.ts";
import { cpuMicrosBetween, median, readCpu } from "./measure.ts";
import type { NodeLoadReport } from "./node-load.ts";
import { type Buckets, bucketsBetween, quantileMs, readBuckets } from "./node-metrics.ts";
import { type Installation, startCluster, startSqlite, stopInstallation } from "./paid-nodes.ts";
import { runNodeLoad, warmUpNodes } from "./run-node-load.ts";
import { type BenchHost, startUpstream } from "./single-measures.ts";
import type { RoundPlan } from "./warm-up.ts";

export interface NodeRun extends NodeLoadReport {
  /** CPU of all nodes, for one request. */
  readonly nodeMicros: number;
  /** CPU of all processes of PostgreSQL, for one request; null on SQLite. */
  readonly databaseMicros: number | null;
}

/** The two installations in turn. */
export interface NodeRound {
  readonly sqlite: NodeRun;
  readonly postgres: NodeRun;
}

export interface NodePhase {
  readonly nodes: number;
  /** At `RATE_PER_NODE`. */
  readonly paced: readonly NodeRound[];
  /** As many requests as the nodes serve. */
  readonly saturated: readonly NodeRound[];
  /** Of the paced rounds on PostgreSQL. */
  readonly settlementP99Ms: number;
  /** CPU of PostgreSQL in a second without requests. */
  readonly idleDatabaseMicros: number;
  /** Of the machine, at the end of the phase. */
  readonly loadAverage: number;
}

export interface NodeResults {
  readonly ratePerNode: number;
  readonly phases: readonly NodePhase[];
  readonly coordination: readonly CoordinationResults[];
}

export const RATE_PER_NODE = 1_000;
const NODE_COUNTS = [3, 2, 1] as const;
/** A round at a fixed rate has to be long compared with the delay of write-behind billing. */
const PACED_ROUND_FACTOR = 2;
/** What a round leaves to be written belongs to it. SQLite writes after a second. */
const SETTLE_MS = 1_300;
/** Rounds at full load take cores from everything else, and only illustrate the others. */
const SATURATED_EVERY = 3;
/** A checkpoint of earlier rounds falls into one of them. */
const IDLE_SAMPLES = 5;
const IDLE_MS = 1_000;
/** Nodes that remain divide the limits again. */
const LEAVE_MS = 2_000;

export async function measureNodes(place: BenchHost, plan: RoundPlan): Promise<NodeResults> {
  const { running, port } = await startUpstream(place, 0);
  const phases = await measurePhases(place, plan, port);
  const coordination: CoordinationResults[] = [];
  for (const engine of ["postgres", "redis"] as const)
    coordination.push(await measureCoordination(place, plan, { engine, upstreamPort: port }));
  await running.stop();
  return { ratePerNode: RATE_PER_NODE, phases, coordination };
}

/** Starts with all nodes and stops one after each phase, so that each node is warmed up once. */
async function measurePhases(place: BenchHost, plan: RoundPlan, upstreamPort: number): Promise<NodePhase[]> {
  const sqlite = await startSqlite(place, upstreamPort);
  const nodes = Math.max(...NODE_COUNTS);
  const postgres = await startCluster(place, { name: "paid", nodes, upstreamPort, coordinator: "postgres" });
  for (const installation of [sqlite, postgres]) await warmUpNodes(place, plan, installation);
  const phases: NodePhase[] = [];
  for (const count of NODE_COUNTS) {
    while (postgres.nodes.length > count) await postgres.nodes.pop()?.running.stop();
    await Bun.sleep(LEAVE_MS);
    phases.push(await measurePhase(place, plan, { sqlite, postgres }));
  }
  for (const installation of [postgres, sqlite]) await stopInstallation(installation);
  return phases.toReversed();
}

interface Installations {
  readonly sqlite: Installation;
  readonly postgres: Installation;
}

async function measurePhase(place: BenchHost, plan: RoundPlan, pair: Installations): Promise<NodePhase> {
  const { postgres } = pair;
  const nodes = postgres.nodes.length;
  const paced: NodeRound[] = [];
  const saturated: NodeRound[] = [];
  const settlements: Buckets[] = [];
  const idleDatabaseMicros = await measureIdle(postgres);
  for (let i = 1; i <= plan.rounds; i++) {
    const sqlite = await measureRun(place, pair.sqlite, { plan, isPaced: true });
    const before = await readBuckets(postgres, SETTLEMENT_METRIC);
    const run = await measureRun(place, postgres, { plan, isPaced: true });
    settlements.push(bucketsBetween(before, await readBuckets(postgres, SETTLEMENT_METRIC)));
    const round = { sqlite, postgres: run };
    paced.push(round);
    place.progress(`paid, nodes: ${nodes}, round ${i}/${plan.rounds}: ${formatRound(round)}`);
    if (i % SATURATED_EVERY === 0)
      saturated.push({
        sqlite: await measureRun(place, pair.sqlite, { plan, isPaced: false }),
        postgres: await measureRun(place, postgres, { plan, isPaced: false }),
      });
  }
  const settlementP99Ms = median(settlements.map((buckets) => quantileMs(buckets, 0.99)));
  const loadAverage = loadavg()[0] ?? Number.NaN;
  return { nodes, paced, saturated, settlementP99Ms, idleDatabaseMicros, loadAverage };
}

const SETTLEMENT_METRIC = "gateway_settlement_seconds";

async function measureIdle({ server }: Installation): Promise<number> {
  if (server === null) return 0;
  const samples: number[] = [];
  for (let i = 0; i < IDLE_SAMPLES; i++) {
    const before = readCpu(server.process.pid);
    await Bun.sleep(IDLE_MS);
    samples.push((cpuMicrosBetween(before, readCpu(server.process.pid)) * 1_000) / IDLE_MS);
  }
  return median(samples);
}

async function measureRun(
  place: BenchHost,
  { nodes, server }: Installation,
  { plan, isPaced }: { plan: RoundPlan; isPaced: boolean },
): Promise<NodeRun> {
  const pids = nodes.map(({ running }) => running.pid);
  const before = pids.map(readCpu);
  const serverBefore = server === null ? null : readCpu(server.process.pid);
  const report = await runNodeLoad(place, {
    urls: nodes.map(({ url }) => url),
    durationMs: isPaced ? plan.roundMs * PACED_ROUND_FACTOR : plan.roundMs,
    requestsPerSecond: isPaced ? RATE_PER_NODE * nodes.length : null,
  });
  await Bun.sleep(SETTLE_MS);
  const micros = pids.map((pid, i) => {
    const first = before[i];
    return first === undefined ? 0 : cpuMicrosBetween(first, readCpu(pid));
  });
  const nodeMicros = micros.reduce((sum, used) => sum + used, 0) / report.requests;
  const databaseMicros =
    server === null || serverBefore === null
      ? null
      : cpuMicrosBetween(serverBefore, readCpu(server.process.pid)) / report.requests;
  return { ...report, nodeMicros, databaseMicros };
}

function formatRound({ sqlite, postgres }: NodeRound): string {
  const database = postgres.databaseMicros?.toFixed(0);
  return `SQLite ${sqlite.nodeMicros.toFixed(0)} µs, PostgreSQL ${postgres.nodeMicros.toFixed(0)} + ${database} µs`;
}

export function findPhase({ phases }: NodeResults, nodes: number): NodePhase | undefined {
  return phases.find((phase) => phase.nodes === nodes);
}

/** Ratios are taken within a round, since machines are noisy between them. */
export function nodeCpuRatio({ paced }: NodePhase): number {
  return median(paced.map(({ sqlite, postgres }) => postgres.nodeMicros / sqlite.nodeMicros));
}

/** How many requests a second these nodes serve, each with a core of its own. */
export interface ComputedCapacity {
  readonly requestsPerSecond: number;
  /** In use by PostgreSQL. */
  readonly databaseCores: number;
}

export type RoundKind = "paced" | "saturated";

/**
 * From CPU per request, not measured: no request waits for another, and PostgreSQL has the cores that it needs. CPU is
 * taken relative to SQLite in the same round, because phases are minutes apart.
 */
export function computeCapacity(
  { phases }: Pick<NodeResults, "phases">,
  phase: NodePhase,
  kind: RoundKind,
): ComputedCapacity {
  const baseMicros = median(phases.flatMap((each) => each[kind].map(({ sqlite }) => sqlite.nodeMicros)));
  const relative = (pick: (run: NodeRun) => number) =>
    median(phase[kind].map(({ sqlite, postgres }) => pick(postgres) / sqlite.nodeMicros));
  const nodeMicros = baseMicros * relative((run) => run.nodeMicros);
  const databaseMicros = baseMicros * relative((run) => run.databaseMicros ?? 0);
  const requestsPerSecond = (phase.nodes * 1e6) / nodeMicros;
  return { requestsPerSecond, databaseCores: (requestsPerSecond * databaseMicros) / 1e6 };
}
