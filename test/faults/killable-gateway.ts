/**
 * A real gateway process that can be killed and started again on the same store, a simulator that outlives it and
 * keeps the truth, and a look into the books.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { LedgerEntry } from "../../simulator/ledger.ts";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { type Db, type Engine, openDb, transaction } from "../../src/store/engine/db.ts";
import { toUsageRow, type UsageRow } from "../../src/store/usage/usage-row.ts";
import { SELECT_USAGE } from "../../src/store/usage/usage-values.ts";
import { eventually } from "../support/eventually.ts";
import { type GatewayProcess, runCommand, startGatewayProcess } from "../support/gateway-process.ts";
import { startPostgres } from "../support/postgres.ts";

export interface Rig {
  /** Without `/v1`, of the process that runs now. */
  url(): string;
  /** Of the process that runs now. */
  pid(): number;
  /** Where the SQLite store stands, and the data folder. */
  folder: string;
  simulator: Simulator;
  db: Db;
  /** How long it took until requests were taken. */
  start(): Promise<number>;
  /** Starts one that is killed before it is ready: recovery, too, may be cut anywhere. */
  startAndKill(afterMs: number): Promise<void>;
  /** Resolves when the process is gone, to the moment at which the signal was sent. */
  kill(): Promise<number>;
  /** The database runs no statement on usage rows for so long, and until the work is done. PostgreSQL only. */
  whileStoreHangs<T>(ms: number, work: () => Promise<T>): Promise<T>;
  /** Lets what is under way end, and writes everything. */
  end(): Promise<void>;
  apply(file: object): Promise<void>;
  /** `model-gateway audit`, as an operator runs it. */
  audit(): Promise<{ code: number; output: string }>;
  /** Rows written since then. */
  rows(sinceMs: number): Promise<UsageRow[]>;
  count(table: "hold" | "entry" | "usage"): Promise<number>;
  /** Requests that reached the simulator since the last call; waits until it has none under way. */
  takeTruth(): Promise<LedgerEntry[]>;
  log(): string;
  stop(): Promise<void>;
}

const LAUNCHER = resolve(import.meta.dir, "../../bin/model-gateway");
const QUIET_WITHIN_MS = 90_000;

/** `fileOf` is given the simulator's address. */
export async function openRig(store: Engine, fileOf: (simulatorUrl: string) => object): Promise<Rig> {
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-faults-"));
  const postgres = store === "postgres" ? await startPostgres() : null;
  const simulator = startSimulator({ seed: 1, record: "full", tokens: "o200k" });
  const databaseUrl = postgres?.url ?? `sqlite:${join(folder, "gateway.db")}`;
  const env = { DATABASE_URL: databaseUrl, DRAIN_DELAY: "0s" };
  const command = { folder, env };
  await Bun.write(join(folder, "gateway.yaml"), JSON.stringify(fileOf(simulator.url)));
  let gateway: GatewayProcess | null = null;
  let log = "";
  const running = (): GatewayProcess => {
    if (gateway === null) throw new Error("no gateway runs");
    return gateway;
  };
  const start = async () => {
    const beganMs = performance.now();
    gateway = await startGatewayProcess({ ...command, args: ["--config", "gateway.yaml"] });
    return performance.now() - beganMs;
  };
  const gone = async () => {
    if (gateway === null) return;
    await gateway.exited;
    log = gateway.output();
    gateway = null;
  };
  await start();
  const db = await openDb(databaseUrl);
  return {
    url: () => running().url,
    pid: () => running().pid,
    folder,
    simulator,
    db,
    start,
    async startAndKill(afterMs) {
      const child = Bun.spawn([LAUNCHER, "start", "--config", "gateway.yaml"], {
        cwd: folder,
        env: { PATH: process.env.PATH ?? "", PORT: "0", ...env },
        stdout: "ignore",
        stderr: "ignore",
      });
      await Bun.sleep(afterMs);
      child.kill("SIGKILL");
      await child.exited;
    },
    async kill() {
      const atMs = performance.now();
      process.kill(running().pid, "SIGKILL");
      await gone();
      return atMs;
    },
    whileStoreHangs: (ms, work) =>
      transaction(db, async (tx) => {
        await tx.sql.script("LOCK TABLE usage IN ACCESS EXCLUSIVE MODE");
        await Bun.sleep(ms);
        return work();
      }),
    async end() {
      await running().stop();
      await gone();
    },
    async apply(file) {
      const name = "changed.yaml";
      await Bun.write(join(folder, name), JSON.stringify(file));
      const { code, output } = await runCommand(["apply", name], command);
      if (code !== 0) throw new Error(output);
    },
    audit: () => runCommand(["audit"], command),
    async rows(sinceMs) {
      const found = await db.sql.text(`${SELECT_USAGE} WHERE at_ms >= ${Math.floor(sinceMs)}`, []);
      return found.map(toUsageRow);
    },
    async count(table) {
      const [row] = await db.sql.text(`SELECT COUNT(*) AS n FROM ${table}`, []);
      return Number(row?.n);
    },
    async takeTruth() {
      const quiet = { equals: 0, withinMs: QUIET_WITHIN_MS };
      await eventually(() => simulator.ledger.totals().inFlight, quiet);
      const entries = simulator.ledger.entries();
      simulator.ledger.reset();
      return entries;
    },
    log: () => gateway?.output() ?? log,
    async stop() {
      if (gateway !== null) {
        process.kill(gateway.pid, "SIGKILL");
        await gone();
      }
      await db.close();
      await simulator.stop();
      await postgres?.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Clients' requests are found again in the simulator's ledger by a header that the gateway lets through. */
export const MARKER_HEADERS = { openai: "openai-beta", messages: "anthropic-beta" } as const;

export function readMarker({ headers }: LedgerEntry): string {
  return headers[MARKER_HEADERS.openai] ?? headers[MARKER_HEADERS.messages] ?? "";
}
