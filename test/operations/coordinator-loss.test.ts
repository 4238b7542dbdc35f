/**
 * What `server.on_coordinator_loss` does to the requests of two running gateways while Redis does not respond, and how
 * nodes end that have lost their coordinator.
 */

import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import type { GatewayProcess } from "../support/gateway-process.ts";
import {
  LimitCluster,
  type LimitedSubject,
  type SubjectKind,
  sendLimited,
} from "../support/limit-cluster.ts";
import { startPostgres } from "../support/postgres.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";

setDefaultTimeout(120_000);

const RPM = 8;
const WITHIN_MS = 40_000;
/** A service manager kills a process that takes longer (`TimeoutStopSec`, `terminationGracePeriodSeconds`). */
const ENDS_WITHIN_MS = 30_000;

let closers: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const close of closers.reverse()) await close();
  closers = [];
});

interface Setup {
  readonly redis: TestRedis;
  readonly nodes: readonly GatewayProcess[];
  subject(kind: SubjectKind): LimitedSubject;
  addNode(): Promise<GatewayProcess>;
}

async function startNodes(rule: "share" | "closed" | "open"): Promise<Setup> {
  const redis = await startRedis();
  closers.push(redis.stop);
  const { url, stop } = await startPostgres();
  closers.push(stop);
  const cluster = await LimitCluster.start({
    nodes: 2,
    rpm: RPM,
    concurrency: RPM,
    responseMs: 1,
    databaseUrl: url,
    env: { REDIS_URL: redis.url, ON_COORDINATOR_LOSS: rule },
  });
  closers.push(() => cluster.stop());
  return {
    redis,
    nodes: cluster.nodes.flatMap(({ process }) => process ?? []),
    subject(kind) {
      const found = cluster.subjects.find((subject) => subject.kind === kind);
      if (found === undefined) throw new Error(`there is no subject ${kind}`);
      return found;
    },
    async addNode() {
      const { process } = await cluster.addNode();
      if (process === null) throw new Error("the node does not run");
      return process;
    },
  };
}

function waitForLog(nodes: readonly GatewayProcess[], event: string): Promise<true> {
  return eventually(() => nodes.every((node) => node.output().includes(`"${event}"`)), WITHIN_MS);
}

async function sendMany(node: GatewayProcess, subject: LimitedSubject, count: number): Promise<number[]> {
  const statuses: number[] = [];
  for (let sent = 0; sent < count; sent += 1) {
    const response = await sendLimited(node, subject);
    await response.text();
    statuses.push(response.status);
  }
  return statuses;
}

const countServed = (statuses: readonly number[]) => statuses.filter((status) => status === 200).length;

test("closed: requests with limits are rejected until the coordinator answers, others are served", async () => {
  const { redis, nodes, subject } = await startNodes("closed");
  redis.freeze();
  await waitForLog(nodes, "coordinator_lost");
  for (const node of nodes) {
    for (const kind of ["key", "group", "user"] as const) {
      const response = await sendLimited(node, subject(kind));
      expect([kind, response.status, response.headers.get("retry-after")]).toEqual([kind, 503, "5"]);
      expect(await response.json()).toMatchObject({ error: { code: "store_unavailable" } });
    }
    // The limits of an account are the gateway's own. Each node keeps its share of them.
    expect(await sendMany(node, subject("account"), 1)).toEqual([200]);
  }
  redis.thaw();
  await waitForLog(nodes, "coordinator_restored");
  for (const node of nodes) expect(await sendMany(node, subject("key"), 1)).toEqual([200]);
  expect(subject("key").countArrivals()).toBe(2);
});

test("open: each node serves the whole limit until the coordinator answers, and then the rest of it", async () => {
  const { redis, nodes, subject } = await startNodes("open");
  const key = subject("key");
  redis.freeze();
  await waitForLog(nodes, "coordinator_lost");
  for (const node of nodes) expect(countServed(await sendMany(node, key, RPM + 2))).toBe(RPM);
  redis.thaw();
  await waitForLog(nodes, "coordinator_restored");
  // Twice the limit is used, so that nothing is left within this minute.
  for (const node of nodes) expect(await sendMany(node, key, 2)).toEqual([429, 429]);
  // A subject that was not used meanwhile has its limit, once.
  const group = subject("group");
  const served = await Promise.all(nodes.map((node) => sendMany(node, group, RPM)));
  expect(countServed(served.flat())).toBeLessThanOrEqual(RPM);
  expect(countServed(served.flat())).toBeGreaterThanOrEqual(RPM - 2);
});

test("share: the nodes serve the limit once, each its share", async () => {
  const { redis, nodes, subject } = await startNodes("share");
  redis.freeze();
  await waitForLog(nodes, "coordinator_lost");
  for (const kind of ["key", "group", "user", "account"] as const) {
    for (const node of nodes) expect(countServed(await sendMany(node, subject(kind), RPM))).toBe(RPM / 2);
  }
});

test("a node that starts without the coordinator is not ready, and rejects requests with limits until it answers", async () => {
  const { redis, nodes, subject, addNode } = await startNodes("share");
  redis.freeze();
  await waitForLog(nodes, "coordinator_lost");
  const node = await addNode();
  const readiness = () => fetch(`${node.url}/readyz`).then(({ status }) => status);
  expect(await readiness()).toBe(503);
  expect(await sendMany(node, subject("key"), 1)).toEqual([503]);
  redis.thaw();
  await eventually(() => readiness(), { equals: 200, withinMs: WITHIN_MS });
  // The others return to Redis within seconds, and give a part of their shares then.
  await eventually(async () => countServed(await sendMany(node, subject("key"), 1)), {
    equals: 1,
    withinMs: WITHIN_MS,
  });
});

/** The exit codes of nodes that are asked to stop at the same time. */
async function endNodes(nodes: readonly GatewayProcess[]): Promise<(number | "still runs")[]> {
  for (const node of nodes) node.signal("SIGTERM");
  const late = Bun.sleep(ENDS_WITHIN_MS).then(() => "still runs" as const);
  return Promise.all(nodes.map(({ exited }) => Promise.race([exited, late])));
}

test("nodes that are stopped while Redis does not respond end", async () => {
  const { redis, nodes, subject } = await startNodes("share");
  for (const node of nodes) expect(await sendMany(node, subject("key"), 1)).toEqual([200]);
  redis.freeze();
  await waitForLog(nodes, "coordinator_lost");
  expect(await endNodes(nodes)).toEqual([0, 0]);
});

test("nodes that are stopped while PostgreSQL is away end", async () => {
  const server = await PostgresServer.create();
  closers.push(() => server.remove());
  await server.run("CREATE DATABASE gateway");
  const cluster = await LimitCluster.start({
    nodes: 2,
    rpm: RPM,
    concurrency: RPM,
    responseMs: 1,
    subjects: ["key"],
    databaseUrl: server.url("gateway"),
    env: { DRAIN_DELAY: "0s" },
  });
  closers.push(() => cluster.stop());
  const nodes = cluster.nodes.flatMap(({ process }) => process ?? []);
  const [key] = cluster.subjects;
  if (key === undefined) throw new Error("there is no subject");
  for (const node of nodes) expect(await sendMany(node, key, 1)).toEqual([200]);
  await server.stop("immediate");
  await waitForLog(nodes, "coordinator_lost");
  expect(await endNodes(nodes)).toEqual([0, 0]);
});
