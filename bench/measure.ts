/** What the kernel knows about a process and its children, and what the machine is. */

import { readdirSync, readFileSync } from "node:fs";
import { cpus, loadavg, release, totalmem } from "node:os";

function read(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // The process ended between being listed and being read.
    return null;
  }
}

/** Fields of /proc/PID/stat after the name, which may hold spaces and brackets: [0] is the state. */
function stat(pid: number): string[] | null {
  const text = read(`/proc/${pid}/stat`);
  return text === null ? null : text.slice(text.lastIndexOf(")") + 2).split(" ");
}

export function processTree(root: number): number[] {
  const children = new Map<number, number[]>();
  for (const name of readdirSync("/proc")) {
    const pid = Number(name);
    const parent = Number.isInteger(pid) ? Number(stat(pid)?.[1] ?? Number.NaN) : Number.NaN;
    if (!Number.isNaN(parent)) children.set(parent, [...(children.get(parent) ?? []), pid]);
  }
  const tree = [root];
  for (const pid of tree) tree.push(...(children.get(pid) ?? []));
  return tree;
}

const TICKS_PER_SECOND = Number(Bun.spawnSync(["getconf", "CLK_TCK"]).stdout.toString()) || 100;

const TICK_MICROS = 1_000_000 / TICKS_PER_SECOND;

export interface CpuReading {
  /** utime and stime of every process, and of children that have ended: complete, but in steps of 10 ms. */
  tickMicros: number;
  /** Nanoseconds by thread id: exact, but gone when a thread ends. */
  threads: ReadonlyMap<number, number>;
}

export function readCpu(root: number): CpuReading {
  let ticks = 0;
  const threads = new Map<number, number>();
  for (const pid of processTree(root)) {
    const [utime, stime, cutime, cstime] = (stat(pid) ?? []).slice(11, 15).map(Number);
    ticks += (utime ?? 0) + (stime ?? 0) + (cutime ?? 0) + (cstime ?? 0);
    for (const tid of listThreads(pid)) {
      const ran = read(`/proc/${pid}/task/${tid}/schedstat`)?.split(" ")[0];
      if (ran !== undefined) threads.set(tid, Number(ran));
    }
  }
  return { tickMicros: ticks * TICK_MICROS, threads };
}

function listThreads(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).map(Number);
  } catch {
    return [];
  }
}

const COMPILER_THREAD = "JITWorker";

/** What the threads of the runtime's compiler have used so far, in nanoseconds by thread id. Idle ones end. */
export function compilerThreads(pid: number): ReadonlyMap<number, number> {
  const threads = new Map<number, number>();
  for (const tid of listThreads(pid)) {
    const task = `/proc/${pid}/task/${tid}`;
    if (read(`${task}/comm`)?.trim() !== COMPILER_THREAD) continue;
    threads.set(tid, Number(read(`${task}/schedstat`)?.split(" ")[0] ?? 0));
  }
  return threads;
}

/** By those that are there afterwards. */
export function microsBetween(
  before: ReadonlyMap<number, number>,
  after: ReadonlyMap<number, number>,
): number {
  let nanos = 0;
  for (const [tid, used] of after) nanos += used - (before.get(tid) ?? 0);
  return nanos / 1_000;
}

/** Exact where no thread was lost on the way, by ticks otherwise. */
export function cpuMicrosBetween(before: CpuReading, after: CpuReading): number {
  const byTicks = after.tickMicros - before.tickMicros;
  const exact = microsBetween(before.threads, after.threads);
  return Math.abs(exact - byTicks) <= 5 * TICK_MICROS ? exact : byTicks;
}

export function rssBytes(root: number): number {
  let bytes = 0;
  for (const pid of processTree(root)) {
    const kib = /^VmRSS:\s+(\d+) kB/m.exec(read(`/proc/${pid}/status`) ?? "")?.[1];
    bytes += Number(kib ?? 0) * 1024;
  }
  return bytes;
}

/** Cores this process may use: in a container they need not begin at 0. */
export function allowedCores(): number[] {
  const list = /^Cpus_allowed_list:\s+(\S+)/m.exec(read("/proc/self/status") ?? "")?.[1] ?? "0";
  return list.split(",").flatMap((range) => {
    const [first = 0, last = first] = range.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (sorted.length - 1) * share;
  const low = sorted[Math.floor(at)] ?? Number.NaN;
  const high = sorted[Math.ceil(at)] ?? Number.NaN;
  return low + (high - low) * (at - Math.floor(at));
}

export interface Machine {
  cpu: string;
  cores: number;
  memoryBytes: number;
  kernel: string;
  bun: string;
  nginx: string;
  wrk: string;
  /** One minute, before the bench began: above a few tenths someone else is using the machine. */
  loadBefore: number;
}

export function machine(tools: { nginx: string; wrk: string }): Machine {
  const firstLine = (command: string[]) => {
    const { stdout, stderr } = Bun.spawnSync(command);
    return `${stdout}${stderr}`.split("\n")[0]?.trim() ?? "";
  };
  return {
    cpu: cpus()[0]?.model.trim() ?? "unknown",
    cores: allowedCores().length,
    memoryBytes: totalmem(),
    kernel: release(),
    bun: Bun.version,
    nginx: firstLine([tools.nginx, "-v"]).replace("nginx version: ", ""),
    wrk: firstLine([tools.wrk, "-v"]).replace(/ Copyright.*/, ""),
    loadBefore: loadavg()[0] ?? 0,
  };
}
