/**
 * Runs one attack against a gateway in a separate process and measures its cost for other clients: the longest wait for
 * `/healthz`, CPU time, and the growth of memory and disk. Each attack prints one line.
 */

import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startSimulator } from "../../simulator/simulator.ts";
import { startGatewayProcess } from "../support/gateway-process.ts";
import { gatewayFile } from "../support/running-gateway.ts";
import { readResidentBytes } from "../support/spawned-gateway.ts";
import { readSlowTurns, type SlowTurn } from "./slow-turns.ts";

export interface AttackTarget {
  /** Without `/v1`. */
  readonly url: string;
  readonly pid: number;
  /** The folder that holds the configuration file and the data. */
  readonly folder: string;
  output(): string;
  stop(): Promise<void>;
}

export interface AttackReport {
  readonly durationMs: number;
  readonly worstHealthMs: number;
  /** CPU time of the gateway's process, all threads. */
  readonly cpuMs: number;
  /** The largest growth seen while the attack ran. */
  readonly memoryGrowthBytes: number;
  readonly diskGrowthBytes: number;
  /** The turns of the gateway's event loop that were too long, as it logged them. */
  readonly slowTurns: readonly SlowTurn[];
}

export interface AttackTargetOptions {
  /** The whole configuration file; `${SIMULATOR_URL}` is filled in. Without it: one model, two keys. */
  readonly file?: string;
  readonly environment?: Readonly<Record<string, string>>;
}

const HEALTH_EVERY_MS = 25;
/** The unit in which the kernel counts CPU time. */
const TICKS_PER_SECOND = 100;

export async function startAttackTarget(options: AttackTargetOptions = {}): Promise<AttackTarget> {
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-abuse-"));
  const simulator = startSimulator({ record: "counts", seed: 1, tokens: "bytes" });
  await Bun.write(join(folder, "gateway.yaml"), options.file ?? gatewayFile({}));
  const gateway = await startGatewayProcess({
    folder,
    args: ["--config", "gateway.yaml"],
    env: { SIMULATOR_URL: simulator.url, ...options.environment },
  });
  return {
    url: gateway.url,
    pid: gateway.pid,
    folder,
    output: gateway.output,
    async stop() {
      await gateway.stop();
      await simulator.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Measures from the first to the last byte of `attack`. `/healthz` is requested on separate connections. */
export async function measureAttack(
  name: string,
  target: AttackTarget,
  attack: () => Promise<void>,
): Promise<AttackReport> {
  await healthWaitMs(target.url);
  const slowTurnsBefore = readSlowTurns(target.output()).length;
  const cpuBefore = cpuMs(target.pid);
  const memoryBefore = readResidentBytes(target.pid);
  const diskBefore = folderBytes(target.folder);
  const startedMs = performance.now();
  let worstHealthMs = 0;
  let memoryMax = memoryBefore;
  let diskMax = diskBefore;
  let isAttacking = true;
  const watch = (async () => {
    do {
      worstHealthMs = Math.max(worstHealthMs, await healthWaitMs(target.url));
      memoryMax = Math.max(memoryMax, readResidentBytes(target.pid));
      diskMax = Math.max(diskMax, folderBytes(target.folder));
      await Bun.sleep(HEALTH_EVERY_MS);
    } while (isAttacking);
  })();
  try {
    await attack();
  } finally {
    isAttacking = false;
    await watch;
  }
  const report: AttackReport = {
    durationMs: performance.now() - startedMs,
    worstHealthMs,
    cpuMs: cpuMs(target.pid) - cpuBefore,
    memoryGrowthBytes: memoryMax - memoryBefore,
    diskGrowthBytes: diskMax - diskBefore,
    slowTurns: readSlowTurns(target.output()).slice(slowTurnsBefore),
  };
  console.log(reportLine(name, report));
  return report;
}

function reportLine(name: string, report: AttackReport): string {
  const { worstHealthMs, cpuMs: cpu, slowTurns, memoryGrowthBytes, diskGrowthBytes, durationMs } = report;
  const mib = (bytes: number) => `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
  const figures = [
    `worst /healthz ${worstHealthMs.toFixed(0)} ms`,
    `CPU ${cpu.toFixed(0)} ms`,
    slowTurns.length === 0
      ? "no slow turn"
      : `${slowTurns.length} slow turns, worst ${Math.max(...slowTurns.map((turn) => turn.cpuMs))} ms`,
    `memory +${mib(memoryGrowthBytes)}`,
    `disk +${mib(diskGrowthBytes)}`,
    `in ${(durationMs / 1000).toFixed(1)} s`,
  ];
  return `attack: ${name}: ${figures.join(", ")}`;
}

async function healthWaitMs(url: string): Promise<number> {
  const startedMs = performance.now();
  const response = await fetch(`${url}/healthz`, { headers: { connection: "close" } });
  await response.arrayBuffer();
  if (response.status !== 200) throw new Error(`/healthz answered ${response.status}`);
  return performance.now() - startedMs;
}

/** CPU time of a process so far, all threads, in user and kernel mode. */
export function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // The name of the command is in parentheses and may contain spaces.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS_PER_SECOND;
}

/** Allocated blocks: the journal's files are sparse at first. */
function folderBytes(folder: string): number {
  let bytes = 0;
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    const stats = statSync(join(folder, name), { throwIfNoEntry: false });
    if (stats?.isFile()) bytes += stats.blocks * 512;
  }
  return bytes;
}
