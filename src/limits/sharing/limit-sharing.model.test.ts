/** Several nodes against the rule of one exact ring: no window ever contains more than the limit. */

import { expect, test } from "bun:test";
import { keySubject, ModelCluster, type ModelNode } from "./cluster.test-support.ts";

/** Sends requests at random times to nodes that `choose` selects, until the time is over. */
function sendLoad(
  cluster: ModelCluster,
  {
    everyMs,
    untilMs,
    choose,
    send,
  }: {
    everyMs: number;
    untilMs: number;
    choose(): ModelNode | undefined;
    send(node: ModelNode): Promise<boolean>;
  },
): void {
  const next = () => {
    if (cluster.time.nowMs >= untilMs) return;
    const node = choose();
    if (node?.isRunning) void send(node);
    cluster.time.after(-Math.log(1 - cluster.random()) * everyMs, next);
  };
  next();
}

async function startNodes(cluster: ModelCluster, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    void cluster.startNode();
    await cluster.time.runUntil(cluster.time.nowMs + 2_000);
  }
  expect(cluster.nodes.every(({ isRunning }) => isRunning)).toBe(true);
}

test("one node has the whole limit at once", async () => {
  const cluster = new ModelCluster(1);
  await startNodes(cluster, 1);
  const subject = keySubject({ rpm: 10, concurrency: 10 });
  const [node] = cluster.nodes;
  if (node === undefined) throw new Error("no node");
  const results = await Promise.all(
    Array.from({ length: 11 }, () => cluster.send(node, subject, { holdMs: 1 })),
  );
  expect(results.filter(Boolean)).toHaveLength(10);
});

for (const nodes of [2, 3, 5]) {
  test(`${nodes} nodes with even load use at least 95 % of the limit, and never more`, async () => {
    const cluster = new ModelCluster(nodes);
    await startNodes(cluster, nodes);
    const subject = keySubject({ rpm: 300 });
    const fromMs = cluster.time.nowMs;
    sendLoad(cluster, {
      everyMs: 60_000 / 600,
      untilMs: fromMs + 300_000,
      choose: () => cluster.nodes[Math.floor(cluster.random() * nodes)],
      send: (node) => cluster.send(node, subject),
    });
    await cluster.time.runUntil(fromMs + 300_000);
    expect(cluster.findPeak()).toBeLessThanOrEqual(300);
    expect(cluster.countUses(fromMs + 60_000, fromMs + 300_000)).toBeGreaterThanOrEqual(0.95 * 4 * 300);
  });

  test(`${nodes} nodes with all load on one of them use at least 80 % of the limit, and never more`, async () => {
    const cluster = new ModelCluster(10 + nodes);
    await startNodes(cluster, nodes);
    const subject = keySubject({ rpm: 300 });
    const fromMs = cluster.time.nowMs;
    // The load moves to another node once.
    const choose = () => cluster.nodes[cluster.time.nowMs < fromMs + 200_000 ? 0 : 1];
    sendLoad(cluster, {
      everyMs: 60_000 / 600,
      untilMs: fromMs + 400_000,
      choose,
      send: (node) => cluster.send(node, subject),
    });
    await cluster.time.runUntil(fromMs + 400_000);
    expect(cluster.findPeak()).toBeLessThanOrEqual(300);
    expect(cluster.countUses(fromMs, fromMs + 180_000)).toBeGreaterThanOrEqual(0.8 * 3 * 300);
    expect(cluster.countUses(fromMs + 280_000, fromMs + 400_000)).toBeGreaterThanOrEqual(0.8 * 2 * 300);
  });
}

test("a concurrency limit of one moves to the node with the request", async () => {
  const cluster = new ModelCluster(4);
  await startNodes(cluster, 3);
  const subject = keySubject({ concurrency: 1 });
  const served: boolean[] = [];
  for (let n = 0; n < 9; n++) {
    const node = cluster.nodes[n % 3];
    if (node === undefined) throw new Error("no node");
    void cluster.send(node, subject, { holdMs: 500 }).then((isServed) => served.push(isServed));
    await cluster.time.runUntil(cluster.time.nowMs + 2_000);
  }
  expect(served).toEqual(Array.from({ length: 9 }, () => true));
  expect(cluster.inFlightMax).toBe(1);
});

test("a request of more tokens than the share of its node is served", async () => {
  const cluster = new ModelCluster(6);
  await startNodes(cluster, 3);
  const subject = keySubject({ tpm: 9_000 });
  const [node] = cluster.nodes;
  if (node === undefined) throw new Error("no node");
  const sent = cluster.send(node, subject, { tokens: 8_500 });
  await cluster.time.runUntil(cluster.time.nowMs + 2_000);
  expect(await sent).toBe(true);
});

type Scenario = (cluster: ModelCluster) => void;

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  "delays and losses": ({ faults }) => {
    faults.delayMs = 40;
    faults.loss = 0.1;
  },
  "lost state": (cluster) => cluster.loseState(),
  "a failover to an old copy": (cluster) => cluster.failOver(1 + Math.floor(cluster.random() * 15)),
  "a frozen coordinator": ({ faults, time }) => {
    faults.isFrozen = true;
    time.after(30_000, () => {
      faults.isFrozen = false;
    });
  },
  "killed nodes": (cluster) => {
    const [node] = cluster.nodes;
    if (node !== undefined) cluster.kill(node);
    void cluster.startNode();
  },
  "a node that is cut off": ({ nodes, time }) => {
    const [node] = nodes;
    if (node === undefined) return;
    node.isCutOff = true;
    time.after(40_000, () => {
      node.isCutOff = false;
    });
  },
};

for (const [name, scenario] of Object.entries(SCENARIOS)) {
  for (const seed of [21, 22, 23]) {
    test(`${name} never lead to more than the limit (${seed})`, async () => {
      const cluster = new ModelCluster(seed);
      await startNodes(cluster, 3);
      const subject = keySubject({ rpm: 120, concurrency: 10 });
      const fromMs = cluster.time.nowMs;
      const untilMs = fromMs + 400_000;
      // Two thirds of the load reach one node, which changes every minute.
      const choose = () => {
        const favourite = Math.floor(cluster.time.nowMs / 60_000);
        const any = Math.floor(cluster.random() * 3);
        return cluster.nodes[(cluster.random() < 0.6 ? favourite : any) % cluster.nodes.length];
      };
      sendLoad(cluster, {
        everyMs: 150,
        untilMs,
        choose,
        send: (node) => cluster.send(node, subject, { holdMs: cluster.random() * 3_000 }),
      });
      for (let atMs = fromMs + 45_000; atMs < untilMs; atMs += 90_000)
        cluster.time.after(atMs - cluster.time.nowMs, () => scenario(cluster));
      await cluster.time.runUntil(untilMs);
      expect(cluster.findPeak()).toBeLessThanOrEqual(120);
      // The slots of a lost node go to the others, which cannot know whether it still serves.
      expect(cluster.inFlightMax).toBeLessThanOrEqual(name === "a node that is cut off" ? 14 : 10);
      // Requests are served all the time: no part of the fault stops them.
      for (let atMs = fromMs; atMs + 70_000 <= untilMs; atMs += 10_000)
        expect(cluster.countUses(atMs, atMs + 70_000)).toBeGreaterThan(10);
    });
  }
}
