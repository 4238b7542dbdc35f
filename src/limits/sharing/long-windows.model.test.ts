/** Windows of hours on several nodes: what a node has used still counts when its process has ended. */

import { expect, setDefaultTimeout, test } from "bun:test";
import { keySubject, ModelCluster, type ModelNode, sendLoad, startNodes } from "./cluster.test-support.ts";

setDefaultTimeout(60_000);

const WINDOW_MS = 3_600_000;
const MINUTE_MS = 60_000;

function openCluster(seed: number, requests: number): ModelCluster {
  const cluster = new ModelCluster(seed);
  cluster.subject = keySubject({ windows: [{ perMs: WINDOW_MS, requests, tokens: null, nano: null }] });
  cluster.unsettledMs = 20_000;
  return cluster;
}

/** Sends for some time to all nodes, and returns when it is over. */
async function sendFor(cluster: ModelCluster, forMs: number, everyMs: number): Promise<void> {
  const { subject, time, random } = cluster;
  if (subject === null) throw new Error("no subject");
  const untilMs = time.nowMs + forMs;
  sendLoad(cluster, {
    everyMs,
    untilMs,
    choose: () => cluster.nodes[Math.floor(random() * cluster.nodes.length)],
    send: (node) => cluster.send(node, subject),
  });
  await time.runUntil(untilMs);
}

function first({ nodes }: ModelCluster): ModelNode {
  const [node] = nodes;
  if (node === undefined) throw new Error("no node");
  return node;
}

test("the use of a killed node still counts in the window, and what it did not use is free for the others", async () => {
  const cluster = openCluster(31, 300);
  await startNodes(cluster, 3);
  // About 60 requests a node.
  await sendFor(cluster, MINUTE_MS, 333);
  const killed = first(cluster);
  const usedByKilled = cluster.uses.filter(({ node }) => node === killed.id).length;
  expect(usedByKilled).toBeGreaterThan(30);
  cluster.kill(killed);
  await sendFor(cluster, 4 * MINUTE_MS, 200);
  expect(cluster.uses.length).toBeLessThanOrEqual(300);
  expect(cluster.uses.length).toBeGreaterThanOrEqual(297);
});

test("a killed node that is not settled yet keeps its share", async () => {
  const cluster = openCluster(32, 300);
  cluster.unsettledMs = 10 * MINUTE_MS;
  await startNodes(cluster, 3);
  cluster.kill(first(cluster));
  await sendFor(cluster, 5 * MINUTE_MS, 200);
  expect(cluster.uses.length).toBeLessThanOrEqual(200);
  await sendFor(cluster, 7 * MINUTE_MS, 200);
  expect(cluster.uses.length).toBeGreaterThanOrEqual(297);
  expect(cluster.uses.length).toBeLessThanOrEqual(300);
});

test("nodes that are replaced one after another use all of the window, and never more", async () => {
  const cluster = openCluster(33, 600);
  await startNodes(cluster, 3);
  await sendFor(cluster, MINUTE_MS, 300);
  for (let replaced = 0; replaced < 3; replaced++) {
    void cluster.startNode();
    void cluster.stop(first(cluster));
    await sendFor(cluster, 30_000, 300);
  }
  await sendFor(cluster, 4 * MINUTE_MS, 200);
  expect(cluster.uses.length).toBeLessThanOrEqual(600);
  expect(cluster.uses.length).toBeGreaterThanOrEqual(594);
});

test("a node without its database is lost for the others, and they do not wait for it", async () => {
  const cluster = openCluster(35, 300);
  await startNodes(cluster, 4);
  await sendFor(cluster, MINUTE_MS, 500);
  const [killed, cutOff] = cluster.nodes;
  if (killed === undefined || cutOff === undefined) throw new Error("no node");
  cutOff.isStoreLost = true;
  cluster.kill(killed);
  // The killed node is removed meanwhile, and the others divide the window again.
  await sendFor(cluster, 2 * MINUTE_MS, 200);
  expect(cutOff.sharing.state).toBe("lost");
  void cluster.startNode();
  await sendFor(cluster, MINUTE_MS, 200);
  const others = cluster.nodes.filter((node) => node !== cutOff);
  expect(others.map(({ allocator, isRunning }) => [allocator.isActive, isRunning])).toEqual([
    [true, true],
    [true, true],
    [true, true],
  ]);
  expect(cluster.uses.length).toBeLessThanOrEqual(300);
  cutOff.isStoreLost = false;
  await sendFor(cluster, 3 * MINUTE_MS, 200);
  expect(cluster.uses.length).toBeLessThanOrEqual(300);
  expect(cluster.uses.length).toBeGreaterThanOrEqual(297);
});

test("what leaves the window is free again on all nodes", async () => {
  const cluster = openCluster(34, 90);
  await startNodes(cluster, 2);
  await sendFor(cluster, 2 * MINUTE_MS, 500);
  cluster.kill(first(cluster));
  void cluster.startNode();
  await sendFor(cluster, 3 * MINUTE_MS, 500);
  expect(cluster.uses.length).toBeGreaterThanOrEqual(88);
  await cluster.time.runUntil(cluster.time.nowMs + WINDOW_MS);
  const fromMs = cluster.time.nowMs;
  await sendFor(cluster, 3 * MINUTE_MS, 500);
  expect(cluster.findPeak(WINDOW_MS)).toBeLessThanOrEqual(90);
  expect(cluster.countUses(fromMs, cluster.time.nowMs)).toBeGreaterThanOrEqual(88);
});

for (const seed of [41, 42, 43, 44]) {
  test(`kills, stops, lost state and freezes never lead to more than the window allows (${seed})`, async () => {
    const cluster = openCluster(seed, 400);
    await startNodes(cluster, 3);
    const { time, random, faults } = cluster;
    const untilMs = time.nowMs + 40 * MINUTE_MS;
    const strike = () => {
      const running = cluster.nodes.filter(({ isRunning }) => isRunning);
      const node = running[Math.floor(random() * running.length)];
      const fault = random();
      if (fault < 0.7 && node !== undefined && running.length > 2) {
        if (fault < 0.5) cluster.kill(node);
        else void cluster.stop(node);
        time.after(random() * 100_000, () => void cluster.startNode());
      } else if (fault < 0.8) cluster.loseState();
      else if (fault < 0.9) cluster.failOver(1 + Math.floor(random() * 10));
      else {
        faults.isFrozen = true;
        time.after(random() * 20_000, () => {
          faults.isFrozen = false;
        });
      }
      if (time.nowMs < untilMs) time.after(random() * 4 * MINUTE_MS, strike);
    };
    strike();
    // More at the beginning, so that the nodes that end have used different parts.
    await sendFor(cluster, 2 * MINUTE_MS, 1_000);
    await sendFor(cluster, untilMs - time.nowMs, 4_000);
    expect(cluster.findPeak(WINDOW_MS)).toBeLessThanOrEqual(400);
    expect(cluster.uses.length).toBeGreaterThanOrEqual(0.9 * 400);
  });
}
