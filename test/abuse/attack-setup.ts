/**
 * Runs one attack against a gateway in a separate process and measures its cost for other clients: the longest turn of
 * the event loop and wait for `/healthz`, CPU time, memory and disk. Each attack prints one line, and fails if the
 * gateway logged a turn that is slow for the speed of the machine at that moment.
 */

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startSimulator } from "../../simulator/simulator.ts";
import { eventually } from "../support/eventually.ts";
import { startGatewayProcess } from "../support/gateway-process.ts";
import { measureSlowdown } from "../support/machine-speed.ts";
import { gatewayFile, TEST_KEY } from "../support/running-gateway.ts";
import { readResidentBytes } from "../support/spawned-gateway.ts";
import { readSlowTurns, type SlowTurn } from "./slow-turns.ts";

export interface AttackTarget {
  /** Without `/v1`. */
  readonly url: string;
  readonly pid: number;
  /** The folder that holds the configuration file and the data. */
  readonly folder: string;
  /** CPU times of the long turns of the event loop, in milliseconds, one a line. */
  readonly turnRecord: string;
  /** The bytes of living objects after the last collection of garbage that a test requested. */
  readonly heapRecord: string;
  output(): string;
  stop(): Promise<void>;
}

export interface Attack {
  /** What the attackers send, heads and bodies. */
  readonly bytes: number;
  /**
   * How long a turn of the event loop may take on a quiet machine; `TURN_MS_MAX` if it is omitted. A turn serves every
   * connection that has sent something, so a flood of connections may need more than one connection can cause.
   */
  readonly turnMsMax?: number;
  /** False: `/healthz` is not requested meanwhile, because the attack itself measures CPU time. */
  readonly watchesHealth?: boolean;
  run(): Promise<void>;
}

export interface AttackReport {
  readonly sentBytes: number;
  readonly durationMs: number;
  /** Null if it was not requested. */
  readonly worstHealthMs: number | null;
  /** The longest turn of the event loop, in CPU time of its thread. */
  readonly worstTurnMs: number;
  /** CPU time of the gateway's process, all threads. */
  readonly cpuMs: number;
  /** Resident memory. */
  readonly memory: { readonly before: number; readonly peak: number; readonly after: number };
  /** The largest growth seen while the attack ran. */
  readonly memoryGrowthBytes: number;
  readonly diskGrowthBytes: number;
  /** The turns of the gateway's event loop that were too long, as it logged them. */
  readonly slowTurns: readonly SlowTurn[];
}

/** With the memory when garbage has been collected: what is resident after it, and the bytes of the objects. */
export interface SettledReport extends AttackReport {
  readonly memory: AttackReport["memory"] & { readonly live: number };
}

export interface AttackTargetOptions {
  /** The whole configuration file; `${SIMULATOR_URL}` and `${SIMULATOR_ORIGIN}` are filled in. Without it: one model, two keys. */
  readonly file?: string;
  readonly environment?: Readonly<Record<string, string>>;
}

/** No turn of the event loop may take longer, in CPU time. The gateway logs those that do as `slow_turn`. */
export const TURN_MS_MAX = 50;
const HEALTH_EVERY_MS = 25;
/** The speed of the machine changes with its other work. */
const SLOWDOWN_HOLDS_MS = 2_000;
/** Freed memory goes back to the system a moment later. */
const SETTLE_MS = 200;
/** The unit in which the kernel counts CPU time. */
const TICKS_PER_SECOND = 100;

export async function startAttackTarget(options: AttackTargetOptions = {}): Promise<AttackTarget> {
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-abuse-"));
  const simulator = startSimulator({ record: "counts", seed: 1, tokens: "bytes" });
  await Bun.write(join(folder, "gateway.yaml"), options.file ?? gatewayFile({}));
  const turnRecord = join(folder, "turns");
  const heapRecord = join(folder, "heap");
  const gateway = await startGatewayProcess({
    folder,
    args: ["--config", "gateway.yaml"],
    env: {
      SIMULATOR_URL: simulator.url,
      SIMULATOR_ORIGIN: new URL(simulator.url).origin,
      ...recordTurns(turnRecord),
      HEAP_RECORD: heapRecord,
      ...options.environment,
    },
  });
  return {
    url: gateway.url,
    pid: gateway.pid,
    folder,
    turnRecord,
    heapRecord,
    output: gateway.output,
    async stop() {
      await gateway.stop();
      await simulator.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export const DIALECTS = ["chat", "responses", "messages", "gemini"] as const;
export type Dialect = (typeof DIALECTS)[number];
const KINDS = { chat: "openai", responses: "openai", messages: "anthropic", gemini: "gemini" } as const;

export interface AttackedAccount {
  readonly name: string;
  readonly kind: (typeof KINDS)[Dialect];
  /** Null: those of the kind. */
  readonly interfaces: readonly string[] | null;
  /** One for each attack, because some of them make the upstream's model cool down. */
  readonly models: readonly string[];
}

/** An account for each dialect. */
export function listDialectAccounts(listModels: (dialect: Dialect) => readonly string[]): AttackedAccount[] {
  return DIALECTS.map((name) => {
    const kind = KINDS[name];
    return { name, kind, interfaces: kind === "openai" ? [name] : null, models: listModels(name) };
  });
}

/** A configuration file with a group that publishes the models of all these accounts for these interfaces. */
export function buildAttackFile(
  origin: string,
  interfaces: readonly string[],
  accounts: readonly AttackedAccount[],
): string {
  const models = accounts.flatMap((account) => account.models);
  return JSON.stringify({
    models: models.map((id) => ({ id, interfaces })),
    accounts: accounts.map(({ kind, interfaces: own, ...account }) => ({
      name: account.name,
      kind,
      base_url: kind === "gemini" ? origin : `${origin}/v1`,
      credential: "credential",
      private_network: true,
      ...(own === null ? {} : { interfaces: own }),
      models: Object.fromEntries(account.models.map((model) => [model, model])),
    })),
    groups: [{ name: "default", interfaces, models, accounts: accounts.map(({ name }) => name) }],
    users: [{ email: "dev@example.com", role: "user" }],
    keys: [{ name: "test", user: "dev@example.com", group: "default", secret: TEST_KEY }],
  });
}

/** A short request in a dialect. */
export function buildAttackRequest(
  dialect: Dialect,
  { model, stream }: { model: string; stream: boolean },
): [path: string, body: object] {
  const turn = [{ role: "user", content: "Hello" }];
  switch (dialect) {
    case "chat":
      return ["/v1/chat/completions", { model, messages: turn, stream }];
    case "responses":
      return ["/v1/responses", { model, input: turn, stream }];
    case "messages":
      return ["/v1/messages", { model, messages: turn, max_tokens: 9, stream }];
    case "gemini":
      return [
        `/v1beta/models/${model}:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
        { contents: [{ role: "user", parts: [{ text: "Hello" }] }] },
      ];
  }
}

/** An upstream that sends the same response to every request. */
export class CannedUpstream {
  body: string | Uint8Array<ArrayBuffer> = "";
  contentEncoding = "identity";
  contentType: string;
  readonly #server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    fetch: async (request) => {
      await request.arrayBuffer();
      const headers = { "content-type": this.contentType, "content-encoding": this.contentEncoding };
      return new Response(this.body, { headers });
    },
  });

  constructor(contentType: string) {
    this.contentType = contentType;
  }

  get origin(): string {
    return `http://127.0.0.1:${this.#server.port}`;
  }

  stop(): Promise<void> {
    return this.#server.stop(true);
  }
}

/** The environment of a gateway whose long turns are recorded in a file. */
export function recordTurns(file: string): Record<string, string> {
  return { BUN_OPTIONS: `--preload ${join(import.meta.dir, "turn-recorder.ts")}`, TURN_RECORD: file };
}

/**
 * Measures from the first to the last byte of `attack`, then collects the gateway's garbage, so that the next attack
 * begins with the memory that is in use. `/healthz` is requested on separate connections.
 */
export async function measureAttack(
  name: string,
  target: AttackTarget,
  attack: Attack,
): Promise<SettledReport> {
  const { report, judge } = await run(target, attack);
  const memory = { ...report.memory, ...(await readSettled(target)) };
  const settled = { ...report, memory };
  console.log(reportLine(name, settled, "after"));
  judge(name);
  return settled;
}

/**
 * For many attacks whose memory is not judged: collecting garbage would take longer than they do. The memory after them
 * is printed with their garbage.
 */
export async function measureTurns(
  name: string,
  target: AttackTarget,
  attack: Attack,
): Promise<AttackReport> {
  const { report, judge } = await run(target, attack);
  console.log(reportLine(name, report, "after, with garbage"));
  judge(name);
  return report;
}

/** `judge` fails if a turn was too long. */
async function run(
  target: AttackTarget,
  attack: Attack,
): Promise<{ report: AttackReport; judge: (name: string) => void }> {
  const { watchesHealth = true } = attack;
  await healthWaitMs(target.url);
  const slowdownBefore = measureRecentSlowdown();
  const turnsBefore = readTurnsMs(target).length;
  const slowTurnsBefore = readSlowTurns(target.output()).length;
  const cpuBefore = cpuMs(target.pid);
  const memoryBefore = readResidentBytes(target.pid);
  const diskBefore = folderBytes(target.folder);
  const startedMs = performance.now();
  let worstHealthMs: number | null = null;
  let memoryPeak = memoryBefore;
  let diskMax = diskBefore;
  let isAttacking = true;
  const watch = (async () => {
    do {
      if (watchesHealth) worstHealthMs = Math.max(worstHealthMs ?? 0, await healthWaitMs(target.url));
      memoryPeak = Math.max(memoryPeak, readResidentBytes(target.pid));
      diskMax = Math.max(diskMax, folderBytes(target.folder));
      await Bun.sleep(HEALTH_EVERY_MS);
    } while (isAttacking);
  })();
  try {
    await attack.run();
  } finally {
    isAttacking = false;
    await watch;
  }
  const slowTurns = readSlowTurns(target.output()).slice(slowTurnsBefore);
  const report: AttackReport = {
    sentBytes: attack.bytes,
    durationMs: performance.now() - startedMs,
    worstHealthMs,
    worstTurnMs: Math.max(0, ...readTurnsMs(target).slice(turnsBefore)),
    cpuMs: cpuMs(target.pid) - cpuBefore,
    memory: { before: memoryBefore, peak: memoryPeak, after: readResidentBytes(target.pid) },
    memoryGrowthBytes: memoryPeak - memoryBefore,
    diskGrowthBytes: diskMax - diskBefore,
    slowTurns,
  };
  return { report, judge: (name) => judgeTurns(name, slowTurns, { ...attack, slowdownBefore }) };
}

/** By the slower of the machine before the attack and after it, which is measured only if it decides. */
function judgeTurns(
  name: string,
  slowTurns: readonly SlowTurn[],
  { turnMsMax = TURN_MS_MAX, slowdownBefore }: Pick<Attack, "turnMsMax"> & { slowdownBefore: number },
): void {
  const isTooSlow = (slowdown: number) => (turn: SlowTurn) => turn.cpuMs > turnMsMax * slowdown;
  const suspects = slowTurns.filter(isTooSlow(slowdownBefore));
  if (suspects.length === 0) return;
  const tooSlow = suspects.filter(isTooSlow(measureSlowdown()));
  if (tooSlow.length > 0) throw new Error(`${name} held the event loop: ${JSON.stringify(tooSlow)}`);
}

let recent = { slowdown: 1, atMs: Number.NEGATIVE_INFINITY };

/** Measuring takes longer than a short attack. */
function measureRecentSlowdown(): number {
  if (performance.now() - recent.atMs > SLOWDOWN_HOLDS_MS)
    recent = { slowdown: measureSlowdown(), atMs: performance.now() };
  return recent.slowdown;
}

function readTurnsMs({ turnRecord }: AttackTarget): number[] {
  if (!existsSync(turnRecord)) return [];
  return readFileSync(turnRecord, "utf8").trim().split("\n").map(Number);
}

async function readSettled({ pid, heapRecord }: AttackTarget): Promise<{ after: number; live: number }> {
  rmSync(heapRecord, { force: true });
  process.kill(pid, "SIGUSR2");
  await eventually(() => existsSync(heapRecord));
  await Bun.sleep(SETTLE_MS);
  return { after: readResidentBytes(pid), live: Number(readFileSync(heapRecord, "utf8")) };
}

const mib = (bytes: number) => (bytes / 1024 / 1024).toFixed(1);

function reportLine(name: string, report: AttackReport, when: string): string {
  const { sentBytes, cpuMs: cpu, worstTurnMs, worstHealthMs, memory, diskGrowthBytes, durationMs } = report;
  const figures = [
    `sent ${mib(sentBytes)} MiB`,
    `CPU ${cpu.toFixed(0)} ms`,
    // Shorter ones are not recorded.
    `worst turn ${worstTurnMs === 0 ? "under 3" : worstTurnMs.toFixed(0)} ms`,
    `memory ${mib(memory.before)} MiB before, ${mib(memory.peak)} peak, ${mib(memory.after)} ${when}`,
    `disk +${mib(diskGrowthBytes)} MiB`,
    ...(worstHealthMs === null ? [] : [`worst /healthz ${worstHealthMs.toFixed(0)} ms`]),
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
