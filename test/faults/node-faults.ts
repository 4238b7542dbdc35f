/**
 * `npm run faults -- --nodes 3`: several nodes on one PostgreSQL, under traffic. Clients, usage rows and the simulator
 * must agree after each fault, and the audit must be clean.
 */

import { closeSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { readUsageRowsForm } from "../../src/store/usage/usage-partitions.ts";
import { eventually } from "../support/eventually.ts";
import type { Asked } from "./client.ts";
import { checked, type Fault, type FaultOptions, type Finding, none, told } from "./fault.ts";
import { listed, MUST_NOT, tariffsOf } from "./kill9.ts";
import { type ClusterNode, type ClusterOptions, NodeCluster } from "./node-cluster.ts";
import { nodesLastCent } from "./node-last-cent.ts";
import { reconcile } from "./reconcile.ts";
import { fileWith, keyOf, type Setup } from "./setup.ts";
import { FAULTY, MODELS, startTraffic } from "./traffic.ts";

const USERS = 6;
const isUnpaid = (user: number) => user === 0;
const PER_SECOND = 60;
const BEFORE_MS = 3_000;
const AFTER_MS = 4_000;
/** A node is dead after a minute without a heartbeat; then another node looks for its holds every 15 s. */
const TAKEOVER_WITHIN_MS = 120_000;
const SETTLED_WITHIN_MS = 150_000;
const KILLS = 8;
const LIFE_MS = { least: 500, most: 4_000 };
const SERVER_AWAY_MS = 8_000;
const SERVER_FROZEN_MS = 15_000;
const PARTITION_MS = 25_000;
const DISK_FULL_MS = 8_000;
const SKEWED_MS = 12_000;
const TMPFS_MB = 64;
const FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

const SETUP: Setup = {
  models: MODELS,
  faulty: FAULTY,
  users: USERS,
  balance: "5000.00",
  groups: [
    { name: "default", billing: { charge: "balance", multiplier: "1.3" } },
    { name: "drain", billing: { charge: "balance" }, on_disconnect: "drain" },
    { name: "unpaid", billing: { charge: "none" } },
  ],
  groupOf: (user) => (isUnpaid(user) ? "unpaid" : user % 2 === 0 ? "default" : "drain"),
};

interface Scenario extends Pick<ClusterOptions, "settings" | "environment" | "prepareFolder"> {
  /** Does something to the cluster under traffic, and returns what was seen of it. */
  strike(cluster: NodeCluster, options: FaultOptions): Promise<Finding[]>;
  /** Undoes what `prepareFolder` did, when no node runs. */
  cleanUp?(cluster: NodeCluster): void;
}

async function underTraffic(options: FaultOptions, scenario: Scenario): Promise<Finding[]> {
  const { nodes, say } = options;
  const cluster = await NodeCluster.start({ nodes, buildFile: (url) => fileWith(SETUP, url), ...scenario });
  const keys = Array.from({ length: USERS }, (_, user) => keyOf(user));
  const traffic = startTraffic(cluster.nextUrl, keys, PER_SECOND);
  try {
    await Bun.sleep(BEFORE_MS);
    const seen = await scenario.strike(cluster, options);
    const readyMs = await cluster.waitUntilReady();
    const overMs = Date.now();
    await Bun.sleep(AFTER_MS);
    const answers = await traffic.stop();
    say(`${answers.length} requests sent; waiting for the last settlements`);
    const truth = await cluster.readTruth();
    const holdsLeft = await waitUntilSettled(cluster);
    await cluster.stopNodes();
    const rows = await cluster.readRows();
    const tariffs = await tariffsOf(cluster);
    const unpaidKeys = new Set(keys.filter((_, user) => isUnpaid(user)));
    const one = reconcile({ asked: answers, rows, truth, tariffs, unpaidKeys, killedMs: null });
    const form = await readUsageRowsForm(cluster.db);
    const audit = await cluster.audit();
    const served = answers.filter(({ sentAtMs, status }) => sentAtMs >= overMs && status === 200).length;
    return [
      ...seen,
      told("all nodes ready again after, ms", readyMs.toFixed(0)),
      checked("served after it was over", served, "some", served > 0),
      told("client: sent / saw the end / cut off", `${one.asked} / ${one.whole} / ${one.cutByKill}`),
      told("rejected meanwhile, by error", describeErrors(answers)),
      told("usage rows, partitioned half a minute after the first start", form.kind),
      told("rows / of these recovered", `${one.rows} / ${one.recovered}`),
      told("completed, and to the token as the simulator produced it", one.exact),
      ...MUST_NOT.map(([name, what]) => none(what, listed(one, name))),
      checked("holds left", holdsLeft, "0", holdsLeft === 0),
      checked("settlements lost, by the log", countLost(cluster), "0", countLost(cluster) === 0),
      checked("audit", audit.output.trim(), "clean", audit.code === 0),
    ];
  } finally {
    const ended = traffic.stop();
    const { nodes: stopped } = cluster;
    for (const node of stopped) if (node.isRunning) process.kill(node.pid, "SIGCONT");
    for (const node of stopped) if (node.isRunning) await node.kill();
    await ended;
    scenario.cleanUp?.(cluster);
    await cluster.stop();
  }
}

async function waitUntilSettled(cluster: NodeCluster): Promise<number> {
  const untilMs = performance.now() + SETTLED_WITHIN_MS;
  for (;;) {
    const holds = await cluster.count("hold");
    if (holds === 0 || performance.now() > untilMs) return holds;
    await Bun.sleep(250);
  }
}

function countLost({ nodes }: NodeCluster): number {
  return nodes.reduce((sum, { output }) => sum + output.split('"settlement_lost"').length - 1, 0);
}

function describeErrors(answers: readonly Asked[]): string {
  const counts = new Map<string, number>();
  for (const { errorCode } of answers)
    if (errorCode !== null) counts.set(errorCode, (counts.get(errorCode) ?? 0) + 1);
  return [...counts].map(([code, many]) => `${many} ${code}`).join(", ") || "none";
}

function pickNode({ nodes }: NodeCluster, index = Math.floor(Math.random() * nodes.length)): ClusterNode {
  const node = nodes[index];
  if (node === undefined) throw new Error("there is no such node");
  return node;
}

async function readProcessIds({ db }: NodeCluster): Promise<string[]> {
  return (await db.sql`SELECT id FROM incarnation ORDER BY id`).map(({ id }) => String(id));
}

/** Waits until the other nodes have settled the requests of a node and removed its record. */
async function waitForTakeover(cluster: NodeCluster, before: readonly string[]): Promise<Finding> {
  const beganMs = performance.now();
  await eventually(
    async () => (await readProcessIds(cluster)).filter((id) => before.includes(id)).length < before.length,
    TAKEOVER_WITHIN_MS,
  );
  return told("taken over after, s", ((performance.now() - beganMs) / 1_000).toFixed(0));
}

async function killAndRestart(cluster: NodeCluster, { times, say }: FaultOptions): Promise<Finding[]> {
  const kills = times ?? KILLS;
  for (let kill = 1; kill <= kills; kill += 1) {
    await Bun.sleep(LIFE_MS.least + Math.random() * (LIFE_MS.most - LIFE_MS.least));
    const node = pickNode(cluster);
    await node.kill();
    await node.start();
    say(`kill ${kill} of ${kills}`);
  }
  return [told("kills", kills)];
}

async function killForGood(cluster: NodeCluster): Promise<Finding[]> {
  const before = await readProcessIds(cluster);
  const node = pickNode(cluster, 0);
  await node.kill();
  const taken = await waitForTakeover(cluster, before);
  await node.start();
  return [taken];
}

async function freezeNode(cluster: NodeCluster): Promise<Finding[]> {
  const before = await readProcessIds(cluster);
  const node = pickNode(cluster, 0);
  process.kill(node.pid, "SIGSTOP");
  // A load balancer needs a second to notice.
  await Bun.sleep(1_000);
  node.isBalanced = false;
  const taken = await waitForTakeover(cluster, before);
  process.kill(node.pid, "SIGCONT");
  await cluster.waitUntilReady();
  node.isBalanced = true;
  return [taken];
}

async function partitionNode(cluster: NodeCluster): Promise<Finding[]> {
  const node = pickNode(cluster, 0);
  node.proxy.silence({ andLater: true });
  await Bun.sleep(PARTITION_MS / 2);
  const isReady = await node.isReady();
  node.isBalanced = false;
  await Bun.sleep(PARTITION_MS / 2);
  node.proxy.pass();
  await cluster.waitUntilReady();
  node.isBalanced = true;
  return [
    told("without PostgreSQL for, s", PARTITION_MS / 1_000),
    checked("readiness of the node meanwhile", String(isReady), "false", !isReady),
  ];
}

async function stopServer(cluster: NodeCluster): Promise<Finding[]> {
  await cluster.server.stop("immediate");
  await Bun.sleep(SERVER_AWAY_MS);
  await cluster.server.start();
  await cluster.reconnect();
  return [told("away for, s", SERVER_AWAY_MS / 1_000)];
}

async function restartServer(cluster: NodeCluster, { times }: FaultOptions): Promise<Finding[]> {
  const restarts = times ?? 3;
  for (let restart = 1; restart <= restarts; restart += 1) {
    await cluster.server.stop(restart % 2 === 0 ? "immediate" : "fast");
    await cluster.server.start();
    await Bun.sleep(2_000);
  }
  await cluster.reconnect();
  return [told("restarts", restarts)];
}

async function freezeServer(cluster: NodeCluster): Promise<Finding[]> {
  cluster.server.freeze();
  await Bun.sleep(SERVER_FROZEN_MS);
  cluster.server.thaw();
  await cluster.reconnect();
  return [told("frozen for, s", SERVER_FROZEN_MS / 1_000)];
}

/** With a synchronous standby: every commit that was confirmed is on it. */
async function failOver(cluster: NodeCluster): Promise<Finding[]> {
  const { server: primary } = cluster;
  const standby = primary.copy(["-R"]);
  await standby.start();
  await primary.run("ALTER SYSTEM SET synchronous_standby_names = '*'");
  await primary.run("SELECT pg_reload_conf()");
  await eventually(async () => {
    const [row] = await primary.run("SELECT sync_state FROM pg_stat_replication");
    return row?.sync_state === "sync";
  });
  await Bun.sleep(BEFORE_MS);
  await primary.stop("immediate");
  const beganMs = performance.now();
  await standby.promote();
  await cluster.moveTo(standby);
  return [told("promoted within, ms", (performance.now() - beganMs).toFixed(0))];
}

/** Fills the file system of a node's folder. */
async function fillDisk(cluster: NodeCluster): Promise<Finding[]> {
  const filler = join(pickNode(cluster, 0).folder, "filler");
  const file = openSync(filler, "w");
  const block = Buffer.alloc(64 * 1024);
  let written = 0;
  try {
    for (;;) written += writeSync(file, block);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
  }
  closeSync(file);
  await Bun.sleep(DISK_FULL_MS);
  const isReady = await pickNode(cluster, 0).isReady();
  rmSync(filler);
  return [
    checked("bytes until the disk was full", written, "some", written > 0),
    checked("readiness of the node meanwhile", String(isReady), "false", !isReady),
  ];
}

function mountTmpfs(folder: string): void {
  const mounted = Bun.spawnSync(["mount", "-t", "tmpfs", "-o", `size=${TMPFS_MB}m`, "tmpfs", folder]);
  if (mounted.exitCode !== 0) throw new Error(`A tmpfs needs root: ${mounted.stderr.toString()}`);
}

function fault(name: string, promise: string, scenario: Scenario): Fault {
  return { name, promise, run: (options) => underTraffic(options, scenario) };
}

/** Seconds by which the clock of a node is wrong. */
const SKEWS_S = [0, 600, -600];

export const NODE_FAULTS: readonly Fault[] = [
  nodesLastCent,
  fault(
    "nodes-kill9",
    "a node is killed and starts again, several times: every token is charged exactly once",
    {
      strike: killAndRestart,
    },
  ),
  fault("nodes-takeover", "a node is killed, and others settle its requests before it starts again", {
    strike: killForGood,
  }),
  fault(
    "nodes-frozen",
    "a node is frozen, others settle its requests, and it returns: nothing is charged twice",
    {
      strike: freezeNode,
    },
  ),
  fault("nodes-partition", "a node loses its network to PostgreSQL without a reset, and gets it back", {
    strike: partitionNode,
  }),
  fault("nodes-clock", "the clocks of two nodes are ten minutes wrong, ahead and behind", {
    environment: (node) =>
      node % SKEWS_S.length === 0
        ? {}
        : {
            LD_PRELOAD: FAKETIME,
            FAKETIME: `${(SKEWS_S[node % SKEWS_S.length] ?? 0) > 0 ? "+" : ""}${SKEWS_S[node % SKEWS_S.length]}`,
          },
    async strike() {
      await Bun.sleep(SKEWED_MS);
      return [told("skews, s", SKEWS_S.join(" / "))];
    },
  }),
  fault("nodes-disk", "the disk of a node is full for eight seconds", {
    prepareFolder: (folder, node) => {
      if (node === 0) mountTmpfs(folder);
    },
    strike: fillDisk,
    cleanUp: (cluster) => void Bun.spawnSync(["umount", "-l", pickNode(cluster, 0).folder]),
  }),
  fault("pg-stop", "PostgreSQL is gone for eight seconds", { strike: stopServer }),
  fault("pg-restart", "PostgreSQL is restarted, several times", { strike: restartServer }),
  fault("pg-frozen", "PostgreSQL answers nothing for fifteen seconds", { strike: freezeServer }),
  fault("pg-failover", "PostgreSQL fails over to a synchronous standby: no confirmed charge is lost", {
    strike: failOver,
  }),
];
