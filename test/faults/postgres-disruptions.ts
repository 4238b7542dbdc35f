/** What is done to the PostgreSQL server of a cluster under traffic: stopped, restarted, frozen, failed over. */

import { rmSync } from "node:fs";
import { join } from "node:path";
import { openDb } from "../../src/store/engine/db.ts";
import { toUsageRow, type UsageRow } from "../../src/store/usage/usage-row.ts";
import { SELECT_USAGE } from "../../src/store/usage/usage-values.ts";
import { eventually } from "../support/eventually.ts";
import type { PostgresServer } from "../support/postgres-server.ts";
import { Standby } from "../support/standby.ts";
import { checked, type FaultOptions, type Finding, figure, none } from "./fault.ts";
import type { NodeCluster } from "./node-cluster.ts";
import { pickNode } from "./node-disruptions.ts";

const SERVER_AWAY_MS = 8_000;
const SERVER_FROZEN_MS = 15_000;
const BEFORE_FAILOVER_MS = 3_000;
/** The standby has not received the commits of this time. */
const LOST_MS = 1_000;

export async function stopServer(cluster: NodeCluster): Promise<Finding[]> {
  await cluster.server.stop("immediate");
  await Bun.sleep(SERVER_AWAY_MS);
  await cluster.server.start();
  await cluster.reconnect();
  return [figure("away for, s", SERVER_AWAY_MS / 1_000)];
}

export async function restartServer(cluster: NodeCluster, { times }: FaultOptions): Promise<Finding[]> {
  const restarts = times ?? 3;
  for (let restart = 1; restart <= restarts; restart += 1) {
    await cluster.server.stop(restart % 2 === 0 ? "immediate" : "fast");
    await cluster.server.start();
    await Bun.sleep(2_000);
  }
  await cluster.reconnect();
  return [figure("restarts", restarts)];
}

export async function freezeServer(cluster: NodeCluster): Promise<Finding[]> {
  cluster.server.freeze();
  await Bun.sleep(SERVER_FROZEN_MS);
  cluster.server.thaw();
  await cluster.reconnect();
  return [figure("frozen for, s", SERVER_FROZEN_MS / 1_000)];
}

/** With a synchronous standby: every commit that was confirmed is on it. */
export async function failOver(cluster: NodeCluster): Promise<Finding[]> {
  const standby = await startSynchronousStandby(cluster.server);
  await Bun.sleep(BEFORE_FAILOVER_MS);
  await cluster.server.stop("immediate");
  return promote(cluster, standby);
}

/** The same, and a node dies at the same moment and loses its folder: only PostgreSQL has its settlements. */
export async function failOverAndLoseNode(cluster: NodeCluster): Promise<Finding[]> {
  const standby = await startSynchronousStandby(cluster.server);
  await Bun.sleep(BEFORE_FAILOVER_MS);
  const node = pickNode(cluster, 0);
  await Promise.all([cluster.server.stop("immediate"), node.kill()]);
  rmSync(join(node.folder, "data"), { recursive: true, force: true });
  const findings = await promote(cluster, standby);
  await node.start();
  return findings;
}

async function startSynchronousStandby(primary: PostgresServer): Promise<PostgresServer> {
  const standby = primary.copy(["-R"]);
  await standby.start();
  await primary.run("ALTER SYSTEM SET synchronous_standby_names = '*'");
  await primary.run("SELECT pg_reload_conf()");
  await eventually(async () => {
    const [row] = await primary.run("SELECT sync_state FROM pg_stat_replication");
    return row?.sync_state === "sync";
  });
  return standby;
}

async function promote(cluster: NodeCluster, standby: PostgresServer): Promise<Finding[]> {
  const beganMs = performance.now();
  await standby.promote();
  const former = await cluster.moveTo(standby);
  await former.remove();
  return [figure("promoted within, ms", (performance.now() - beganMs).toFixed(0))];
}

/** A failover to a standby that had not received the last second, and the comparison with the former primary. */
export class AsynchronousFailover {
  /** Rows that the former primary had and the standby had not. */
  #lost: UsageRow[] = [];

  async disrupt(cluster: NodeCluster): Promise<Finding[]> {
    const primary = cluster.server;
    const standby = await Standby.start(primary);
    await Bun.sleep(BEFORE_FAILOVER_MS);
    await standby.catchUp();
    standby.stopReplication();
    await Bun.sleep(LOST_MS);
    await primary.stop("immediate");
    await standby.promote();
    const received = new Set((await readRows(standby.server)).map(({ requestId }) => requestId));
    await cluster.moveTo(standby.server);
    // No node reaches the former primary any more: it only shows what it had.
    await primary.start();
    this.#lost = (await readRows(primary)).filter(({ requestId }) => !received.has(requestId));
    await primary.remove();
    return [
      checked(
        "lost with the primary, requests",
        this.#lost.length,
        "some, or the fault shows nothing",
        this.#lost.length > 0,
      ),
      figure("lost with the primary, nano-dollars", sumCharges(this.#lost)),
    ];
  }

  /** Compares the rows at the end with those that were lost. */
  compare(rows: readonly UsageRow[]): Finding[] {
    const rowById = new Map(rows.map((row) => [row.requestId, row]));
    const again = this.#lost.filter(({ requestId }) => rowById.has(requestId));
    const other = again.filter(
      ({ requestId, chargedNano }) => rowById.get(requestId)?.chargedNano !== chargedNano,
    );
    return [
      figure("of these booked again by their nodes", again.length),
      none("lost for good", this.#lost.filter(({ requestId }) => !rowById.has(requestId)).map(describeRow)),
      none("booked again with another charge", other.map(describeRow)),
    ];
  }
}

async function readRows(server: PostgresServer): Promise<UsageRow[]> {
  const db = await openDb(server.url("gateway"));
  try {
    return (await db.sql.text(SELECT_USAGE, [])).map(toUsageRow);
  } finally {
    await db.close();
  }
}

const sumCharges = (rows: readonly UsageRow[]) =>
  rows.reduce((sum, { chargedNano }) => sum + chargedNano, 0n);
const describeRow = ({ requestId, publicModel, chargedNano }: UsageRow) =>
  `${requestId} ${publicModel} ${chargedNano}`;
