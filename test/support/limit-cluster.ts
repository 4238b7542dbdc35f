/** Three gateway processes on one PostgreSQL database, a key with small limits, and the simulator's log of what arrived. */

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { type GatewayProcess, startGatewayProcess } from "./gateway-process.ts";
import { keySecret, PUBLIC_MODEL, poolFile } from "./pooled-gateway.ts";
import { startPostgres } from "./postgres.ts";

const MASTER_KEY = Buffer.alloc(32, 7).toString("base64");
const MINUTE_MS = 60_000;
/** Admission and arrival are two moments, which may lie this much further apart for one request than for another. */
const ROAD_MS = 500;
const KEY = "limited";

export interface LimitClusterOptions {
  readonly rpm: number;
  readonly concurrency: number;
  readonly nodes?: number;
  /** How long a response takes. */
  readonly responseMs?: number;
  readonly env?: Readonly<Record<string, string>>;
}

export interface LoadReport {
  served: number;
  refused: number;
  /** Neither served nor refused by a limit, without those that a killed node broke. */
  failed: Map<number, number>;
  /** The slowest refusal: how long a request waited for the other nodes. */
  slowestRefusalMs: number;
}

export class LimitCluster {
  readonly nodes: GatewayProcess[] = [];
  readonly upstream: Simulator;
  readonly report: LoadReport = { served: 0, refused: 0, failed: new Map(), slowestRefusalMs: 0 };
  readonly #folder = mkdtempSync(join(tmpdir(), "model-gateway-limits-"));
  readonly #options: LimitClusterOptions;
  readonly #env: Record<string, string>;
  readonly #stopPostgres: () => Promise<void>;
  #started = 0;
  #isLoaded = false;
  #clients: Promise<void>[] = [];

  private constructor(options: LimitClusterOptions, postgres: { url: string; stop(): Promise<void> }) {
    this.#options = options;
    this.upstream = startSimulator({});
    this.#stopPostgres = postgres.stop;
    this.#env = {
      DATABASE_URL: postgres.url,
      MODEL_GATEWAY_MASTER_KEY: MASTER_KEY,
      DRAIN_DELAY: "0s",
      ...options.env,
    };
  }

  static async start(options: LimitClusterOptions): Promise<LimitCluster> {
    const cluster = new LimitCluster(options, await startPostgres());
    for (let n = 0; n < (options.nodes ?? 3); n++) await cluster.addNode();
    return cluster;
  }

  /** A new node, in a folder of its own. */
  async addNode(): Promise<GatewayProcess> {
    const { rpm, concurrency, responseMs = 200 } = this.#options;
    const folder = join(this.#folder, `node-${this.#started++}`);
    mkdirSync(folder);
    const file = poolFile(
      {
        accounts: [{ models: { [PUBLIC_MODEL]: `sim-fast@first=${responseMs}ms` } }],
        keys: { [KEY]: { limits: { rpm, concurrency } } },
        group: { queue: { max_waiting: 50, timeout: "1s" } },
      },
      [this.upstream.url],
    );
    await Bun.write(join(folder, "gateway.yaml"), file);
    const node = await startGatewayProcess({ folder, args: ["--config", "gateway.yaml"], env: this.#env });
    this.nodes.push(node);
    return node;
  }

  /** Ends a node without giving it time for anything. */
  async kill(node: GatewayProcess): Promise<void> {
    this.nodes.splice(this.nodes.indexOf(node), 1);
    process.kill(node.pid, "SIGKILL");
    await node.exited;
  }

  /** Clients that send one request after another, each to any node. */
  startLoad(clients: number): void {
    this.#isLoaded = true;
    this.#clients = Array.from({ length: clients }, () => this.#runClient());
  }

  async stopLoad(): Promise<void> {
    this.#isLoaded = false;
    await Promise.all(this.#clients);
  }

  async #runClient(): Promise<void> {
    while (this.#isLoaded) {
      const node = this.nodes[Math.floor(Math.random() * this.nodes.length)];
      if (node !== undefined) await this.#send(node).catch(() => {});
      await Bun.sleep(20 + Math.random() * 200);
    }
  }

  async #send(node: GatewayProcess): Promise<void> {
    const startedMs = performance.now();
    const response = await fetch(`${node.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${keySecret(KEY)}`, "content-type": "application/json" },
      body: JSON.stringify({ model: PUBLIC_MODEL, messages: [{ role: "user", content: "hi" }] }),
    });
    const text = await response.text();
    const { report } = this;
    if (response.status === 200) report.served += 1;
    else if (response.status === 429) {
      report.refused += 1;
      if (!text.includes("concurrent"))
        report.slowestRefusalMs = Math.max(report.slowestRefusalMs, performance.now() - startedMs);
    } else report.failed.set(response.status, (report.failed.get(response.status) ?? 0) + 1);
  }

  /** The largest number of requests that arrived within any minute, by the simulator's log. */
  findPeak(): number {
    const arrivals = this.upstream.ledger
      .entries()
      .map(({ at }) => at)
      .sort((a, b) => a - b);
    let peak = 0;
    for (let first = 0, last = 0; last < arrivals.length; last++) {
      while ((arrivals[last] ?? 0) - (arrivals[first] ?? 0) >= MINUTE_MS - ROAD_MS) first++;
      peak = Math.max(peak, last - first + 1);
    }
    return peak;
  }

  countArrivals(): number {
    return this.upstream.ledger.entries().length;
  }

  findPeakInFlight(): number {
    return this.upstream.ledger.snapshot().totals.peakInFlight;
  }

  async stop(): Promise<void> {
    await this.stopLoad();
    await Promise.all(this.nodes.map((node) => node.stop()));
    await this.upstream.stop();
    await this.#stopPostgres();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
