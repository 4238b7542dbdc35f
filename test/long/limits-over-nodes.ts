/**
 * Limits of a key, a group, a user and an account over three nodes that are killed one after another, while the
 * coordinator is frozen, emptied and restarted. The logs of the upstreams decide.
 */

import { LimitCluster, type LimitNode } from "../support/limit-cluster.ts";
import {
  type FaultyCoordinator,
  startPostgresCoordinator,
  startRedisCoordinator,
} from "../support/limit-coordinators.ts";

const RPM = 600;
const CONCURRENCY = 20;
const CLIENTS = 100;
const RESPONSE_MS = 1_000;
const KILL_EVERY_MS = 10_000;
const FREEZE_MS = 30_000;
const MINUTE_MS = 60_000;
/** What the nodes may use of the limit, if only they are disturbed. A killed node's part of a minute is lost. */
const USED_PERCENT_MIN = 85;

export interface LimitsRunOptions {
  readonly seconds: number;
  say(text: string): void;
}

export function limitsHoldOnPostgres(options: LimitsRunOptions): Promise<string> {
  return runWith(startPostgresCoordinator, { ...options, disturbs: "nodes and coordinator" });
}

export function limitsHoldOnRedis(options: LimitsRunOptions): Promise<string> {
  return runWith(startRedisCoordinator, { ...options, disturbs: "nodes and coordinator" });
}

export function limitsAreUsedDespiteKills(options: LimitsRunOptions): Promise<string> {
  return runWith(startPostgresCoordinator, { ...options, disturbs: "nodes" });
}

interface DisturbedRun extends LimitsRunOptions {
  readonly disturbs: "nodes" | "nodes and coordinator";
}

async function runWith(
  startCoordinator: () => Promise<FaultyCoordinator>,
  options: DisturbedRun,
): Promise<string> {
  const coordinator = await startCoordinator();
  const { databaseUrl, env } = coordinator;
  const cluster = await LimitCluster.start({
    rpm: RPM,
    concurrency: CONCURRENCY,
    responseMs: RESPONSE_MS,
    pauseMs: { least: 100, most: 500 },
    databaseUrl,
    env,
  });
  try {
    return await new LimitsRun(cluster, coordinator, options).run();
  } finally {
    await cluster.stop();
    await coordinator.stop();
  }
}

class LimitsRun {
  readonly #cluster: LimitCluster;
  readonly #coordinator: FaultyCoordinator;
  readonly #options: DisturbedRun;
  readonly #startTimesMs: number[] = [];
  /** A node cannot start while its database does not respond. */
  #isPaused = false;
  #isOver = false;

  constructor(cluster: LimitCluster, coordinator: FaultyCoordinator, options: DisturbedRun) {
    this.#cluster = cluster;
    this.#coordinator = coordinator;
    this.#options = options;
  }

  async run(): Promise<string> {
    const runMs = this.#options.seconds * 1_000;
    const beganMs = Date.now();
    this.#cluster.startLoad(CLIENTS);
    const killing = this.#killNodes();
    if (this.#options.disturbs !== "nodes") await this.#disturb(runMs);
    await Bun.sleep(Math.max(0, beganMs + runMs - Date.now()));
    this.#isOver = true;
    await killing;
    const endedMs = Date.now();
    await this.#cluster.stopLoad();
    return this.#judge(beganMs, endedMs);
  }

  /** In the order of their harm: a frozen, then an emptied, then a restarted coordinator. */
  async #disturb(runMs: number): Promise<void> {
    const { kind, isDatabase, freeze, thaw, empty, restart } = this.#coordinator;
    const { say } = this.#options;
    const pause = <T>(work: () => Promise<T>) => (isDatabase ? this.#withoutKills(work) : work());
    await Bun.sleep(0.25 * runMs);
    await pause(async () => {
      freeze();
      say(`${kind} frozen`);
      await Bun.sleep(Math.min(FREEZE_MS, 0.15 * runMs));
      thaw();
      say(`${kind} answers again`);
    });
    await Bun.sleep(0.2 * runMs);
    await empty();
    say(`${kind} emptied`);
    await Bun.sleep(0.15 * runMs);
    await pause(restart);
    say(`${kind} restarted`);
  }

  #killing: Promise<void> = Promise.resolve();

  async #withoutKills<T>(work: () => Promise<T>): Promise<T> {
    this.#isPaused = true;
    await this.#killing;
    try {
      return await work();
    } finally {
      this.#isPaused = false;
    }
  }

  async #killNodes(): Promise<void> {
    let nextMs = performance.now() + KILL_EVERY_MS;
    while (!this.#isOver) {
      await Bun.sleep(Math.min(200, Math.max(0, nextMs - performance.now())));
      if (this.#isPaused || performance.now() < nextMs) continue;
      nextMs = performance.now() + KILL_EVERY_MS;
      const { nodes } = this.#cluster;
      const node = nodes[Math.floor(Math.random() * nodes.length)];
      if (node === undefined) throw new Error("there is no node");
      this.#killing = this.#killAndStart(node);
      await this.#killing;
    }
  }

  async #killAndStart(node: LimitNode): Promise<void> {
    await this.#cluster.kill(node);
    const startMs = await this.#cluster.startNode(node);
    this.#startTimesMs.push(startMs);
    this.#options.say(`node killed, ready again after ${startMs.toFixed(0)} ms`);
  }

  #judge(beganMs: number, endedMs: number): string {
    const { subjects, report } = this.#cluster;
    const allowed = (RPM * (endedMs - beganMs)) / MINUTE_MS;
    const problems: string[] = [];
    const lines = subjects.map((subject) => {
      const { kind } = subject;
      const peak = subject.findPeak();
      const inFlight = subject.findPeakInFlight();
      const used = (subject.countArrivals() / allowed) * 100;
      if (peak > RPM) problems.push(`${kind}: ${peak} requests in a minute`);
      if (inFlight > CONCURRENCY) problems.push(`${kind}: ${inFlight} in flight`);
      if (this.#options.disturbs === "nodes" && used < USED_PERCENT_MIN)
        problems.push(`${kind}: only ${used.toFixed(0)} % of the limit used`);
      return `${kind}: at most ${peak} in 59.5 s, ${subject.findPeak(MINUTE_MS)} in 60 s, ${inFlight} in flight; ${used.toFixed(0)} % of the limit used`;
    });
    const failures = [...report.failed].map(([what, many]) => `${many} × ${what}`).join(", ") || "none";
    const slowestStartMs = Math.max(0, ...this.#startTimesMs);
    const text = [
      ...lines,
      `${report.served} served, ${report.refused} refused, other failures: ${failures}; ${report.unsent} unsent, because no node was ready`,
      `${this.#startTimesMs.length} kills, slowest start ${slowestStartMs.toFixed(0)} ms, slowest refusal ${report.slowestRejectionMs.toFixed(0)} ms`,
    ].join("\n   ");
    if (report.failed.size > 0) problems.push(failures);
    if (problems.length > 0) throw new Error(`${problems.join("; ")}\n   ${text}`);
    return text;
  }
}
