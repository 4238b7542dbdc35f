/**
 * A third node starts while two others serve, on a database with 1.4 million hourly sums of which all count for the
 * window of a group. The same start without the sums is the comparison.
 */

import { DAY_MS } from "../../src/base/time.ts";
import type { Db } from "../../src/store/engine/db.ts";
import { markWindowsUnread } from "../../src/store/engine/limit-coordination.ts";
import { foldDay, startOfDay } from "../../src/store/usage/usage-day.ts";
import type { GatewayProcess } from "../support/gateway-process.ts";
import { paidFile } from "../support/paid-gateway.ts";
import { PaidNodes } from "../support/paid-nodes.ts";
import { startPostgres } from "../support/postgres.ts";
import type { LimitsRunOptions } from "./limits-over-nodes.ts";

const KEYS = 1_950;
const HOURS = 720;
const CLIENTS = 8;
const STEADY_MS = 5_000;
/** The goals of the design, beyond what the start takes without sums. */
const START_MS_MAX = 3_000;
const PAUSE_MS_MAX = 50;
const WINDOW = { windows: [{ per: "30d", usd: "1" }] };
const FILE = paidFile({
  billing: { charge: "none" },
  models: { paid: { upstream: "sim-fast", price: { input: "0.1", output: "0.4" } } },
  group: { limits: WINDOW, group_limits: WINDOW },
});

export async function startWithSums({ say }: LimitsRunOptions): Promise<string> {
  const postgres = await startPostgres();
  const cluster = await PaidNodes.open(postgres.url, FILE);
  try {
    const serving = [await cluster.start("node-0"), await cluster.start("node-1")];
    const load = new SteadyLoad(cluster, serving);
    const empty = await measureStart(cluster, load);
    say(`without sums: ${describe(empty)}`);
    const sums = await insertSums(cluster.db);
    const full = await measureStart(cluster, load);
    say(`with ${sums} sums: ${describe(full)}`);
    await load.stop();
    if (full.startMs > empty.startMs + START_MS_MAX) throw new Error(`the start took ${describe(full)}`);
    if (full.longestMs > empty.longestMs + PAUSE_MS_MAX) throw new Error(`others paused: ${describe(full)}`);
    return `${sums} sums: ${describe(full)}; without: ${describe(empty)}`;
  } finally {
    await cluster.close();
    await postgres.stop();
  }
}

interface Start {
  readonly startMs: number;
  /** Of the first request that the new node serves. */
  readonly firstMs: number;
  /** The longest request of the others during the start. */
  readonly longestMs: number;
}

function describe({ startMs, firstMs, longestMs }: Start): string {
  const [start, first, longest] = [startMs, firstMs, longestMs].map((ms) => ms.toFixed(0));
  return `ready after ${start} ms, its first request ${first} ms, the longest of the others ${longest} ms`;
}

async function measureStart(cluster: PaidNodes, load: SteadyLoad): Promise<Start> {
  await Bun.sleep(STEADY_MS);
  load.takeLongestMs();
  // As after a kill or an upgrade: the next call about a window reads its sums.
  await markWindowsUnread(cluster.db);
  const startedMs = performance.now();
  const node = await cluster.start("node-2");
  while ((await fetch(`${node.url}/readyz`)).status !== 200) await Bun.sleep(20);
  const startMs = performance.now() - startedMs;
  const firstMs = await load.send(node);
  await Bun.sleep(STEADY_MS);
  const longestMs = load.takeLongestMs();
  await cluster.stop(node);
  return { startMs, firstMs, longestMs };
}

/** Clients that send one request after another, to each node in turn. */
class SteadyLoad {
  readonly #cluster: PaidNodes;
  readonly #clients: Promise<void>[];
  #longestMs = 0;
  #isStopped = false;

  constructor(cluster: PaidNodes, nodes: readonly GatewayProcess[]) {
    this.#cluster = cluster;
    this.#clients = Array.from({ length: CLIENTS }, (_, index) => this.#run(nodes, index));
  }

  /** Since the last call. */
  takeLongestMs(): number {
    const longestMs = this.#longestMs;
    this.#longestMs = 0;
    return longestMs;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#clients);
  }

  async send(node: GatewayProcess): Promise<number> {
    const startedMs = performance.now();
    const body = { model: "paid", input: "Hello", max_output_tokens: 16 };
    const response = await this.#cluster.call(node, "POST", "/responses", body);
    const text = await response.text();
    if (response.status !== 200) throw new Error(`${response.status}: ${text}`);
    return performance.now() - startedMs;
  }

  async #run(nodes: readonly GatewayProcess[], first: number): Promise<void> {
    for (let turn = first; !this.#isStopped; turn++) {
      const node = nodes[turn % nodes.length];
      if (node !== undefined) this.#longestMs = Math.max(this.#longestMs, await this.send(node));
      await Bun.sleep(50);
    }
  }
}

/** Each hour of the last 30 days, for each key: together far less than the windows allow. Returns how many. */
async function insertSums(db: Db): Promise<number> {
  const nowMs = Date.now();
  await db.sql`
    INSERT INTO usage_hour (key_id, hour_ms, group_id, public_model, interface, requests, refused, failed,
      input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens, images, cost_nano)
    SELECT k.id, (CAST(${nowMs} AS BIGINT) / 3600000 - h) * 3600000, g.id, 'earlier', 'responses', 1, 0, 0,
      10, 0, 0, 5, 0, 0, 100
    FROM key_group g, generate_series(1, CAST(${HOURS - 1} AS BIGINT)) AS h,
      (SELECT id FROM api_key UNION ALL SELECT 'past' || n FROM generate_series(2, CAST(${KEYS} AS BIGINT)) AS n) AS k
    WHERE g.name = 'paying'`;
  for (let dayMs = startOfDay(nowMs) - 30 * DAY_MS; dayMs <= nowMs; dayMs += DAY_MS)
    await foldDay(db, dayMs, dayMs);
  await db.sql.script("ANALYZE usage_hour, usage_day");
  const [sums] = await db.sql`SELECT COUNT(*) AS sums FROM usage_hour`;
  return Number(sums?.sums);
}
