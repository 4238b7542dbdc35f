/**
 * Limits over several nodes against an exact oracle, in virtual time: no limit is exceeded, through kills, freezes, cuts,
 * lost messages, a coordinator that loses its state, and clocks that are set.
 */

import { expect, setDefaultTimeout, test } from "bun:test";
import {
  keySubject,
  ModelCluster,
  type ModelNode,
  type ModelRequest,
} from "./borrower-cluster.test-support.ts";

setDefaultTimeout(20_000 * Number(process.env.MODEL_RUNS ?? 6));

const RUNS = Number(process.env.MODEL_RUNS ?? 6);
const FIRST_SEED = Number(process.env.MODEL_SEED ?? 1);
const HOUR_MS = 3_600_000;

/** Sends requests at random times to nodes at random, until the time is over. */
function sendLoad(
  cluster: ModelCluster,
  { everyMs, untilMs, request }: { everyMs: number; untilMs: number; request(): ModelRequest },
): void {
  const { time, random, nodes } = cluster;
  const next = () => {
    if (time.nowMs >= untilMs) return;
    void nodes[Math.floor(random() * nodes.length)]?.send(request());
    time.after(-Math.log(1 - random()) * everyMs, next);
  };
  next();
}

type Disruption = (cluster: ModelCluster, node: ModelNode) => void;

const DISRUPTIONS: Readonly<Record<string, Disruption>> = {
  kill(cluster, node) {
    cluster.burialMs = cluster.random() < 0.5 ? cluster.random() * 5_000 : 70_000;
    cluster.kill(node);
    const isSameFolder = cluster.random() < 0.7;
    if (!isSameFolder) cluster.loseFolder(node.folder);
    cluster.time.after(500 + cluster.random() * 5_000, () => {
      void cluster.startNode(isSameFolder ? node.folder : undefined);
    });
  },
  freeze(cluster, node) {
    node.freeze(cluster.random() ** 2 * 55_000);
  },
  cut(cluster, node) {
    node.isCutOff = true;
    cluster.time.after(cluster.random() ** 2 * 40_000, () => {
      node.isCutOff = false;
    });
  },
  /** For longer than a process that has ended stays registered. */
  stayAway(cluster, node) {
    node.isCutOff = true;
    cluster.time.after(60_000 + cluster.random() * 60_000, () => {
      node.isCutOff = false;
    });
  },
  loseState(cluster) {
    for (const coordinator of cluster.coordinators) if (cluster.random() < 0.7) coordinator.loseState();
  },
  setClock(cluster) {
    cluster.serverStepMs += (cluster.random() - 0.5) * 1_200_000;
  },
};

async function disturb(cluster: ModelCluster, kinds: readonly string[], untilMs: number): Promise<void> {
  const { time, random, nodes } = cluster;
  while (time.nowMs < untilMs) {
    await time.runUntil(time.nowMs + 2_000 + random() * 12_000);
    const kind = kinds[Math.floor(random() * kinds.length)] ?? "";
    const node = nodes[Math.floor(random() * nodes.length)];
    // One node is always up: otherwise nothing corrects a clock that was set.
    const others = nodes.filter((one) => one !== node && !one.isFrozen && !one.isCutOff);
    if (node !== undefined && others.length > 0) DISRUPTIONS[kind]?.(cluster, node);
  }
}

const FAULTS = [
  ["no fault", []],
  ["kills", ["kill"]],
  ["freezes", ["freeze"]],
  ["cuts", ["cut"]],
  ["a clock that is set", ["setClock"]],
  ["a coordinator that loses its state", ["loseState"]],
  ["a coordinator that loses its state while nodes stay away", ["loseState", "stayAway"]],
  ["all of them", Object.keys(DISRUPTIONS)],
] as const;

test.each(FAULTS.map(([name, kinds]) => [name, kinds] as const))(
  "no limit of a minute and no concurrency is exceeded through %s",
  async (_, kinds) => {
    let served = 0;
    for (let seed = FIRST_SEED; seed < FIRST_SEED + RUNS; seed++) {
      const cluster = new ModelCluster(seed * 7_919);
      // While all nodes have lost the coordinator, `share` is not exact.
      cluster.lossRule = "closed";
      const { time, oracle, random } = cluster;
      await cluster.startNodes(3);
      cluster.faults.loss = kinds.length === 0 ? 0 : 0.02;
      const key = keySubject({ rpm: 60, tpm: 4_000, concurrency: 4 }, "a");
      const group = { ...keySubject({ rpm: 100, concurrency: 2 }, "g"), scope: "group" as const };
      const untilMs = 240_000;
      sendLoad(cluster, {
        everyMs: 300,
        untilMs,
        request: () => {
          const tokens = 20 + Math.floor(random() * 100);
          return {
            key: random() < 0.5 ? "k1" : "k2",
            subjects: [key, group],
            tokens,
            usedTokens: Math.floor(tokens * random()),
            holdMs: random() * 1_500,
          };
        },
      });
      await disturb(cluster, kinds, untilMs);
      await time.runUntil(untilMs + 10_000);
      const found = {
        seed,
        requests: oracle.findPeak("key a", "requests"),
        tokens: oracle.findPeak("key a", "tokens"),
        slots: oracle.peaks.get("key a") ?? 0,
        groupSlots: oracle.peaks.get("group g") ?? 0,
      };
      const isWithin =
        found.requests <= 60 && found.tokens <= 4_000 && found.slots <= 4 && found.groupSlots <= 2;
      expect({ ...found, isWithin }).toEqual({ ...found, isWithin: true });
      served += oracle.uses.length;
    }
    // A run may be closed for most of its time: after a loss of state, until the use of ended processes has expired.
    expect(served).toBeGreaterThan(20 * RUNS);
  },
);

test.each(FAULTS.map(([name, kinds]) => [name, kinds] as const))(
  "no window of money is exceeded through %s",
  async (_, kinds) => {
    let served = 0;
    for (let seed = FIRST_SEED; seed < FIRST_SEED + RUNS; seed++) {
      const cluster = new ModelCluster(seed * 104_729, { hasOwnWindows: seed % 2 === 0 });
      cluster.lossRule = "closed";
      const { time, oracle, random } = cluster;
      await cluster.startNodes(3);
      cluster.faults.loss = kinds.length === 0 ? 0 : 0.02;
      const window = { perMs: HOUR_MS, requests: null, tokens: null, nano: 10_000 };
      const subject = keySubject({ windows: [window], concurrency: 6 }, "m");
      const untilMs = 150_000;
      sendLoad(cluster, {
        everyMs: 800,
        untilMs,
        request: () => ({
          subjects: [subject],
          nano: 500,
          leastNano: 20,
          usedNano: 20 + Math.floor(random() ** 3 * 480),
          holdMs: random() * 4_000,
        }),
      });
      await disturb(cluster, kinds, untilMs);
      await time.runUntil(untilMs + 10_000);
      expect(oracle.findPeak("key m", "nano", HOUR_MS)).toBeLessThanOrEqual(10_000);
      expect(oracle.peaks.get("key m") ?? 0).toBeLessThanOrEqual(6);
      served += oracle.uses.length;
    }
    // A run may be closed for most of its time: after a loss of state, until the use of ended processes has expired.
    expect(served).toBeGreaterThan(20 * RUNS);
  },
);

test("a coordinator that loses its state lends again, also if a node stays cut off from it alone", async () => {
  for (let seed = FIRST_SEED; seed < FIRST_SEED + RUNS; seed++) {
    const cluster = new ModelCluster(seed * 15_485_863, { hasOwnWindows: seed % 2 === 0 });
    const { time, oracle, random, nodes } = cluster;
    await cluster.startNodes(3);
    cluster.faults.loss = 0.02;
    const slots = keySubject({ concurrency: 4 }, "s");
    const minutes = keySubject({ rpm: 60 }, "m");
    const untilMs = 200_000;
    sendLoad(cluster, {
      everyMs: 300,
      untilMs,
      request: () => ({ subjects: [random() < 0.5 ? slots : minutes], holdMs: random() ** 3 * 30_000 }),
    });
    const [first, last] = [nodes[0], nodes[2]];
    if (first === undefined || last === undefined) throw new Error("there is no node");
    const cutMs = 5_000 + random() * 30_000;
    const lossMs = cutMs + random() ** 2 * 40_000;
    time.after(cutMs, () => {
      last.isCutOff = true;
    });
    time.after(lossMs, () => cluster.coordinators[0]?.loseState());
    await time.runUntil(untilMs);
    // It left when its requests had ended, or was taken for a frozen one after 75 seconds.
    const openMs = lossMs + 85_000;
    for (const subject of ["key s", "key m"])
      expect({ seed, subject, isServed: oracle.count(subject, openMs, openMs + 15_000) > 0 }).toEqual({
        seed,
        subject,
        isServed: true,
      });
    expect(oracle.peaks.get("key s") ?? 0).toBeLessThanOrEqual(4);
    expect(oracle.findPeak("key m", "requests")).toBeLessThanOrEqual(60);
    expect(first.limitBorrower.isReady).toBe(true);
  }
});
