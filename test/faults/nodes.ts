/** Several gateway processes on one PostgreSQL, each with its own data folder, and one simulator for all of them. */

import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { LedgerEntry } from "../../simulator/ledger.ts";
import { startSimulator } from "../../simulator/simulator.ts";
import { type Db, openDb } from "../../src/store/engine/db.ts";
import { text } from "../../src/store/engine/row.ts";
import { toUsageRow, type UsageRow } from "../../src/store/usage/usage-row.ts";
import { SELECT_USAGE } from "../../src/store/usage/usage-values.ts";
import { type GatewayProcess, runCommand, startGatewayProcess } from "../support/gateway-process.ts";
import { startPostgres } from "../support/postgres.ts";

const LAUNCHER = resolve(import.meta.dir, "../../bin/model-gateway");
const QUIET_WITHIN_MS = 120_000;
/** Longer than the rows of finished requests wait to be booked. */
const QUIET_FOR_MS = 2_500;

export interface Nodes {
  readonly db: Db;
  readonly list: readonly Node[];
  /** The usage rows since then, when all nodes have booked everything. */
  rows(sinceMs: number): Promise<UsageRow[]>;
  /** The requests that reached the simulator since the last call. */
  takeTruth(): Promise<LedgerEntry[]>;
  audit(): Promise<{ code: number; output: string }>;
  /** Ends all nodes cleanly. */
  end(): Promise<void>;
  stop(): Promise<void>;
}

export interface NodesOptions {
  count: number;
  /** The nodes that run in their own PID namespace, as in a container: others cannot look up their processes. */
  isContained?(node: number): boolean;
  /** Builds the configuration from the simulator's URL. */
  buildFile(simulatorUrl: string): object;
}

export async function openNodes({ count, isContained, buildFile }: NodesOptions): Promise<Nodes> {
  const root = mkdtempSync(join(tmpdir(), "model-gateway-nodes-"));
  const postgres = await startPostgres();
  const simulator = startSimulator({ seed: 1, record: "full", tokens: "o200k" });
  const file = JSON.stringify(buildFile(simulator.url));
  const env = {
    DATABASE_URL: postgres.url,
    DRAIN_DELAY: "0s",
    MODEL_GATEWAY_MASTER_KEY: Buffer.alloc(32, 7).toString("base64"),
  };
  const list: Node[] = [];
  for (let index = 0; index < count; index++) {
    const node = new Node(join(root, `node-${index}`), env, isContained?.(index) ?? false);
    await node.prepare(file);
    await node.start();
    list.push(node);
  }
  const db = await openDb(postgres.url);
  return {
    db,
    list,
    async rows(sinceMs) {
      await untilBooked(db);
      const found = await db.sql.text(`${SELECT_USAGE} WHERE at_ms >= ${Math.floor(sinceMs)}`, []);
      return found.map(toUsageRow);
    },
    async takeTruth() {
      await until("the simulator has no request in flight", () => simulator.ledger.totals().inFlight === 0);
      const entries = simulator.ledger.entries();
      simulator.ledger.reset();
      return entries;
    },
    audit: () => runCommand(["audit"], { folder: join(root, "node-0"), env }),
    async end() {
      for (const node of list) await node.end();
    },
    async stop() {
      for (const node of list) await node.kill();
      await db.close();
      await simulator.stop();
      await postgres.stop();
      rmSync(root, { recursive: true, force: true });
    },
  };
}

/** One gateway process after the other, on one data folder. */
export class Node {
  readonly #folder: string;
  readonly #env: Readonly<Record<string, string>>;
  readonly #isContained: boolean;
  #process: GatewayProcess | null = null;
  #log = "";

  constructor(folder: string, env: Readonly<Record<string, string>>, isContained: boolean) {
    this.#folder = folder;
    this.#env = env;
    this.#isContained = isContained;
  }

  async prepare(file: string): Promise<void> {
    mkdirSync(join(this.#folder, "bin"), { recursive: true });
    await Bun.write(join(this.#folder, "gateway.yaml"), file);
    const launcher = join(this.#folder, "bin/model-gateway");
    const contained = "unshare --pid --fork --kill-child --mount-proc";
    await Bun.write(launcher, `#!/bin/sh\nexec ${this.#isContained ? contained : ""} ${LAUNCHER} "$@"\n`);
    chmodSync(launcher, 0o755);
  }

  get url(): string {
    return this.#running().url;
  }

  /** Everything that the processes of this node have logged. */
  get log(): string {
    return this.#log + (this.#process?.output() ?? "");
  }

  async start(): Promise<void> {
    this.#process = await startGatewayProcess({
      folder: this.#folder,
      program: this.#folder,
      env: this.#env,
      args: ["--config", "gateway.yaml"],
    });
  }

  async kill(): Promise<void> {
    if (this.#process === null) return;
    this.signal("SIGKILL");
    await this.#untilExited();
  }

  async end(): Promise<void> {
    if (this.#process === null) return;
    this.signal("SIGTERM");
    await this.#untilExited();
  }

  /** Sends the signal to the gateway itself, also in its PID namespace. */
  signal(name: "SIGKILL" | "SIGTERM" | "SIGSTOP" | "SIGCONT"): void {
    const { pid } = this.#running();
    process.kill(this.#isContained ? readChild(pid) : pid, name);
  }

  #running(): GatewayProcess {
    if (this.#process === null) throw new Error("the node is not running");
    return this.#process;
  }

  async #untilExited(): Promise<void> {
    const ended = this.#running();
    await ended.exited;
    this.#log += ended.output();
    this.#process = null;
  }
}

function readChild(pid: number): number {
  const [child] = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ");
  return Number(child);
}

/** The processes that are registered in the database. */
export async function listIncarnations(db: Db): Promise<string[]> {
  const rows = await db.sql`SELECT id FROM incarnation ORDER BY id`;
  return rows.map((row) => text(row, "id"));
}

/** Waits until there is no hold, and no new row for a while. */
async function untilBooked(db: Db): Promise<void> {
  let before = "";
  let sinceMs = performance.now();
  await until("all requests are booked", async () => {
    const [row] =
      await db.sql`SELECT (SELECT COUNT(*) FROM hold) AS holds, (SELECT COUNT(*) FROM usage) AS rows`;
    const now = `${row?.holds} ${row?.rows}`;
    if (now !== before) sinceMs = performance.now();
    before = now;
    return Number(row?.holds) === 0 && performance.now() - sinceMs >= QUIET_FOR_MS;
  });
}

export async function until(what: string, isTrue: () => boolean | Promise<boolean>): Promise<void> {
  const deadlineMs = performance.now() + QUIET_WITHIN_MS;
  while (!(await isTrue())) {
    if (performance.now() > deadlineMs) throw new Error(`timed out: ${what}`);
    await Bun.sleep(50);
  }
}
