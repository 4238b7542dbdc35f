/**
 * Several gateway processes on one PostgreSQL server, each with its own data folder, host name and way to the server: a
 * proxy, or an interface of its own network namespace. One simulator keeps the truth about all of their requests.
 */

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import type { LedgerEntry } from "../../simulator/ledger.ts";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { type Db, openDb } from "../../src/store/engine/db.ts";
import { toUsageRow, type UsageRow } from "../../src/store/usage/usage-row.ts";
import { SELECT_USAGE } from "../../src/store/usage/usage-values.ts";
import { eventually } from "../support/eventually.ts";
import {
  type GatewayProcess,
  type Run,
  runCommand,
  startGatewayProcess,
} from "../support/gateway-process.ts";
import type { PostgresServer, PostgresSettings } from "../support/postgres-server.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";
import type { SilentProxy } from "../support/silent-proxy.ts";
import { checked, type Finding } from "./fault.ts";
import { NodeNetwork } from "./node-network.ts";
import { type DatabaseLink, type NodePlace, openProxy, startDatabase, useNamespace } from "./node-places.ts";

const MASTER_KEY = Buffer.alloc(32, 7).toString("base64");
const QUIET_WITHIN_MS = 90_000;
const READY_WITHIN_MS = 90_000;
const UNDER_HOST_NAME = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"'];
const READINESS_CHECK_MS = 1_000;

export interface ClusterOptions {
  nodes: number;
  /** Gets the address of the simulator. */
  buildFile: (simulatorUrl: string) => object;
  settings?: PostgresSettings;
  /** Further environment of a node. */
  environment?: (node: number) => Readonly<Record<string, string>>;
  /** Prepares the folder of a node before it starts. */
  prepareFolder?: (folder: string, node: number) => void;
  /** Where permitted, each node gets a network namespace, and the database is reached without a proxy. */
  wantsNamespaces?: boolean;
  /** A Redis or Valkey coordinates the limits of the nodes. */
  withRedis?: boolean;
  /** Requests go only to nodes that are ready, as by a load balancer, unless none is. */
  checksReadiness?: boolean;
  /** The root folder of the version that the nodes begin with; this version unless set. */
  program?: string | undefined;
}

/** Runs one work after another. */
class Turns {
  #last: Promise<unknown> = Promise.resolve();

  take<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => {});
    return done;
  }
}

interface NodeOptions extends NodePlace {
  folder: string;
  /** A node that starts reads its file, and applies it a moment later: nothing else applies one meanwhile. */
  turns: Turns;
  program: string | undefined;
}

export class ClusterNode {
  readonly folder: string;
  readonly databaseLink: DatabaseLink;
  readonly #environment: Readonly<Record<string, string>>;
  readonly #wrapper: readonly string[];
  readonly #turns: Turns;
  /** Whether the traffic includes it; a load balancer leaves out a node that does not respond. */
  isBalanced = true;
  /** By the last check of its readiness, if it is checked. */
  hasPassedCheck = true;
  #program: string | undefined;
  #process: GatewayProcess | null = null;
  #output = "";

  constructor({ folder, environment, wrapper, databaseLink, program, turns }: NodeOptions) {
    this.folder = folder;
    this.#turns = turns;
    this.#program = program;
    this.databaseLink = databaseLink;
    this.#environment = environment;
    this.#wrapper = wrapper;
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

  /** Everything that its processes printed. */
  get output(): string {
    return this.#output + (this.#process?.output() ?? "");
  }

  /** Replaces the result of the last check. The node may be killed meanwhile. */
  async checkReadiness(): Promise<void> {
    const checked = this.#process;
    const isReady = await this.isReady();
    if (checked === this.#process) this.hasPassedCheck = isReady;
  }

  async start(): Promise<void> {
    this.#process = await this.#turns.take(() =>
      startGatewayProcess({
        folder: this.folder,
        args: ["--config", "gateway.yaml"],
        env: this.#environment,
        ...(this.#program === undefined ? {} : { program: this.#program }),
        // Nodes look up the processes of their own host. Each node here has a host name of its own.
        wrapper: [...this.#wrapper, ...UNDER_HOST_NAME, basename(this.folder)],
      }),
    );
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

  /** As a rolling upgrade does it: SIGTERM, and another version once all requests have ended. */
  async replace(program: string | undefined): Promise<void> {
    this.#running().signal("SIGTERM");
    await this.#running().exited;
    await this.#end();
    this.#program = program;
    await this.start();
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
    this.hasPassedCheck = false;
    await ended.exited;
    this.#output += ended.output();
  }
}

interface ClusterParts {
  nodes: readonly ClusterNode[];
  proxies: readonly SilentProxy[];
  network: NodeNetwork | null;
  networkFailure: string;
  simulator: Simulator;
  folder: string;
  server: PostgresServer;
  db: Db;
  redis: TestRedis | null;
  turns: Turns;
}

export class NodeCluster {
  readonly nodes: readonly ClusterNode[];
  readonly simulator: Simulator;
  readonly #parts: ClusterParts;
  #server: PostgresServer;
  #db: Db;
  #turn = 0;
  #readinessTimer: ReturnType<typeof setInterval> | null = null;

  private constructor(parts: ClusterParts) {
    this.nodes = parts.nodes;
    this.simulator = parts.simulator;
    this.#parts = parts;
    this.#server = parts.server;
    this.#db = parts.db;
  }

  static async start(options: ClusterOptions): Promise<NodeCluster> {
    const folder = mkdtempSync(join(tmpdir(), "model-gateway-nodes-"));
    const { network, reason } = options.wantsNamespaces
      ? NodeNetwork.create(options.nodes)
      : { network: null, reason: "" };
    const server = await startDatabase(options.settings ?? {}, network);
    const simulator = startSimulator({
      seed: 1,
      record: "full",
      tokens: "o200k",
      ...(network === null ? {} : { hostname: network.simulatorHost }),
    });
    const file = JSON.stringify(options.buildFile(simulator.url));
    // In a namespace a node does not reach the loopback interface of the host.
    const redis = options.withRedis ? await startRedis(network?.databaseHost) : null;
    const turns = new Turns();
    const nodes: ClusterNode[] = [];
    const proxies: SilentProxy[] = [];
    for (let index = 0; index < options.nodes; index += 1) {
      const nodeFolder = join(folder, `node-${index}`);
      mkdirSync(nodeFolder);
      options.prepareFolder?.(nodeFolder, index);
      await Bun.write(join(nodeFolder, "gateway.yaml"), file);
      const place = network === null ? openProxy(server, proxies) : useNamespace(server, network, index);
      const environment = {
        MODEL_GATEWAY_MASTER_KEY: MASTER_KEY,
        DRAIN_DELAY: "0s",
        ...(redis === null ? {} : { REDIS_URL: redis.url }),
        ...place.environment,
        ...options.environment?.(index),
      };
      const { program } = options;
      nodes.push(new ClusterNode({ ...place, folder: nodeFolder, environment, program, turns }));
    }
    const db = await openDb(server.url("gateway"));
    const own = { nodes, proxies, simulator, folder, server, db, redis, turns };
    const parts = { ...own, network, networkFailure: reason };
    const cluster = new NodeCluster(parts);
    try {
      for (const node of nodes) await node.start();
      if (options.checksReadiness) cluster.#startReadinessChecks();
    } catch (error) {
      await cluster.stop();
      throw error;
    }
    return cluster;
  }

  /** How the nodes are connected to the database, in words. */
  get databaseNetwork(): string {
    const { network, networkFailure } = this.#parts;
    if (network !== null) return "network namespaces";
    return networkFailure === "" ? "proxies" : `proxies (${networkFailure})`;
  }

  get server(): PostgresServer {
    return this.#server;
  }

  get db(): Db {
    return this.#db;
  }

  /** The address of a running node, by turns. */
  url(): string {
    const running = this.nodes.filter(({ isRunning, isBalanced }) => isRunning && isBalanced);
    const ready = this.#readinessTimer === null ? [] : running.filter((node) => node.hasPassedCheck);
    const targets = ready.length === 0 ? running : ready;
    const node = targets[this.#turn++ % targets.length];
    if (node === undefined) throw new Error("no node runs");
    return node.url;
  }

  #startReadinessChecks(): void {
    this.#readinessTimer = setInterval(() => {
      for (const node of this.nodes) void node.checkReadiness();
    }, READINESS_CHECK_MS);
  }

  /** From now on all nodes use this server, through their proxies. Returns the former one. */
  async moveTo(server: PostgresServer): Promise<PostgresServer> {
    const former = this.#server;
    await this.#db.close();
    this.#server = server;
    for (const proxy of this.#parts.proxies) proxy.moveTo({ hostname: "127.0.0.1", port: server.port });
    this.#db = await openDb(server.url("gateway"));
    return former;
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

  /** The requests that reached the simulator since the last call, when it has none in flight. */
  async takeTruth(): Promise<LedgerEntry[]> {
    const { ledger } = this.simulator;
    await eventually(() => ledger.totals().inFlight, { equals: 0, withinMs: QUIET_WITHIN_MS });
    const entries = ledger.entries();
    const { requests } = ledger.totals();
    // A charge without an entry would look like a charge for nothing.
    if (requests > entries.length)
      throw new Error(`the simulator received ${requests} requests and recorded ${entries.length}`);
    ledger.reset();
    return entries;
  }

  /** The usage rows since then. */
  async rows(sinceMs: number): Promise<UsageRow[]> {
    const found = await this.#db.sql.text(`${SELECT_USAGE} WHERE at_ms >= ${Math.floor(sinceMs)}`, []);
    return found.map(toUsageRow);
  }

  async count(table: "hold" | "wallet_reservation" | "process"): Promise<number> {
    const [row] = await this.#db.sql.text(`SELECT COUNT(*) AS many FROM ${table}`, []);
    return Number(row?.many);
  }

  /** The nodes have recorded limits there, if there is one. */
  async checkRedis(): Promise<Finding[]> {
    const { redis } = this.#parts;
    if (redis === null) return [];
    const keys = await redis.countKeys();
    return [checked("records of limits in Redis", keys, "some", keys > 0)];
  }

  countLogged(event: string): number {
    return this.nodes.reduce((sum, { output }) => sum + output.split(`"${event}"`).length - 1, 0);
  }

  /** `model-gateway audit`, as an operator runs it. */
  audit(): Promise<Run> {
    return this.#run(["audit"]);
  }

  /** Applies a file in the folder of the first node. */
  apply(name = "gateway.yaml"): Promise<Run> {
    return this.#run(["apply", this.buildPath(name)]);
  }

  /** Changes the files of nodes and applies them, while no node starts. */
  changeFiles<T>(change: () => Promise<T>): Promise<T> {
    return this.#parts.turns.take(change);
  }

  /** Of a file in the folder of the first node. */
  buildPath(name: string): string {
    return join(this.#parts.folder, "node-0", name);
  }

  #run(command: string[]): Promise<Run> {
    const env = { DATABASE_URL: this.#server.url("gateway"), MODEL_GATEWAY_MASTER_KEY: MASTER_KEY };
    return runCommand(command, { folder: this.#parts.folder, env });
  }

  async startStopped(): Promise<void> {
    for (const node of this.nodes) if (!node.isRunning) await node.start();
  }

  /** Ends all nodes cleanly: everything is booked afterwards. */
  async end(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.stop()));
  }

  async stop(): Promise<void> {
    if (this.#readinessTimer !== null) clearInterval(this.#readinessTimer);
    for (const node of this.nodes) if (node.isRunning) await node.kill();
    for (const proxy of this.#parts.proxies) proxy.stop();
    await this.#db.close().catch(() => {});
    await this.simulator.stop();
    await this.#server.remove();
    await this.#parts.redis?.stop();
    this.#parts.network?.remove();
    rmSync(this.#parts.folder, { recursive: true, force: true });
  }
}
