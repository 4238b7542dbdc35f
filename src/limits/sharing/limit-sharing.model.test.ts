/** Several nodes against the rule of one exact ring: no window ever contains more than the limit. */

import { expect, setDefaultTimeout, test } from "bun:test";
import { keySubject, ModelCluster, sendLoad, startNodes } from "./cluster.test-support.ts";

// Minutes of virtual time are seconds of a busy machine.
setDefaultTimeout(60_000);

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

test("a node that replaces a killed one serves within a second, and the minute of the killed one is free after another", async () => {
  const cluster = new ModelCluster(7);
  await startNodes(cluster, 3);
  const { time } = cluster;
  const subject = keySubject({ rpm: 300, concurrency: 9 });
  const fromMs = time.nowMs;
  const untilMs = fromMs + 240_000;
  sendLoad(cluster, {
    everyMs: 50,
    untilMs,
    choose: () => cluster.nodes[Math.floor(cluster.random() * cluster.nodes.length)],
    send: (node) => cluster.send(node, subject),
  });
  await time.runUntil(fromMs + 60_000);
  const [killed] = cluster.nodes;
  if (killed === undefined) throw new Error("no node");
  const killedMs = time.nowMs;
  cluster.kill(killed);
  let readyMs = Number.POSITIVE_INFINITY;
  void cluster.startNode().then(() => {
    readyMs = time.nowMs;
  });
  await time.runUntil(untilMs);
  expect(readyMs - killedMs).toBeLessThan(1_000);
  expect(cluster.findPeak()).toBeLessThanOrEqual(300);
  // From 65 s after the kill on, the whole limit is in use again.
  expect(cluster.countUses(killedMs + 65_000, killedMs + 125_000)).toBeGreaterThanOrEqual(0.85 * 300);
});

test("a node that starts without its coordinator is up in seconds, uses no limit of its predecessor, and joins later", async () => {
  const cluster = new ModelCluster(8);
  await startNodes(cluster, 3);
  const { time, faults } = cluster;
  const subject = keySubject({ rpm: 120 });
  const fromMs = time.nowMs;
  sendLoad(cluster, {
    everyMs: 100,
    untilMs: fromMs + 200_000,
    choose: () => cluster.nodes[Math.floor(cluster.random() * cluster.nodes.length)],
    send: (node) => cluster.send(node, subject),
  });
  // The uses of the killed node are recent, so that its successor would exceed the limit with the same share.
  await time.runUntil(fromMs + 20_000);
  faults.isFrozen = true;
  await time.runUntil(fromMs + 22_000);
  const [killed] = cluster.nodes;
  if (killed === undefined) throw new Error("no node");
  cluster.kill(killed);
  let readyMs = Number.POSITIVE_INFINITY;
  const startedMs = time.nowMs;
  void cluster.startNode().then(() => {
    readyMs = time.nowMs;
  });
  await time.runUntil(fromMs + 26_000);
  expect(readyMs - startedMs).toBeLessThan(3_000);
  const successor = cluster.nodes.at(-1);
  expect(successor?.sharing.isClosed).toBe(true);
  expect(successor?.sharing.isJoining).toBe(true);
  await time.runUntil(fromMs + 50_000);
  faults.isFrozen = false;
  await time.runUntil(fromMs + 200_000);
  expect(successor?.sharing.isClosed).toBe(false);
  expect(successor?.allocator.isActive).toBe(true);
  expect(cluster.findPeak()).toBeLessThanOrEqual(120);
});

test("a node whose coordinator stays lost takes its share when the uses of its predecessor have left the minute", async () => {
  const cluster = new ModelCluster(9);
  await startNodes(cluster, 3);
  const { time, faults } = cluster;
  const subject = keySubject({ rpm: 120 });
  const fromMs = time.nowMs;
  sendLoad(cluster, {
    everyMs: 100,
    untilMs: fromMs + 300_000,
    choose: () => cluster.nodes[Math.floor(cluster.random() * cluster.nodes.length)],
    send: (node) => cluster.send(node, subject),
  });
  await time.runUntil(fromMs + 20_000);
  faults.isFrozen = true;
  await time.runUntil(fromMs + 22_000);
  const [killed] = cluster.nodes;
  if (killed === undefined) throw new Error("no node");
  cluster.kill(killed);
  void cluster.startNode();
  await time.runUntil(fromMs + 300_000);
  expect(cluster.nodes.at(-1)?.sharing.isClosed).toBe(false);
  expect(cluster.findPeak()).toBeLessThanOrEqual(120);
  // All three shares are in use.
  expect(cluster.countUses(fromMs + 240_000, fromMs + 300_000)).toBeGreaterThan(0.9 * 120);
});

for (const seed of [5, 7, 9]) {
  test(`with a node killed every ten seconds, no limit is exceeded and half of it is used (${seed})`, async () => {
    const cluster = new ModelCluster(seed);
    await startNodes(cluster, 3);
    const { time } = cluster;
    const subject = keySubject({ rpm: 600, concurrency: 20 });
    const fromMs = time.nowMs;
    const untilMs = fromMs + 180_000;
    const choose = () => cluster.nodes[Math.floor(cluster.random() * cluster.nodes.length)];
    sendLoad(cluster, {
      everyMs: 25,
      untilMs,
      choose,
      send: (node) => cluster.send(node, subject, { holdMs: 1_000 }),
    });
    for (let afterMs = 10_000; afterMs < 180_000; afterMs += 10_000)
      time.after(afterMs, () => {
        const node = choose();
        if (!node?.isRunning) return;
        cluster.kill(node);
        time.after(700, () => void cluster.startNode());
      });
    await time.runUntil(untilMs);
    expect(cluster.inFlightMax).toBeLessThanOrEqual(20);
    expect(cluster.findPeak()).toBeLessThanOrEqual(600);
    expect(cluster.countUses(fromMs, untilMs)).toBeGreaterThan(0.5 * 3 * 600);
  });
}

for (const seed of [101, 109, 112]) {
  test(`kills together with lost state, failovers and freezes exceed no limit (${seed})`, async () => {
    const cluster = new ModelCluster(seed);
    await startNodes(cluster, 3);
    const { time, random, faults } = cluster;
    const subject = keySubject({ rpm: 60, concurrency: 5 });
    const fromMs = time.nowMs;
    const untilMs = fromMs + 240_000;
    const choose = () => cluster.nodes[Math.floor(random() * cluster.nodes.length)];
    sendLoad(cluster, {
      everyMs: 60,
      untilMs,
      choose,
      send: (node) => cluster.send(node, subject, { holdMs: random() * 2_000 }),
    });
    const strike = () => {
      const running = cluster.nodes.filter(({ isRunning }) => isRunning);
      const node = running[Math.floor(random() * running.length)];
      const fault = random();
      if (fault < 0.7 && node !== undefined && running.length > 2) {
        cluster.kill(node);
        time.after(300 + random() * 5_000, () => void cluster.startNode());
      } else if (fault < 0.8) cluster.loseState();
      else if (fault < 0.9) cluster.failOver(1 + Math.floor(random() * 10));
      else {
        faults.isFrozen = true;
        time.after(random() * 20_000, () => {
          faults.isFrozen = false;
        });
      }
    };
    for (let afterMs = 8_000; afterMs < 240_000; afterMs += 8_000) time.after(afterMs, strike);
    await time.runUntil(untilMs);
    expect(cluster.findPeak()).toBeLessThanOrEqual(60);
    expect(cluster.inFlightMax).toBeLessThanOrEqual(5);
  });
}

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
