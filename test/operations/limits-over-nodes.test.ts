/** The limits of a key hold over three gateway processes, by the log of the upstream. */

import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import { LimitCluster } from "../support/limit-cluster.ts";

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
