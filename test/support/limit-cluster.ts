/**
 * Several gateway processes on one PostgreSQL database, subjects of each kind with the same limits, and an upstream for
 * each subject, whose log says what arrived.
 */

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { type GatewayProcess, startGatewayProcess } from "./gateway-process.ts";
import { keySecret } from "./pooled-gateway.ts";

const MASTER_KEY = Buffer.alloc(32, 7).toString("base64");
const MINUTE_MS = 60_000;
/** The delay between admission and arrival may vary by this much between requests. */
const ROAD_MS = 500;
const CHECK_EVERY_MS = 500;
const CHECK_TIMEOUT_MS = 5_000;
const PAUSE_MS = { least: 20, most: 220 };

export const SUBJECT_KINDS = ["key", "group", "user", "account"] as const;
export type SubjectKind = (typeof SUBJECT_KINDS)[number];

export interface LimitClusterOptions {
  readonly rpm: number;
  readonly concurrency: number;
  readonly databaseUrl: string;
  /** Each has the limits, a group and an upstream of its own. */
  readonly subjects?: readonly SubjectKind[];
  readonly nodes?: number;
  /** How long a response takes. */
  readonly responseMs?: number;
  /** How long a request waits for a slot. */
  readonly queueTimeout?: string;
  /** How long a client waits between two requests. */
  readonly pauseMs?: { readonly least: number; readonly most: number };
  readonly env?: Readonly<Record<string, string>>;
}

export interface LoadReport {
  served: number;
  refused: number;
  /** Neither served nor rejected by a limit, without those that a killed node broke. */
  failed: Map<string, number>;
  /** The slowest rejection by a limit over time: how long a request waited for the other nodes. */
  slowestRejectionMs: number;
  /** Requests that were not sent, because a load balancer finds no ready node. */
  unsent: number;
}

/** A subject with limits, and what its upstream has recorded. */
export class LimitedSubject {
  readonly kind: SubjectKind;
  readonly keys: readonly string[];
  readonly upstream: Simulator;

  constructor(kind: SubjectKind) {
    this.kind = kind;
    this.keys = kind === "key" ? ["key-1"] : [`${kind}-1`, `${kind}-2`];
    this.upstream = startSimulator({});
  }

  /** The largest number of requests that arrived within any minute. */
  findPeak(windowMs = MINUTE_MS - ROAD_MS): number {
    const arrivals = this.#listArrivals();
    let peak = 0;
    for (let first = 0, last = 0; last < arrivals.length; last++) {
      while ((arrivals[last] ?? 0) - (arrivals[first] ?? 0) >= windowMs) first++;
      peak = Math.max(peak, last - first + 1);
    }
    return peak;
  }

  /** Requests that arrived in the first part of the run, and later. */
  countArrivals(fromMs = Number.NEGATIVE_INFINITY, toMs = Number.POSITIVE_INFINITY): number {
    return this.#listArrivals().filter((atMs) => atMs >= fromMs && atMs < toMs).length;
  }

  /** A request of a killed node is in flight until its connection is closed. */
  findPeakInFlight(): number {
    return this.upstream.ledger.totals().peakInFlight;
  }

  #listArrivals(): number[] {
    return this.upstream.ledger
      .entries()
      .map(({ at }) => at)
      .sort((a, b) => a - b);
  }
}

export class LimitNode {
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
  process: GatewayProcess | null = null;
  /** By its `/readyz`, as a load balancer sees it. */
  isReady = false;

  constructor(folder: string, env: Readonly<Record<string, string>>) {
    this.folder = folder;
    this.env = env;
  }
}

export class LimitCluster {
  readonly nodes: LimitNode[] = [];
  readonly subjects: readonly LimitedSubject[];
  readonly report: LoadReport = {
    served: 0,
    refused: 0,
    failed: new Map(),
    slowestRejectionMs: 0,
    unsent: 0,
  };
  readonly #folder = mkdtempSync(join(tmpdir(), "model-gateway-limits-"));
  readonly #options: LimitClusterOptions;
  #isLoaded = false;
  #clients: Promise<void>[] = [];

  private constructor(options: LimitClusterOptions) {
    this.#options = options;
    this.subjects = (options.subjects ?? SUBJECT_KINDS).map((kind) => new LimitedSubject(kind));
  }

  static async start(options: LimitClusterOptions): Promise<LimitCluster> {
    const cluster = new LimitCluster(options);
    for (let n = 0; n < (options.nodes ?? 3); n++) await cluster.addNode();
    return cluster;
  }

  /** A new node, in a folder of its own. `env` is for this node alone. */
  async addNode(env: Readonly<Record<string, string>> = {}): Promise<LimitNode> {
    const node = new LimitNode(join(this.#folder, `node-${this.nodes.length}`), env);
    mkdirSync(node.folder);
    await Bun.write(join(node.folder, "gateway.yaml"), JSON.stringify(this.#buildFile()));
    this.nodes.push(node);
    await this.startNode(node);
    return node;
  }

  /** Returns how long the start took, in milliseconds. The load balancer includes the node when it is ready. */
  async startNode(node: LimitNode): Promise<number> {
    const beganMs = performance.now();
    node.process = await startGatewayProcess({
      folder: node.folder,
      args: ["--config", "gateway.yaml"],
      env: {
        DATABASE_URL: this.#options.databaseUrl,
        MODEL_GATEWAY_MASTER_KEY: MASTER_KEY,
        DRAIN_DELAY: "0s",
        ...this.#options.env,
        ...node.env,
      },
    });
    return performance.now() - beganMs;
  }

  /** Ends a node without giving it time for anything. */
  async kill(node: LimitNode): Promise<void> {
    const killed = node.process;
    if (killed === null) throw new Error("the node does not run");
    node.process = null;
    node.isReady = false;
    process.kill(killed.pid, "SIGKILL");
    await killed.exited;
  }

  /** Clients that send one request after another, each to any node. */
  startLoad(clients: number): void {
    this.#isLoaded = true;
    this.#clients = Array.from({ length: clients }, (_, index) => this.#runClient(index));
    this.#clients.push(this.#checkNodes());
  }

  async stopLoad(): Promise<void> {
    this.#isLoaded = false;
    await Promise.all(this.#clients);
  }

  async #checkNodes(): Promise<void> {
    while (this.#isLoaded) {
      await Promise.all(this.nodes.map((node) => this.#checkNode(node)));
      await Bun.sleep(CHECK_EVERY_MS);
    }
  }

  async #checkNode(node: LimitNode): Promise<void> {
    const checked = node.process;
    if (checked === null) return;
    const signal = AbortSignal.timeout(CHECK_TIMEOUT_MS);
    const response = await fetch(`${checked.url}/readyz`, { signal }).catch(() => null);
    if (node.process === checked) node.isReady = response?.status === 200;
  }

  async stop(): Promise<void> {
    await this.stopLoad();
    await Promise.all(this.nodes.map(({ process: running }) => running?.stop()));
    await Promise.all(this.subjects.map(({ upstream }) => upstream.stop()));
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #buildFile(): object {
    const { rpm, concurrency, responseMs = 200, queueTimeout = "1s" } = this.#options;
    const limits = { rpm, concurrency };
    const { subjects } = this;
    return {
      models: subjects.map(({ kind }) => ({ id: kind, interfaces: ["chat"] })),
      accounts: subjects.map(({ kind, upstream }) => ({
        name: kind,
        kind: "openai",
        private_network: true,
        credential: `credential-of-${kind}`,
        base_url: upstream.url,
        models: { [kind]: `sim-fast@first=${responseMs}ms` },
        interfaces: ["chat"],
        ...(kind === "account" ? { limits } : {}),
      })),
      groups: subjects.map(({ kind }) => ({
        name: kind,
        interfaces: ["chat"],
        models: [kind],
        accounts: [kind],
        queue: { max_waiting: 50, timeout: queueTimeout },
        ...(kind === "group" ? { group_limits: limits } : {}),
      })),
      users: [{ email: "limited@example.com", role: "user", limits }],
      keys: subjects.flatMap(({ kind, keys }) =>
        keys.map((name) => ({
          name,
          group: kind,
          secret: keySecret(name),
          ...(kind === "key" ? { limits } : {}),
          ...(kind === "user" ? { user: "limited@example.com" } : {}),
        })),
      ),
    };
  }

  async #runClient(index: number): Promise<void> {
    const { least, most } = this.#options.pauseMs ?? PAUSE_MS;
    const subject = this.subjects[index % this.subjects.length];
    while (this.#isLoaded && subject !== undefined) {
      const ready = this.nodes.filter(({ isReady }) => isReady);
      const node = ready[Math.floor(Math.random() * ready.length)]?.process ?? null;
      // A killed node breaks its connections.
      if (node !== null) await this.#send(node, subject).catch(() => {});
      else this.report.unsent += 1;
      await Bun.sleep(least + Math.random() * (most - least));
    }
  }

  async #send(node: GatewayProcess, subject: LimitedSubject): Promise<void> {
    const { kind } = subject;
    const startedMs = performance.now();
    const response = await sendLimited(node, subject);
    const text = await response.text();
    const { report } = this;
    if (response.status === 200) report.served += 1;
    else if (response.status === 429) {
      report.refused += 1;
      if (kind !== "account" && !text.includes("concurrent"))
        report.slowestRejectionMs = Math.max(report.slowestRejectionMs, performance.now() - startedMs);
    } else {
      const failure = `${response.status} ${kind} ${/"code":"(\w+)"/.exec(text)?.[1] ?? ""}`;
      report.failed.set(failure, (report.failed.get(failure) ?? 0) + 1);
    }
  }
}

/** One request of the subject to this node. */
export function sendLimited(
  { url }: Pick<GatewayProcess, "url">,
  { kind, keys }: LimitedSubject,
): Promise<Response> {
  const key = keys[Math.floor(Math.random() * keys.length)] ?? "";
  return fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${keySecret(key)}`, "content-type": "application/json" },
    body: JSON.stringify({ model: kind, messages: [{ role: "user", content: "hi" }] }),
  });
}
