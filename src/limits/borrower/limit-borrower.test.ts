/** How nodes borrow, return and recall, in virtual time. */

import { describe, expect, test } from "bun:test";
import {
  keySubject,
  ModelCluster,
  type ModelNode,
  type ModelRequest,
} from "./borrower-cluster.test-support.ts";
import type { RegisteredNode } from "./registry-watch.ts";

async function setUp(count: number, older: readonly RegisteredNode[] = []) {
  const cluster = new ModelCluster(1);
  cluster.older.push(...older);
  await cluster.startNodes(count);
  const { time } = cluster;
  return {
    cluster,
    ...cluster,
    time,
    pass: (ms: number) => time.runUntil(time.nowMs + ms),
    node(index: number): ModelNode {
      const node = cluster.nodes[index];
      if (node === undefined) throw new Error("there is no such node");
      return node;
    },
    /** Resolves with the outcome and the wait, within 5 seconds. */
    async send(node: ModelNode, request: ModelRequest) {
      const startedMs = time.nowMs;
      const ended = { outcome: "none", waitedMs: Number.POSITIVE_INFINITY };
      void node.send(request).then((outcome) => {
        Object.assign(ended, { outcome, waitedMs: time.nowMs - startedMs });
      });
      for (let step = 0; step < 500 && ended.outcome === "none"; step += 1)
        await time.runUntil(time.nowMs + 10);
      return ended;
    },
  };
}

const HOUR_MS = 3_600_000;
const money = (nano: number) =>
  keySubject({ windows: [{ perMs: HOUR_MS, requests: null, tokens: null, nano }] });

describe("borrowing", () => {
  test("the first request of a key waits for one round trip, and later ones for nothing", async () => {
    const { node, send, pass, cluster } = await setUp(1);
    const request = {
      subjects: [keySubject({ rpm: 600, tpm: 60_000, concurrency: 50 })],
      tokens: 10,
      holdMs: 5_000,
    };
    const first = await send(node(0), request);
    expect(first.outcome).toBe("served");
    expect(first.waitedMs).toBeLessThan(2 * 2 * cluster.faults.delayMs);
    for (let sent = 0; sent < 20; sent += 1) {
      void node(0).send(request);
      await pass(50);
    }
    const { limiter } = node(0).limitBorrower;
    expect(limiter.admit(request.subjects, { tokens: 10 }).ok).toBe(true);
  });

  test("keys with spare limits are refilled with the reports of their use", async () => {
    const { node, pass, cluster } = await setUp(3);
    const pick = (count: number) => Math.floor(cluster.random() * count);
    const run = async (requests: number) => {
      for (let sent = 0; sent < requests; sent += 1) {
        const subjects = [keySubject({ rpm: 60_000, tpm: 60_000_000 }, `k${pick(50)}`)];
        void node(pick(3)).send({ subjects, tokens: 10 + pick(20), holdMs: 10 });
        // A thousand requests a second on average, at irregular times.
        await pass(pick(3));
      }
    };
    await run(4_000);
    const before = cluster.calls;
    await run(8_000);
    // Reports take 5 of them.
    expect((cluster.calls - before) / 8 / 3).toBeLessThan(12);
  });

  test("a key that is used up costs at most five calls a second", async () => {
    const { node, send, pass, cluster } = await setUp(1);
    const subjects = [keySubject({ rpm: 5 })];
    for (let sent = 0; sent < 5; sent += 1)
      expect((await send(node(0), { subjects })).outcome).toBe("served");
    const before = cluster.calls;
    for (let sent = 0; sent < 200; sent += 1) {
      void node(0).send({ subjects });
      await pass(10);
    }
    expect(cluster.calls - before).toBeLessThanOrEqual(2 * 5 + 2 * 6);
    expect(cluster.oracle.uses.length).toBe(5);
  });

  test("a limit over time serves a request that is larger than it, if nothing is used", async () => {
    const { node, send } = await setUp(2);
    const subjects = [keySubject({ tpm: 100 })];
    expect((await send(node(0), { subjects, tokens: 500 })).outcome).toBe("served");
    expect((await send(node(1), { subjects, tokens: 1 })).outcome).toBe("rejected");
  });

  test("tokens that were estimated and not used are refunded to all nodes", async () => {
    const { node, send, pass } = await setUp(2);
    const subjects = [keySubject({ tpm: 100 })];
    expect((await send(node(0), { subjects, tokens: 100, usedTokens: 10, holdMs: 500 })).outcome).toBe(
      "served",
    );
    expect((await send(node(1), { subjects, tokens: 50 })).outcome).toBe("rejected");
    await pass(1_500);
    expect((await send(node(1), { subjects, tokens: 90 })).outcome).toBe("served");
  });

  test("a request with all limits that a configuration may have is one ask", async () => {
    const { node, send } = await setUp(1);
    const windows = [5, 24, 7 * 24, 30 * 24].map((hours) => ({
      perMs: hours * HOUR_MS,
      requests: 100,
      tokens: 10_000,
      nano: 10_000,
    }));
    const limits = { ...keySubject({ rpm: 60, tpm: 6_000, concurrency: 2, windows }).limits };
    const subjects = [
      { scope: "key", id: "k1", limits },
      { scope: "user", id: "u1", limits },
      { scope: "key", id: "k1 in g1", limits },
      { scope: "group", id: "g1", limits },
    ] as const;
    expect((await send(node(0), { subjects, tokens: 10, nano: 10 })).outcome).toBe("served");
  });

  test("many keys that use their windows for the first time are served in several calls, without a pause", async () => {
    const { node, pass, cluster, time } = await setUp(1);
    const startedMs = time.nowMs;
    const waited: number[] = [];
    for (let key = 0; key < 200; key += 1) {
      const { limits } = money(1_000);
      const subjects = [{ scope: "key", id: `k${key}`, limits }] as const;
      void node(0)
        .send({ key: `k${key}`, subjects, nano: 10 })
        .then((outcome) => outcome === "served" && waited.push(time.nowMs - startedMs));
    }
    await pass(1_000);
    expect(waited.length).toBe(200);
    // Eight calls.
    expect(Math.max(...waited)).toBeLessThan(8 * 2 * cluster.faults.delayMs + 1);
  });
});

describe("a subject stays in memory", () => {
  test("until its requests have ended: a late settlement counts, and the next request follows at once", async () => {
    const { node, send, pass } = await setUp(1);
    const subjects = [keySubject({ tpm: 1_000 })];
    const others = [keySubject({ tpm: 1_000 }, "k2")];
    const long = { subjects, tokens: 10, usedTokens: 900, holdMs: 90_000 };
    expect((await send(node(0), long)).outcome).toBe("served");
    await pass(80_000);
    for (let sent = 0; sent < 4; sent += 1) await send(node(0), { key: "k2", subjects: others, tokens: 1 });
    await pass(10_000);
    expect((await send(node(0), { subjects, tokens: 50 })).outcome).toBe("served");
    await pass(2_000);
    expect(node(0).limitBorrower.state).toBe("up");
    expect((await send(node(0), { subjects, tokens: 200 })).outcome).toBe("rejected");
  });

  test("until it is part of the next call, also if no request has used it", async () => {
    const { node, pass, cluster } = await setUp(1);
    const subjects = [keySubject({ rpm: 10 })];
    const others = [keySubject({ rpm: 10 }, "k2")];
    const { limitBorrower } = node(0);
    cluster.faults.delayMs = 100;
    const first = node(0).send({ key: "k2", subjects: others });
    await pass(0);
    // Asked for while that call is in flight, so it waits for the next one.
    const refreshed = limitBorrower.refresh(subjects);
    limitBorrower.limiter.admit(others, { tokens: 0 });
    limitBorrower.limiter.admit(others, { tokens: 0 });
    const second = node(0).send({ subjects });
    await pass(3_000);
    await refreshed;
    expect(await Promise.all([first, second])).toEqual(["served", "served"]);
    expect(limitBorrower.state).toBe("up");
  });

  test("until the reply to its call has arrived, also if its request has left", async () => {
    const { node, pass, cluster } = await setUp(1);
    const subjects = [keySubject({ concurrency: 1 })];
    const others = [keySubject({ rpm: 10 }, "k2")];
    const { limitBorrower } = node(0);
    cluster.faults.delayMs = 100;
    const use = { tokens: 0, nano: 0 };
    const ask = limitBorrower.queue({
      key: "k",
      subjects,
      use,
      leastNano: 0,
      raises: null,
      attempt: () => false,
    });
    await pass(0);
    ask.stop();
    limitBorrower.limiter.admit(others, use);
    limitBorrower.limiter.admit(others, use);
    const second = node(0).send({ subjects });
    await pass(3_000);
    expect(await second).toBe("served");
    expect(limitBorrower.state).toBe("up");
  });
});

describe("what another node holds", () => {
  test("is recalled within half a second", async () => {
    const { node, send, pass } = await setUp(2);
    const subjects = [keySubject({ rpm: 100 })];
    for (let sent = 0; sent < 20; sent += 1) {
      void node(0).send({ subjects });
      await pass(20);
    }
    let served = 0;
    for (let sent = 0; sent < 80; sent += 1) {
      const { outcome, waitedMs } = await send(node(1), { subjects });
      expect(waitedMs).toBeLessThan(520);
      if (outcome === "served") served += 1;
    }
    expect(served).toBe(80);
  });

  test("is returned after a second without use", async () => {
    const { node, send, pass } = await setUp(2);
    const subjects = [keySubject({ rpm: 100 })];
    for (let sent = 0; sent < 20; sent += 1) {
      void node(0).send({ subjects });
      await pass(20);
    }
    await pass(2_000);
    const { waitedMs } = await send(node(1), { subjects });
    expect(waitedMs).toBeLessThan(10);
    await pass(400);
    expect(node(1).limitBorrower.limiter.readStatus(subjects[0] ?? money(0)).rpm?.used).toBe(21);
  });

  test("a slot that arrives before the reply to its ask is used at once, although a minute is lacking as well", async () => {
    const { node, send } = await setUp(2);
    for (let n = 0; n < 100; n += 1) {
      const subjects = [keySubject({ concurrency: 1, rpm: 100 }, `key ${n}`)];
      expect((await send(node(0), { subjects, holdMs: 12 })).outcome).toBe("served");
      expect((await send(node(1), { subjects })).waitedMs).toBeLessThan(50);
    }
  });

  test("a slot goes to the node that waits, also after its connection for notes was lost silently", async () => {
    const { node, pass, cluster, time } = await setUp(2);
    const request = { subjects: [keySubject({ concurrency: 1 })], holdMs: 300, queueMs: 5_000 };
    cluster.faults.silences += 1;
    cluster.faults.isFrozen = true;
    await pass(3_000);
    cluster.faults.isFrozen = false;
    await pass(3_000);
    const servedMs: number[] = [];
    for (const index of [0, 1])
      void node(index)
        .send(request)
        .then(() => servedMs.push(time.nowMs));
    await pass(2_000);
    const [firstMs = 0, secondMs = Number.POSITIVE_INFINITY] = servedMs;
    expect(secondMs - firstMs).toBeLessThan(350);
  });

  test("a slot goes to the node that waits, and a node that stops returns everything", async () => {
    const { node, send, cluster, pass } = await setUp(2);
    const subjects = [keySubject({ concurrency: 1, rpm: 100 })];
    expect((await send(node(0), { subjects, holdMs: 300 })).outcome).toBe("served");
    const second = await send(node(1), { subjects, holdMs: 300 });
    expect(second.outcome).toBe("served");
    expect(second.waitedMs).toBeLessThan(330);
    await pass(500);
    void cluster.stop(node(1));
    await pass(100);
    expect((await send(node(0), { subjects })).waitedMs).toBeLessThan(10);
  });
});

describe("money", () => {
  test("three nodes reserve what one node does", async () => {
    const reserved = async (count: number) => {
      const { cluster, node, send, pass } = await setUp(count);
      const request = { subjects: [money(1_000)], nano: 500, leastNano: 10, usedNano: 500, holdMs: 20 };
      const uses: number[] = [];
      for (let sent = 0; sent < 5; sent += 1) {
        const { outcome } = await send(node(sent % count), request);
        await pass(700);
        if (outcome === "served") uses.push(cluster.oracle.uses.at(-1)?.nano ?? 0);
      }
      return uses;
    };
    expect(await reserved(1)).toEqual([500, 500]);
    expect(await reserved(3)).toEqual([500, 500]);
  });

  test("a request is capped to the rest of a window, and rejected below its shortest output", async () => {
    const { cluster, node, send, pass } = await setUp(3);
    const request = { subjects: [money(1_000)], nano: 800, leastNano: 100, usedNano: 800, holdMs: 20 };
    expect((await send(node(0), request)).outcome).toBe("served");
    await pass(2_000);
    expect((await send(node(1), request)).outcome).toBe("served");
    expect(cluster.oracle.uses.at(-1)?.nano).toBe(200);
    await pass(2_000);
    expect((await send(node(2), request)).outcome).toBe("rejected");
  });
});

test("a window counts the requests that continue upstream when their node has stopped", async () => {
  const { node, send, pass, cluster } = await setUp(2);
  const request = { subjects: [money(1_000)], nano: 100, leastNano: 100, usedNano: 100 };
  for (let sent = 0; sent < 8; sent += 1) {
    expect((await send(node(0), { ...request, holdMs: 600_000 })).outcome).toBe("served");
    await pass(300);
  }
  void cluster.stop(node(0));
  await pass(5_000);
  let served = 0;
  for (let sent = 0; sent < 5; sent += 1) {
    if ((await send(node(0), request)).outcome === "served") served += 1;
    await pass(1_000);
  }
  expect(served).toBe(2);
});

test("a request that was admitted before its node was silent is not held after it has returned", async () => {
  const { node, send, pass } = await setUp(2);
  const subjects = [keySubject({ concurrency: 40 })];
  for (let sent = 0; sent < 4; sent += 1) void send(node(0), { subjects, holdMs: 60_000 });
  await pass(300);
  const admission = node(0).limitBorrower.limiter.admit(subjects, {});
  if (!admission.ok) throw new Error("the request was not admitted");
  expect(admission.lease.isHeld()).toBe(true);
  node(0).isCutOff = true;
  await pass(15_000);
  expect(admission.lease.isHeld()).toBe(false);
  node(0).isCutOff = false;
  await pass(5_000);
  expect((await send(node(0), { subjects })).outcome).toBe("served");
  expect(admission.lease.isHeld()).toBe(false);
});

test("a request stays held when the coordinator loses its state", async () => {
  const { node, send, pass, cluster } = await setUp(2);
  const subjects = [keySubject({ concurrency: 40 })];
  for (let sent = 0; sent < 4; sent += 1) void send(node(0), { subjects, holdMs: 60_000 });
  await pass(300);
  const admission = node(0).limitBorrower.limiter.admit(subjects, {});
  if (!admission.ok) throw new Error("the request was not admitted");
  for (const coordinator of cluster.coordinators) coordinator.loseState();
  await pass(4_000);
  expect(admission.lease.isHeld()).toBe(true);
});

describe("a killed node", () => {
  test("whose folder starts again frees its slots at once", async () => {
    const { node, send, cluster, pass } = await setUp(2);
    const subjects = [keySubject({ concurrency: 1 })];
    const [, killed] = cluster.nodes;
    if (killed === undefined) throw new Error("there is no node");
    expect((await send(killed, { subjects, holdMs: 600_000 })).outcome).toBe("served");
    cluster.kill(killed);
    expect((await send(node(0), { subjects })).outcome).toBe("timeout");
    void cluster.startNode(killed.folder);
    await pass(100);
    expect((await send(node(0), { subjects })).outcome).toBe("served");
  });

  test("that stays away keeps its slots until it is removed from the registry", async () => {
    const { node, send, cluster, pass } = await setUp(2);
    const subjects = [keySubject({ concurrency: 1 })];
    const [, killed] = cluster.nodes;
    if (killed === undefined) throw new Error("there is no node");
    await send(killed, { subjects, holdMs: 600_000 });
    cluster.kill(killed);
    await pass(60_000);
    expect((await send(node(0), { subjects })).outcome).toBe("timeout");
    await pass(20_000);
    expect((await send(node(0), { subjects })).outcome).toBe("served");
  });
});

test("minutes that stay closed after a kill are reported once", async () => {
  const { node, send, cluster, pass } = await setUp(2);
  const subjects = [keySubject({ rpm: 100 })];
  const [, killed] = cluster.nodes;
  if (killed === undefined) throw new Error("there is no node");
  cluster.kill(killed);
  void cluster.startNode(killed.folder);
  await pass(2_000);
  for (const coordinator of cluster.coordinators) coordinator.loseState();
  await pass(4_000);
  for (let sent = 0; sent < 3; sent += 1)
    expect((await send(node(0), { subjects })).outcome).not.toBe("served");
  expect(node(0).closed).toEqual([null]);
  await pass(70_000);
  expect((await send(node(0), { subjects })).outcome).toBe("served");
  expect(node(0).closed).toEqual([null]);
});

test("beside a node of an earlier version limits are lent; when it has ended, windows are read again", async () => {
  const older = { id: "of an earlier version", reachesCoordinator: true, hasLeft: false, isOlder: true };
  const { cluster, node, send, pass } = await setUp(2, [older]);
  expect((await send(node(0), { subjects: [money(100)], nano: 10 })).outcome).toBe("served");
  expect(cluster.readsAgain).toBe(0);
  cluster.older.pop();
  await pass(2_000);
  expect(cluster.readsAgain).toBe(2);
});

describe("without the coordinator", () => {
  async function lose(rule: "share" | "closed" | "open") {
    const cluster = new ModelCluster(2);
    cluster.lossRule = rule;
    await cluster.startNodes(2);
    cluster.faults.isFrozen = true;
    await cluster.time.runUntil(cluster.time.nowMs + 10_000);
    const count = (subjects: ModelRequest["subjects"]) =>
      cluster.nodes.map(({ limitBorrower }) => {
        let served = 0;
        while (
          served < 100 &&
          !limitBorrower.isClosed &&
          limitBorrower.limiter.admit(subjects, { nano: 1 }).ok
        )
          served += 1;
        return served;
      });
    return { cluster, count };
  }

  test("each node serves its share, all of the limit, or nothing, by the rule of the operator", async () => {
    const subjects = [keySubject({ rpm: 9 })];
    expect((await lose("share")).count(subjects)).toEqual([4, 4]);
    expect((await lose("open")).count(subjects)).toEqual([9, 9]);
    expect((await lose("closed")).count(subjects)).toEqual([0, 0]);
    // At least one.
    expect((await lose("share")).count([keySubject({ rpm: 1 })])).toEqual([1, 1]);
    // Nothing is known about a window that was not used before.
    expect((await lose("share")).count([money(1_000)])).toEqual([0, 0]);
  });

  test("each node uses its part of a window that it has used within the minute before", async () => {
    const countAfter = async (ms: number): Promise<number> => {
      const { cluster, node, send, pass } = await setUp(2);
      const subjects = [money(1_000)];
      await send(node(0), { subjects, nano: 100, usedNano: 100 });
      await pass(ms);
      cluster.faults.isFrozen = true;
      await pass(10_000);
      let used = 0;
      while (node(0).limitBorrower.limiter.admit(subjects, { nano: 10 }).ok) used += 10;
      return used;
    };
    expect(await countAfter(5_000)).toBe(450);
    expect(await countAfter(70_000)).toBe(0);
  });

  test("the part of a window ends with the loss, also if the node has kept its term", async () => {
    const { cluster, node, pass } = await setUp(2);
    const subjects = [money(1_000)];
    const readRest = () => node(0).limitBorrower.limiter.computeRemainingNano(subjects);
    void node(0).send({ subjects, nano: 100, usedNano: 100 });
    await pass(5_000);
    cluster.faults.isFrozen = true;
    await pass(2_500);
    expect(readRest()).toBe(450);
    cluster.faults.isFrozen = false;
    await pass(1_000);
    expect(readRest()).toBe(0);
  });

  test("what was used meanwhile counts afterwards", async () => {
    const { cluster, count } = await lose("open");
    const subjects = [keySubject({ rpm: 9 })];
    count(subjects);
    cluster.faults.isFrozen = false;
    await cluster.time.runUntil(cluster.time.nowMs + 5_000);
    const outcomes: string[] = [];
    for (const node of cluster.nodes) void node.send({ subjects }).then((outcome) => outcomes.push(outcome));
    await cluster.time.runUntil(cluster.time.nowMs + 5_000);
    expect(outcomes).toEqual(["rejected", "rejected"]);
  });

  test("a node that stops sends no more calls", async () => {
    const { node, send, pass, cluster } = await setUp(1);
    await send(node(0), { subjects: [keySubject({ rpm: 30 })] });
    node(0).isCutOff = true;
    await pass(6_000);
    expect(node(0).limitBorrower.state).toBe("lost");
    const stopped = node(0).limitBorrower.stop();
    await pass(5_000);
    await stopped;
    const before = cluster.calls;
    await pass(5_000);
    expect(cluster.calls).toBe(before);
  });

  test("a node that was killed in the same moment does not reach it, so the other serves its share at once", async () => {
    const { cluster, node, pass } = await setUp(2);
    const subjects = [keySubject({ rpm: 8 })];
    const [, killed] = cluster.nodes;
    if (killed === undefined) throw new Error("there is no node");
    cluster.kill(killed);
    cluster.faults.isFrozen = true;
    await pass(13_000);
    expect(node(0).limitBorrower.isReady).toBe(true);
    let served = 0;
    // The killed one still counts as a node: its share is not divided.
    while (served < 100 && node(0).limitBorrower.limiter.admit(subjects, {}).ok) served += 1;
    expect(served).toBe(4);
  });

  test("a node that starts meanwhile does not reach it either, and the others serve on", async () => {
    const { cluster, node, pass } = await setUp(2);
    cluster.faults.isFrozen = true;
    await pass(10_000);
    expect(node(0).limitBorrower.isReady).toBe(true);
    void cluster.startNode();
    for (let step = 0; step < 100; step += 1) {
      await pass(100);
      expect([node(0).limitBorrower.isReady, node(1).limitBorrower.isReady]).toEqual([true, true]);
    }
  });

  test("a node that alone is cut off uses what it holds, and is not ready", async () => {
    const { node, send, pass } = await setUp(3);
    const subjects = [keySubject({ rpm: 30 })];
    await send(node(0), { subjects });
    node(0).isCutOff = true;
    await pass(6_000);
    expect([node(0).limitBorrower.isReady, node(1).limitBorrower.isReady]).toEqual([false, true]);
    expect((await send(node(0), { subjects })).outcome).toBe("unavailable");
    node(0).isCutOff = false;
    await pass(6_000);
    expect(node(0).limitBorrower.isReady).toBe(true);
    expect((await send(node(0), { subjects })).outcome).toBe("served");
  });
});

describe("a coordinator that loses its state while a node is cut off from it alone", () => {
  async function cutOff(request: ModelRequest, untilLossMs: number) {
    const set = await setUp(3);
    const { node, pass, send, cluster, time } = set;
    await send(node(2), request);
    node(2).isCutOff = true;
    await pass(untilLossMs);
    for (const coordinator of cluster.coordinators) coordinator.loseState();
    const lostMs = time.nowMs;
    return {
      ...set,
      /** How long after the loss a request is served. */
      async waitFor(one: ModelRequest) {
        while (time.nowMs - lostMs < 200_000) {
          if ((await send(node(0), one)).outcome === "served") return time.nowMs - lostMs;
          await pass(100);
        }
        return Number.POSITIVE_INFINITY;
      },
    };
  }

  test("lends again when that node holds nothing and has published it: slots at once, minutes after a minute", async () => {
    const { waitFor, node } = await cutOff({ subjects: [keySubject({ concurrency: 2, rpm: 60 })] }, 1_000);
    expect(await waitFor({ subjects: [keySubject({ concurrency: 2 }, "k2")] })).toBeLessThan(13_000);
    const minutesMs = await waitFor({ subjects: [keySubject({ rpm: 60 }, "k3")] });
    expect(minutesMs).toBeGreaterThan(68_000);
    expect(minutesMs).toBeLessThan(75_000);
    expect(node(2).contact).toBe("left");
    expect(node(0).limitBorrower.isReady).toBe(true);
  });

  test("waits for a node with a request in flight, says so, and takes it for a frozen one after 75 seconds", async () => {
    const long = { subjects: [keySubject({ concurrency: 1 })], holdMs: 900_000 };
    const { waitFor, node, pass } = await cutOff(long, 20_000);
    expect(node(2).contact).toBe("lost");
    await pass(20_000);
    expect([node(0).contact, node(1).contact, node(0).limitBorrower.isReady]).toEqual([
      "closed",
      "closed",
      false,
    ]);
    expect(node(0).closed).toEqual([[node(2).id]]);
    const waitedMs = await waitFor({ subjects: [keySubject({ concurrency: 1 })] });
    expect(waitedMs).toBeGreaterThan(73_000);
    expect(waitedMs).toBeLessThan(85_000);
    // Another node has opened the epoch.
    await pass(2_000);
    expect([node(0).contact, node(0).limitBorrower.isReady]).toEqual(["up", true]);
  });

  test("a node that returns holds nothing until the others know it", async () => {
    const { waitFor, node, pass, send } = await cutOff({ subjects: [keySubject({ concurrency: 2 })] }, 1_000);
    await waitFor({ subjects: [keySubject({ concurrency: 2 })] });
    node(2).isCutOff = false;
    await pass(5_000);
    expect([node(2).contact, node(2).limitBorrower.isReady]).toEqual(["up", true]);
    expect((await send(node(2), { subjects: [keySubject({ concurrency: 2 })] })).outcome).toBe("served");
  });
});
