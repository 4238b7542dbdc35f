/** The limits of a key hold over three gateway processes, by the log of the upstream. */

import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import { LimitCluster } from "../support/limit-cluster.ts";
import { startRedis } from "../support/redis.ts";

setDefaultTimeout(120_000);

let cluster: LimitCluster | null = null;

afterEach(async () => {
  await cluster?.stop();
  cluster = null;
});

test("three nodes on PostgreSQL serve what one limit allows, also when one of them is killed", async () => {
  const rpm = 60;
  const concurrency = 6;
  cluster = await LimitCluster.start({ rpm, concurrency });
  const { nodes, report } = cluster;
  cluster.startLoad(24);
  await eventually(() => report.served >= rpm / 3);
  const [killed] = nodes;
  if (killed !== undefined) await cluster.kill(killed);
  await cluster.addNode();
  await eventually(() => report.refused > 100, 30_000);
  await cluster.stopLoad();
  expect(cluster.findPeak()).toBeLessThanOrEqual(rpm);
  expect(cluster.findPeakInFlight()).toBeLessThanOrEqual(concurrency);
  expect([...report.failed]).toEqual([]);
  // The killed node keeps its third of the minute. Most of the rest is used.
  expect(report.served).toBeGreaterThanOrEqual(rpm / 2);
});

test("a Redis that is frozen, emptied and restarted stops no request and exceeds no limit", async () => {
  const rpm = 60;
  const concurrency = 6;
  const redis = await startRedis();
  try {
    cluster = await LimitCluster.start({ rpm, concurrency, env: { REDIS_URL: redis.url } });
    const { report } = cluster;
    const waitForMore = (count: number) => {
      const before = report.refused + report.served;
      return eventually(() => report.refused + report.served >= before + count, 30_000);
    };
    cluster.startLoad(12);
    await eventually(() => report.served >= 5);
    redis.freeze();
    await waitForMore(60);
    redis.thaw();
    await waitForMore(60);
    await redis.flush();
    await waitForMore(60);
    await redis.restart();
    await waitForMore(60);
    await cluster.stopLoad();
    expect(cluster.findPeak()).toBeLessThanOrEqual(rpm);
    expect(cluster.findPeakInFlight()).toBeLessThanOrEqual(concurrency);
    expect([...report.failed]).toEqual([]);
    expect(report.served).toBeGreaterThanOrEqual(rpm / 2);
  } finally {
    await cluster?.stop();
    cluster = null;
    await redis.stop();
  }
});
