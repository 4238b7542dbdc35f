/**
 * What the division of limits over three nodes costs: commands to the coordinator, and waits of requests. Both are
 * counted by the servers and the nodes, so a busy machine does not change them.
 */

import { RedisClient, SQL } from "bun";
import { median } from "./measure.ts";
import type { NodeLoad } from "./node-load.ts";
import { bucketsBetween, countValues, quantileMs, readBuckets } from "./node-metrics.ts";
import { type Installation, type KeyKind, listKeys, startCluster, stopInstallation } from "./paid-nodes.ts";
import { runNodeLoad, warmUpNodes } from "./run-node-load.ts";
import type { BenchHost } from "./single-measures.ts";
import type { RoundPlan } from "./warm-up.ts";

export interface CoordinationRun {
  /** Commands to the coordinator. */
  readonly callsPerSecondAndNode: number;
  readonly requests: number;
  /** Requests that waited for other nodes. */
  readonly waited: number;
  /** Over all requests. Those that did not wait count as 0. */
  readonly waitP50Ms: number;
  readonly waitP99Ms: number;
}

export interface CoordinationResults {
  readonly engine: "postgres" | "redis";
  readonly roundTripMs: number;
  /** All nodes serve all keys, and shares suffice. */
  readonly even: CoordinationRun;
  /** Each key reaches one node and needs more than the share of that node. */
  readonly oneSided: CoordinationRun;
  /** Latency of keys with limits minus that of keys without, medians of rounds. */
  readonly addedP50Ms: number;
  readonly addedP99Ms: number;
}

const NODES = 3;
/** Of all nodes together. */
const RATE = 1_000;
const EVEN_MS = 10_000;
/** Within this time a key uses up the share of its node, and other nodes give parts of theirs. */
const MOVE_MS = 45_000;
/** After that, uses leave the minute as fast as new ones arrive. */
const STEADY_MS = 30_000;
const ROUND_TRIPS = 300;
const WAIT_METRIC = "gateway_limit_share_wait_seconds";

export async function measureCoordination(
  place: BenchHost,
  plan: RoundPlan,
  { engine, upstreamPort }: { engine: CoordinationResults["engine"]; upstreamPort: number },
): Promise<CoordinationResults> {
  const name = `limits-${engine}`;
  const cluster = await startCluster(place, { name, nodes: NODES, upstreamPort, coordinator: engine });
  const server = openServer(cluster);
  try {
    // Counts do not depend on compiled code.
    const { atLeastMs } = plan.warmUp;
    await warmUpNodes(place, { warmUp: { atLeastMs, atMostMs: atLeastMs } }, cluster);
    const roundTripMs = await server.measureRoundTrip();
    const added = await measureAdded(place, plan, cluster);
    const even = await measureCommands(place, { cluster, server }, { kind: "limited", durationMs: EVEN_MS });
    const oneSidedLoad = { kind: "tight", keyReaches: "one node" } as const;
    // The first part moves the shares: its requests may wait, and count as well.
    const moving = await measureCommands(
      place,
      { cluster, server },
      { ...oneSidedLoad, durationMs: MOVE_MS },
    );
    const steady = await measureCommands(
      place,
      { cluster, server },
      { ...oneSidedLoad, durationMs: STEADY_MS },
    );
    const oneSided = worse(moving, steady);
    place.progress(
      `limits divided through ${engine}: ${format(even)} evenly, ${format(oneSided)} on one side`,
    );
    return { engine, roundTripMs, even, oneSided, ...added };
  } finally {
    await server.close();
    await stopInstallation(cluster);
  }
}

function worse(a: CoordinationRun, b: CoordinationRun): CoordinationRun {
  return {
    callsPerSecondAndNode: Math.max(a.callsPerSecondAndNode, b.callsPerSecondAndNode),
    requests: a.requests + b.requests,
    waited: a.waited + b.waited,
    waitP50Ms: Math.max(a.waitP50Ms, b.waitP50Ms),
    waitP99Ms: Math.max(a.waitP99Ms, b.waitP99Ms),
  };
}

function format({ callsPerSecondAndNode, waited, requests }: CoordinationRun): string {
  return `${callsPerSecondAndNode.toFixed(1)} calls/s and node, ${waited} of ${requests} requests waited`;
}

interface CommandLoad extends Partial<Pick<NodeLoad, "keyReaches">> {
  readonly kind: KeyKind;
  readonly durationMs: number;
}

async function measureCommands(
  place: BenchHost,
  { cluster, server }: { cluster: Installation; server: CoordinatorServer },
  { kind, durationMs, keyReaches = "all nodes" }: CommandLoad,
): Promise<CoordinationRun> {
  const bucketsBefore = await readBuckets(cluster, WAIT_METRIC);
  const callsBefore = await server.countCalls();
  const startedMs = performance.now();
  const { requests } = await runNodeLoad(place, {
    urls: cluster.nodes.map(({ url }) => url),
    keys: listKeys(kind),
    requestsPerSecond: RATE,
    durationMs,
    keyReaches,
  });
  const calls = (await server.countCalls()) - callsBefore;
  const tookMs = performance.now() - startedMs;
  const waits = bucketsBetween(bucketsBefore, await readBuckets(cluster, WAIT_METRIC));
  return {
    callsPerSecondAndNode: (calls * 1_000) / tookMs / cluster.nodes.length,
    requests,
    waited: countValues(waits),
    waitP50Ms: quantileMs(waits, 0.5, requests),
    waitP99Ms: quantileMs(waits, 0.99, requests),
  };
}

/** Keys with and without limits take turns. */
async function measureAdded(
  place: BenchHost,
  { rounds, roundMs }: RoundPlan,
  { nodes }: Installation,
): Promise<Pick<CoordinationResults, "addedP50Ms" | "addedP99Ms">> {
  const urls = nodes.map(({ url }) => url);
  const run = (kind: KeyKind) =>
    runNodeLoad(place, { urls, keys: listKeys(kind), requestsPerSecond: RATE, durationMs: roundMs });
  const p50: number[] = [];
  const p99: number[] = [];
  for (let i = 0; i < rounds; i++) {
    const [unlimited, limited] = [await run("unlimited"), await run("limited")];
    p50.push(limited.p50Ms - unlimited.p50Ms);
    p99.push(limited.p99Ms - unlimited.p99Ms);
  }
  return { addedP50Ms: median(p50), addedP99Ms: median(p99) };
}

interface CoordinatorServer {
  /** All commands of the nodes so far. */
  countCalls(): Promise<number>;
  measureRoundTrip(): Promise<number>;
  close(): Promise<void>;
}

function openServer({ server, redis }: Installation): CoordinatorServer {
  if (redis !== null) return openRedis(redis.url);
  if (server === null) throw new Error("SQLite has no coordinator");
  return openPostgres(server.url);
}

/** Each call of a node updates the row of its term once. The server publishes its counts within a second. */
function openPostgres(url: string): CoordinatorServer {
  const sql = new SQL({ adapter: "postgres", url, max: 1 });
  return {
    async countCalls() {
      await Bun.sleep(STATISTICS_DELAY_MS);
      const [row] = await sql.unsafe(
        "SELECT n_tup_upd AS calls FROM pg_stat_user_tables WHERE relname = 'limit_term'",
      );
      return Number(row?.calls);
    },
    measureRoundTrip: () => measureRoundTrip(() => sql.unsafe("SELECT 1")),
    close: () => sql.close(),
  };
}

const STATISTICS_DELAY_MS = 1_100;

function openRedis(url: string): CoordinatorServer {
  const client = new RedisClient(url);
  return {
    async countCalls() {
      const text: unknown = await client.send("INFO", ["commandstats"]);
      return Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(String(text))?.[1] ?? 0);
    },
    measureRoundTrip: () => measureRoundTrip(() => client.send("PING", [])),
    async close() {
      client.close();
    },
  };
}

async function measureRoundTrip(command: () => Promise<unknown>): Promise<number> {
  const tookMs: number[] = [];
  for (let i = 0; i < ROUND_TRIPS; i++) {
    const startedMs = performance.now();
    await command();
    tookMs.push(performance.now() - startedMs);
  }
  return median(tookMs);
}
