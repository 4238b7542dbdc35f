/**
 * What the coordinator of limits costs on PostgreSQL and on Redis: calls a second and CPU time of the server for each
 * call, with one subject and with fifty. Each call reports use, returns a slot and asks again. Then requests for random
 * subjects at a fixed rate: a node has one call in flight, and what arrives meanwhile goes into the next.
 * `bun bench/limit-coordinator-cost.ts [seconds of each]`
 */

import { readFileSync } from "node:fs";
import { RedisClient } from "bun";
import { nodeLimits } from "../src/config/limits/node-limits.ts";
import type { LimitCoordinator, RecordRef } from "../src/limits/coordinator/protocol.ts";
import { PostgresLimitCoordinator } from "../src/nodes/postgres-limit-coordinator.ts";
import { RedisLimitCoordinator } from "../src/nodes/redis-limit-coordinator.ts";
import { type Db, openDb } from "../src/store/engine/db.ts";
import { createMigrated } from "../test/support/postgres.ts";
import { startRedis } from "../test/support/redis.ts";
import { cpuMicrosBetween, median, readCpu } from "./measure.ts";

const seconds = Number(process.argv[2] ?? 5);
const NODES = 10;
const WARM_UP_CALLS = 30;
const SUBJECTS = 10_000;
const ARRIVALS_EVERY_MS = 5;
const BATCH_MAX = 50;
const LOADS = [
  { name: "one subject", perCall: 1, of: SUBJECTS },
  { name: "one subject, the same in all calls", perCall: 1, of: 1 },
  { name: "50 subjects", perCall: 50, of: SUBJECTS },
] as const;
const limits = nodeLimits.limitCoordinator;

interface Measured {
  readonly name: string;
  readonly serverPid: number;
  readonly coordinator: LimitCoordinator;
  /** Of all nodes together. */
  readonly requestsPerSecond: number;
  close(): Promise<void>;
}

async function openPostgres(): Promise<Measured> {
  const { url, stop } = await createMigrated();
  const db = await openDb(url);
  const coordinator = new PostgresLimitCoordinator({
    db,
    listenUrl: url,
    serves: ["rates", "window"],
    limits,
  });
  return {
    name: "PostgreSQL",
    serverPid: await findPostmaster(db),
    coordinator,
    requestsPerSecond: 3_000,
    async close() {
      await coordinator.close();
      await stop();
    },
  };
}

/** The parent of the process that serves a connection. */
async function findPostmaster(db: Db): Promise<number> {
  const [row] = await db.sql`SELECT pg_backend_pid() AS pid`;
  return Number(/^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${row?.pid}/status`, "utf8"))?.[1]);
}

async function openRedis(): Promise<Measured> {
  const redis = await startRedis();
  const client = new RedisClient(redis.url);
  const info: unknown = await client.send("INFO", ["server"]);
  client.close();
  const coordinator = new RedisLimitCoordinator({
    url: redis.url,
    prefix: "bench:{limits}",
    limits,
    newId: () => crypto.randomUUID(),
    monotonicMs: () => performance.now(),
  });
  return {
    name: "Redis",
    serverPid: Number(/^process_id:(\d+)/m.exec(String(info))?.[1]),
    coordinator,
    requestsPerSecond: 10_000,
    async close() {
      await coordinator.close();
      await redis.stop();
    },
  };
}

class BenchNode {
  readonly #coordinator: LimitCoordinator;
  readonly #term: string;
  #seq = 1;

  constructor(coordinator: LimitCoordinator, term: string) {
    this.#coordinator = coordinator;
    this.#term = term;
  }

  async open(): Promise<void> {
    const term = this.#term;
    const opening = { term, process: term, folder: term, bounds: null };
    await this.#coordinator.openTerm(opening);
    const last = { replaces: null, isSurvivor: false };
    await this.#coordinator.declare({ term, seq: 1, ...readBounds(), records: [], holdings: [], last });
    await this.#coordinator.openEpoch({ process: term, registered: [], hasUnknownUse: false });
  }

  async call(records: readonly RecordRef[]): Promise<void> {
    this.#seq += 1;
    const reply = await this.#coordinator.exchange({
      term: this.#term,
      seq: this.#seq,
      ...readBounds(),
      records,
      items: records.flatMap((_, record) => [
        { ...NOTHING, record, meter: 0 as const, returned: 1 },
        { ...NOTHING, record, meter: 1 as const, used: 1 },
        { ...NOTHING, record, meter: 2 as const, used: 400 },
      ]),
      asks: records.map((_, record) => ({
        mode: "wait" as const,
        key: "k",
        wants: ([1, 1, 400] as const).map((amount, meter) => ({
          record,
          meter: meter as 0 | 1 | 2,
          least: amount,
          need: amount,
          most: 2 * amount,
        })),
      })),
    });
    if (reply.kind !== "ok") throw new Error(`The coordinator replied ${reply.kind}.`);
  }
}

/** The server is on this machine. */
function readBounds() {
  return { lo: Date.now() - 1_000, hi: Date.now() + 1_000, aheadMs: null };
}
const NOTHING = { used: 0, refunds: [], returned: 0, confirms: 0 };

function pickRecords(perCall: number, of: number): RecordRef[] {
  const ids = new Set<number>();
  while (ids.size < perCall) ids.add(Math.floor(Math.random() * of));
  return [...ids].map(refer);
}

function refer(subject: number): RecordRef {
  const limits = [500, 10_000_000, 1_000_000_000] as const;
  return { scope: "key", id: `key_${subject}`, perMs: null, revision: 1, limits };
}

async function measure(measured: Measured): Promise<void> {
  const { serverPid, coordinator, name } = measured;
  const nodes = Array.from({ length: NODES }, (_, i) => new BenchNode(coordinator, `node_${i}`));
  for (const node of nodes) await node.open();
  for (const load of LOADS) {
    // Each connection compiles the functions, and plans a few times.
    for (let i = 0; i < WARM_UP_CALLS; i++)
      await Promise.all(nodes.map((node) => node.call(pickRecords(load.perCall, load.of))));
    const before = readCpu(serverPid);
    const startedMs = performance.now();
    const tookMs: number[] = [];
    await Promise.all(
      nodes.map(async (node) => {
        while (performance.now() - startedMs < seconds * 1_000) {
          const sentMs = performance.now();
          await node.call(pickRecords(load.perCall, load.of));
          tookMs.push(performance.now() - sentMs);
        }
      }),
    );
    const calls = tookMs.length;
    const micros = cpuMicrosBetween(before, readCpu(serverPid)) / calls;
    const rate = Math.round((calls * 1_000) / (performance.now() - startedMs));
    console.log(
      `${name}, ${load.name}: ${rate} calls/s, p50 ${median(tookMs).toFixed(2)} ms, server CPU ${micros.toFixed(0)} µs a call`,
    );
  }
  await measureArrivals(measured, nodes);
}

/** The subjects of requests that wait for the next call of a node, and since when. */
class ArrivalQueue {
  readonly #waiting: { readonly subject: number; readonly sinceMs: number }[] = [];

  add(count: number): void {
    const sinceMs = performance.now();
    for (let i = 0; i < count; i++)
      this.#waiting.push({ subject: Math.floor(Math.random() * SUBJECTS), sinceMs });
  }

  takeBatch(): readonly { readonly subject: number; readonly sinceMs: number }[] {
    return this.#waiting.splice(0, BATCH_MAX);
  }
}

async function measureArrivals(
  { serverPid, name, requestsPerSecond }: Measured,
  nodes: readonly BenchNode[],
) {
  const queues = nodes.map(() => new ArrivalQueue());
  const startedMs = performance.now();
  let arrived = 0;
  const timer = setInterval(() => {
    const due = Math.floor(((performance.now() - startedMs) * requestsPerSecond) / 1_000) - arrived;
    for (const [i, queue] of queues.entries()) queue.add(Math.floor((due + i) / NODES));
    arrived += due;
  }, ARRIVALS_EVERY_MS);
  const before = readCpu(serverPid);
  const tookMs: number[] = [];
  await Promise.all(
    nodes.map(async (node, i) => {
      while (performance.now() - startedMs < seconds * 1_000) {
        const batch = queues[i]?.takeBatch() ?? [];
        if (batch.length === 0) await Bun.sleep(1);
        else await node.call([...new Set(batch.map(({ subject }) => subject))].map(refer));
        for (const { sinceMs } of batch) tookMs.push(performance.now() - sinceMs);
      }
    }),
  );
  clearInterval(timer);
  const elapsedMs = performance.now() - startedMs;
  const busy = cpuMicrosBetween(before, readCpu(serverPid)) / elapsedMs / 1_000;
  const sorted = tookMs.sort((a, b) => a - b);
  const [p50 = 0, p99 = 0] = [0.5, 0.99].map((part) => sorted[Math.floor(part * (sorted.length - 1))]);
  const served = Math.round((tookMs.length * 1_000) / elapsedMs);
  console.log(
    `${name}, ${requestsPerSecond} requests/s arrive: ${served}/s served, p50 / p99 ${p50.toFixed(1)} / ${p99.toFixed(1)} ms, server uses ${busy.toFixed(2)} cores`,
  );
}

for (const open of [openPostgres, openRedis]) {
  const measured = await open();
  await measure(measured);
  await measured.close();
}
process.exit(0);
