/** The limits of a key, a group, a user and an account hold over three gateway processes, by the logs of the upstreams. */

import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import { LimitCluster } from "../support/limit-cluster.ts";
import { startPostgres } from "../support/postgres.ts";
import { startRedis } from "../support/redis.ts";

setDefaultTimeout(120_000);

const RPM = 60;
const CONCURRENCY = 6;

let cluster: LimitCluster | null = null;
let closers: (() => Promise<void>)[] = [];

afterEach(async () => {
  await cluster?.stop();
  cluster = null;
  for (const close of closers.reverse()) await close();
  closers = [];
});

async function startCluster(env: Readonly<Record<string, string>> = {}): Promise<LimitCluster> {
  const { url, stop } = await startPostgres();
  closers.push(stop);
  cluster = await LimitCluster.start({ rpm: RPM, concurrency: CONCURRENCY, databaseUrl: url, env });
  return cluster;
}

function expectLimitsToHold({ subjects, report }: LimitCluster): void {
  for (const subject of subjects) {
    const { kind } = subject;
    expect([kind, subject.findPeak() <= RPM, subject.findPeakInFlight() <= CONCURRENCY]).toEqual([
      kind,
      true,
      true,
    ]);
    // A killed node keeps its part of the minute. Most of the rest is used.
    expect(subject.countArrivals()).toBeGreaterThanOrEqual(RPM / 2);
  }
  expect([...report.failed]).toEqual([]);
}

test("three nodes on PostgreSQL serve what one limit allows, also when one of them is killed", async () => {
  const running = await startCluster();
  const { nodes, subjects, report } = running;
  running.startLoad(48);
  await eventually(() => subjects.every((subject) => subject.countArrivals() >= RPM / 3));
  const [killed] = nodes;
  if (killed === undefined) throw new Error("there is no node");
  await running.kill(killed);
  await running.startNode(killed);
  const before = report.refused;
  await eventually(() => report.refused > before + 400, 40_000);
  await running.stopLoad();
  expectLimitsToHold(running);
});

function waitForMore({ report }: LimitCluster, count: number): Promise<true> {
  const before = report.refused + report.served;
  return eventually(() => report.refused + report.served >= before + count, 30_000);
}

test("a Redis that is emptied and restarted stops no request and exceeds no limit", async () => {
  const redis = await startRedis();
  closers.push(redis.stop);
  const running = await startCluster({ REDIS_URL: redis.url });
  running.startLoad(24);
  await eventually(() => running.report.served >= 20);
  await redis.flush();
  await waitForMore(running, 120);
  await redis.restart();
  await waitForMore(running, 120);
  await running.stopLoad();
  expectLimitsToHold(running);
});

test("while Redis is frozen each node serves its share: in that minute at most (2 - 1/n) times the limit", async () => {
  const redis = await startRedis();
  closers.push(redis.stop);
  const running = await startCluster({ REDIS_URL: redis.url });
  running.startLoad(24);
  await eventually(() => running.report.served >= 20);
  redis.freeze();
  await waitForMore(running, 120);
  redis.thaw();
  await waitForMore(running, 120);
  await running.stopLoad();
  const inThatMinute = 2 - 1 / running.nodes.length;
  for (const subject of running.subjects) {
    expect(subject.findPeak()).toBeLessThanOrEqual(RPM * inThatMinute);
    expect(subject.findPeakInFlight()).toBeLessThanOrEqual(CONCURRENCY * inThatMinute);
  }
  expect([...running.report.failed]).toEqual([]);
});
