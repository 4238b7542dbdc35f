/** What is done to the nodes of a cluster under traffic: killed, frozen, cut off from PostgreSQL, a full disk. */

import { closeSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "../support/eventually.ts";
import { checked, type FaultOptions, type Finding, figure } from "./fault.ts";
import type { ClusterNode, NodeCluster } from "./node-cluster.ts";
import type { RoutingSwitch } from "./routing-switch.ts";

/** A node is dead after a minute without a heartbeat; then another node looks for its holds every 15 s. */
const TAKEOVER_WITHIN_MS = 120_000;
const KILLS = 8;
const LIFE_MS = { least: 500, most: 4_000 };
/** A node notices within seven seconds that PostgreSQL does not respond. */
const UNREADY_WITHIN_MS = 12_000;
const PARTITION_MS = 13_000;
/** Longer than a load balancer takes to notice that a node is ready. */
const BETWEEN_UPGRADES_MS = 2_000;
const DISK_FULL_MS = 8_000;
const TMPFS_MB = 64;

export function pickNode(
  { nodes }: NodeCluster,
  index = Math.floor(Math.random() * nodes.length),
): ClusterNode {
  const node = nodes[index];
  if (node === undefined) throw new Error("there is no such node");
  return node;
}

async function readProcessIds({ db }: NodeCluster): Promise<string[]> {
  return (await db.sql`SELECT id FROM process ORDER BY id`).map(({ id }) => String(id));
}

/** Waits until the other nodes have settled the requests of a node and removed its record. */
async function waitForTakeover(cluster: NodeCluster, before: readonly string[]): Promise<Finding> {
  const beganMs = performance.now();
  await eventually(
    async () => (await readProcessIds(cluster)).filter((id) => before.includes(id)).length < before.length,
    TAKEOVER_WITHIN_MS,
  );
  return figure("taken over after, s", ((performance.now() - beganMs) / 1_000).toFixed(0));
}

export async function killAndRestart(cluster: NodeCluster, { times, say }: FaultOptions): Promise<Finding[]> {
  const kills = times ?? KILLS;
  for (let kill = 1; kill <= kills; kill += 1) {
    await Bun.sleep(LIFE_MS.least + Math.random() * (LIFE_MS.most - LIFE_MS.least));
    const node = pickNode(cluster);
    await node.kill();
    await node.start();
    say(`kill ${kill} of ${kills}`);
  }
  return [figure("kills", kills)];
}

/** Replaces all nodes by this version, one after the other, and then by the version that they began with. */
export async function upgradeAndReturn(
  cluster: NodeCluster,
  { otherVersion, say }: FaultOptions,
  routing: RoutingSwitch,
): Promise<Finding[]> {
  const findings = [figure("the other version", otherVersion === null ? "this one" : "given")];
  for (const [program, what] of [
    [undefined, "upgraded"],
    [otherVersion ?? undefined, "rolled back"],
  ] as const) {
    for (const [index, node] of cluster.nodes.entries()) {
      await node.replace(program);
      await cluster.waitUntilReady();
      await Bun.sleep(BETWEEN_UPGRADES_MS);
      if (what === "upgraded" && index === 0) findings.push(...(await routing.checkRejection()));
    }
    say(`all nodes ${what}`);
    if (what === "rolled back") continue;
    await routing.turnOn();
    await routing.turnOff();
  }
  return findings;
}

export async function killForGood(cluster: NodeCluster): Promise<Finding[]> {
  const before = await readProcessIds(cluster);
  const node = pickNode(cluster, 0);
  await node.kill();
  const taken = await waitForTakeover(cluster, before);
  await node.start();
  return [taken];
}

export async function freezeNode(cluster: NodeCluster): Promise<Finding[]> {
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

/** The packets between one node and PostgreSQL are dropped, without a reset. */
export async function partitionNode(cluster: NodeCluster): Promise<Finding[]> {
  const findings = await whileCutOff(cluster, () => Bun.sleep(PARTITION_MS));
  return [...findings, figure("without PostgreSQL for, s", PARTITION_MS / 1_000)];
}

/** The same until other nodes have settled the requests of the node, which still serves. */
export async function partitionUntilTakeover(cluster: NodeCluster): Promise<Finding[]> {
  const before = await readProcessIds(cluster);
  let taken: Finding | null = null;
  const findings = await whileCutOff(cluster, async () => {
    taken = await waitForTakeover(cluster, before);
  });
  return taken === null ? findings : [...findings, taken];
}

async function whileCutOff(cluster: NodeCluster, wait: () => Promise<void>): Promise<Finding[]> {
  const node = pickNode(cluster, 0);
  node.databaseLink.cut();
  // A load balancer leaves the node out when it reports that it is not ready.
  await Bun.sleep(UNREADY_WITHIN_MS);
  const isReady = await node.isReady();
  node.isBalanced = false;
  await wait();
  node.databaseLink.restore();
  await cluster.waitUntilReady();
  node.isBalanced = true;
  return [
    figure("cut by", cluster.databaseNetwork),
    checked("readiness of the node meanwhile", String(isReady), "false", !isReady),
  ];
}

/** Fills the file system of a node's folder. */
export async function fillDisk(cluster: NodeCluster): Promise<Finding[]> {
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

export function mountTmpfs(folder: string): void {
  const mounted = Bun.spawnSync(["mount", "-t", "tmpfs", "-o", `size=${TMPFS_MB}m`, "tmpfs", folder]);
  if (mounted.exitCode !== 0) throw new Error(`A tmpfs needs root: ${mounted.stderr.toString()}`);
}

export function unmount(folder: string): void {
  Bun.spawnSync(["umount", "-l", folder]);
}
