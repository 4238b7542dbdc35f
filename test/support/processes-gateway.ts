/**
 * Several gateway processes on one port, as `start --processes` runs them, on a new PostgreSQL database. Only in a network
 * namespace of `own-network.ts`, whose kernel switch it sets.
 */

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "./eventually.ts";
import { type GatewayProcess, type Run, runCommand, startGatewayProcess } from "./gateway-process.ts";
import { hasOwnNetwork } from "./own-network.ts";
import { type Postgres, startPostgres } from "./postgres.ts";

/** Makes the kernel move connections that a closing listener has not accepted yet. Of a network namespace. */
const MIGRATE_SWITCH = "/proc/sys/net/ipv4/tcp_migrate_req";
/** Of one process. Replacements start one after another. */
const READY_WITHIN_MS = 90_000;

export interface ProcessesOptions {
  readonly count: number;
  readonly file: string;
  readonly environment: Readonly<Record<string, string>>;
  /** The content of the file that every process reads at its start. */
  readonly environmentFile?: string;
}

export class ProcessesGateway {
  /** Of the next start. */
  count: number;
  readonly folder = mkdtempSync(join(tmpdir(), "model-gateway-processes-"));
  readonly #environment: Record<string, string>;
  readonly #postgres: Postgres;
  #supervisor: GatewayProcess | null = null;

  private constructor(postgres: Postgres, { count, environment }: ProcessesOptions) {
    this.count = count;
    this.#postgres = postgres;
    this.#environment = {
      DATABASE_URL: postgres.url,
      MODEL_GATEWAY_MASTER_KEY: Buffer.alloc(32, 7).toString("base64"),
      MODEL_GATEWAY_ENVIRONMENT_FILE: this.environmentPath,
      DRAIN_DELAY: "0s",
      ...environment,
    };
    writeFileSync(MIGRATE_SWITCH, "1");
  }

  static async create(options: ProcessesOptions): Promise<ProcessesGateway> {
    if (!hasOwnNetwork()) throw new Error("this process has no network namespace of its own");
    const gateway = new ProcessesGateway(await startPostgres(), options);
    await Bun.write(join(gateway.folder, "gateway.yaml"), options.file);
    await Bun.write(gateway.environmentPath, options.environmentFile ?? "");
    return gateway;
  }

  get environmentPath(): string {
    return join(this.folder, "environment");
  }

  get databaseUrl(): string {
    return this.#postgres.url;
  }

  get supervisor(): GatewayProcess {
    if (this.#supervisor === null) throw new Error("the gateway was not started");
    return this.#supervisor;
  }

  /** Without `/v1`. */
  get url(): string {
    return this.supervisor.url;
  }

  /** Resolves when all processes serve. */
  async start(): Promise<void> {
    this.#supervisor = await startGatewayProcess({
      folder: this.folder,
      args: ["--config", "gateway.yaml", "--processes", String(this.count)],
      env: this.#environment,
    });
    await this.waitUntilAll(() => true);
  }

  /** The process ids by number, of processes that serve: they have opened their operator sockets. */
  pids(): number[] {
    return Array.from({ length: this.count + 1 }, (_, i) => this.nodeFolder(i + 1)).flatMap((place) => {
      if (!existsSync(join(place, "control.sock"))) return [];
      const { pid } = JSON.parse(readFileSync(join(place, "gateway.pid"), "utf8"));
      return isRunning(pid) ? [pid] : [];
    });
  }

  nodeFolder(number: number): string {
    return join(this.folder, "data/processes", String(number));
  }

  /** Resolves when there are as many processes as there should be, and all of them satisfy the condition. */
  async waitUntilAll(condition: (pid: number) => boolean): Promise<void> {
    await eventually(() => {
      const pids = this.pids();
      return pids.length === this.count && pids.every(condition);
    }, READY_WITHIN_MS * this.count);
  }

  run(...args: string[]): Promise<Run> {
    return runCommand(args, { folder: this.folder, env: this.#environment });
  }

  async remove(): Promise<void> {
    await this.#supervisor?.stop();
    await this.#postgres.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
