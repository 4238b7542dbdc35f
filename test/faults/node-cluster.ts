/**
 * Several gateway processes on one PostgreSQL server, each through a proxy of its own, and a simulator that keeps the
 * truth about all of their requests.
 */

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import type { LedgerEntry } from "../../simulator/ledger.ts";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { type Db, openDb } from "../../src/store/engine/db.ts";
import { toUsageRow, type UsageRow } from "../../src/store/usage/usage-row.ts";
import { SELECT_USAGE } from "../../src/store/usage/usage-values.ts";
import {
  type GatewayProcess,
  type Run,
  runCommand,
  startGatewayProcess,
} from "../support/gateway-process.ts";
import { PostgresServer, type PostgresSettings } from "../support/postgres-server.ts";
import { type SilentProxy, startSilentProxy } from "../support/silent-proxy.ts";

const MASTER_KEY = Buffer.alloc(32, 7).toString("base64");
const QUIET_WITHIN_MS = 90_000;
const READY_WITHIN_MS = 90_000;

export interface ClusterOptions {
  nodes: number;
  /** Gets the address of the simulator. */
  buildFile: (simulatorUrl: string) => object;
  settings?: PostgresSettings;
  /** Further environment of a node. */
  environment?: (node: number) => Readonly<Record<string, string>>;
  /** Prepares the folder of a node before it starts. */
  prepareFolder?: (folder: string, node: number) => void;
}

export class ClusterNode {
  readonly folder: string;
  readonly proxy: SilentProxy;
  readonly #environment: Readonly<Record<string, string>>;
  /** Whether the traffic includes it; a load balancer leaves out a node that does not answer. */
  isBalanced = true;
  #process: GatewayProcess | null = null;
  #output = "";

  constructor(folder: string, proxy: SilentProxy, environment: Readonly<Record<string, string>>) {
    this.folder = folder;
    this.proxy = proxy;
    this.#environment = environment;
  }

  get isRunning(): boolean {
    return this.#process !== null;
  }

  get url(): string {
    return this.#running().url;
  }

  get pid(): number {
    return this.#running().pid;
  }

  /** Everything that it printed, in all of its lives. */
  get output(): string {
    return this.#output + (this.#process?.output() ?? "");
  }

  async start(): Promise<void> {
    this.#process = await startGatewayProcess({
      folder: this.folder,
      args: ["--config", "gateway.yaml"],
      env: this.#environment,
      // Nodes look up the processes of their own host. Each node here has a host name of its own.
      wrapper: ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', basename(this.folder)],
    });
  }

  async kill(): Promise<void> {
    process.kill(this.pid, "SIGKILL");
    await this.#end();
  }

  async stop(): Promise<void> {
    if (this.#process === null) return;
    await this.#process.stop();
    await this.#end();
  }

  async isReady(): Promise<boolean> {
    if (this.#process === null) return false;
    const response = await fetch(`${this.url}/readyz`, { signal: AbortSignal.timeout(5_000) }).catch(
      () => null,
    );
    return response?.status === 200;
  }

  #running(): GatewayProcess {
    if (this.#process === null) throw new Error("the node does not run");
    return this.#process;
  }

  async #end(): Promise<void> {
    const ended = this.#running();
    this.#process = null;
    await ended.exited;
    this.#output += ended.output();
  }
}

export class NodeCluster {
  readonly nodes: readonly ClusterNode[];
  readonly simulator: Simulator;
  readonly #folder: string;
  #server: PostgresServer;
  #db: Db;

  private constructor(parts: {
    nodes: ClusterNode[];
    simulator: Simulator;
    folder: string;
    server: PostgresServer;
    db: Db;
  }) {
    this.nodes = parts.nodes;
    this.simulator = parts.simulator;
    this.#folder = parts.folder;
    this.#server = parts.server;
    this.#db = parts.db;
  }

  static async start(options: ClusterOptions): Promise<NodeCluster> {
    const folder = mkdtempSync(join(tmpdir(), "model-gateway-nodes-"));
    const server = await PostgresServer.create(() => options.settings ?? {});
    await server.run("CREATE DATABASE gateway");
    const simulator = startSimulator({ seed: 1, record: "full", tokens: "o200k" });
    const file = JSON.stringify(options.buildFile(simulator.url));
    const nodes: ClusterNode[] = [];
    for (let index = 0; index < options.nodes; index += 1) {
      const nodeFolder = join(folder, `node-${index}`);
      mkdirSync(nodeFolder);
      options.prepareFolder?.(nodeFolder, index);
      await Bun.write(join(nodeFolder, "gateway.yaml"), file);
      const proxy = startSilentProxy({ hostname: "127.0.0.1", port: server.port });
      const node = new ClusterNode(nodeFolder, proxy, {
        DATABASE_URL: `postgres://postgres@127.0.0.1:${proxy.port}/gateway`,
        MODEL_GATEWAY_MASTER_KEY: MASTER_KEY,
        DRAIN_DELAY: "0s",
        ...options.environment?.(index),
      });
      nodes.push(node);
      await node.start();
    }
    return new NodeCluster({ nodes, simulator, folder, server, db: await openDb(server.url("gateway")) });
  }

  get server(): PostgresServer {
    return this.#server;
  }

  get db(): Db {
    return this.#db;
  }

  /** A node that runs, by turns. */
  get nextUrl(): () => string {
    let turn = 0;
    return () => {
      const running = this.nodes.filter(({ isRunning, isBalanced }) => isRunning && isBalanced);
      const node = running[turn++ % running.length];
      if (node === undefined) throw new Error("no node runs");
      return node.url;
    };
  }

  /** From now on all nodes use this server. */
  async moveTo(server: PostgresServer): Promise<void> {
    await this.#db.close();
    await this.#server.remove();
    this.#server = server;
    for (const { proxy } of this.nodes) proxy.moveTo({ hostname: "127.0.0.1", port: server.port });
    this.#db = await openDb(server.url("gateway"));
  }

  /** The connection of this process, after a restart of the server. */
  async reconnect(): Promise<void> {
    await this.#db.close().catch(() => {});
    this.#db = await openDb(this.#server.url("gateway"));
  }

  /** Returns how long it took, in milliseconds. */
  async waitUntilReady(): Promise<number> {
    const beganMs = performance.now();
    for (const node of this.nodes) {
      while (!(await node.isReady())) {
        if (performance.now() - beganMs > READY_WITHIN_MS)
          throw new Error(`a node is not ready: ${node.output.slice(-2_000)}`);
        await Bun.sleep(50);
      }
    }
    return performance.now() - beganMs;
  }

  /** Requests that reached the simulator, when it has none in flight. */
  async readTruth(): Promise<LedgerEntry[]> {
    const { ledger } = this.simulator;
    const untilMs = performance.now() + QUIET_WITHIN_MS;
    while (ledger.totals().inFlight > 0) {
      if (performance.now() > untilMs) throw new Error("the simulator still has requests in flight");
      await Bun.sleep(10);
    }
    return ledger.entries();
  }

  async readRows(): Promise<UsageRow[]> {
    return (await this.#db.sql.text(SELECT_USAGE, [])).map(toUsageRow);
  }

  async count(table: "hold" | "incarnation"): Promise<number> {
    const [row] = await this.#db.sql.text(`SELECT COUNT(*) AS many FROM ${table}`, []);
    return Number(row?.many);
  }

  /** `model-gateway audit`, as an operator runs it. */
  audit(): Promise<Run> {
    const env = { DATABASE_URL: this.#server.url("gateway"), MODEL_GATEWAY_MASTER_KEY: MASTER_KEY };
    return runCommand(["audit"], { folder: this.#folder, env });
  }

  async stopNodes(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.stop()));
  }

  async stop(): Promise<void> {
    for (const node of this.nodes) if (node.isRunning) await node.kill();
    for (const { proxy } of this.nodes) proxy.stop();
    await this.#db.close().catch(() => {});
    await this.simulator.stop();
    await this.#server.remove();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
