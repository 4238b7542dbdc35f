/** What sockets cost: memory while they are idle, time a turn, CPU an event beside server-sent ones, and their pace. */

import { BENCH_KEY, extraKey, type GatewayProcess, startGateway } from "./gateway-process.ts";
import { cpuMicrosBetween, median, readCpu, rssBytes } from "./measure.ts";
import type { BenchProcess } from "./processes.ts";
import { NATIVE_MODEL, PUBLIC_MODEL, responsesMessage, responsesStreamBody } from "./request-bodies.ts";
import { type BenchHost, startUpstream } from "./single-measures.ts";
import type { SocketReport } from "./socket-load.ts";
import type { UpstreamCounts } from "./upstream.ts";
import { type RoundPlan, warmUp } from "./warm-up.ts";
import type { Wrk } from "./wrk.ts";

/** Asked by HTTP, or over a socket of the gateway's own. */
export const WAYS = { bridge: PUBLIC_MODEL, native: NATIVE_MODEL } as const;
export type Way = keyof typeof WAYS;

export interface SocketResults {
  idle: { sockets: number; beforeBytes: number; openBytes: number };
  /** One turn at a time, on sockets that are warm. */
  turns: Record<"direct" | Way, SocketReport>[];
  /** CPU microseconds an event. */
  events: Record<"sse" | Way, number>[];
  /** Many sockets at a pace that their upstream sets. */
  busy: { sockets: number; rounds: Record<"direct" | Way, SocketReport>[] };
}

export interface SocketPlan extends RoundPlan {
  readonly streamsHeldMs: number;
}

const IDLE_SOCKETS = 10_000;
const BUSY_SOCKETS = 1_000;
/** So that none comes near what one key may have open. */
const KEYS = 20;
/** One second decides a round, in which all turns start: another process may have the core just then. */
const BUSY_ROUNDS = 5;
const BUSY_EVENT_PAUSE_MS = 100;
const EVENT_PAUSE_MS = 1;
const LOAD_SOCKETS = 20;
/** One turn at a time goes round on these, so that none of them asks more often than it may. */
const SOCKETS_IN_TURN = 100;
/** Remaining work of a round counts for it, even if it is done later. */
const SETTLE_MS = 250;

const loadFile = `${import.meta.dir}/socket-load.ts`;
const allKeys = Array.from({ length: KEYS }, (_, i) => extraKey(i)).join("\n");

interface Load {
  /** Of what listens, without a path. */
  url: string;
  model: string;
  sockets: number;
  forMs: number;
  how?: "all at once" | "one by one";
}

export async function measureSockets(place: BenchHost, wrk: Wrk, plan: SocketPlan): Promise<SocketResults> {
  const idle = await measureIdle(place);
  const turns = await measureTurns(place, plan);
  const events = await measureEvents(place, wrk, plan);
  const busy = await measureBusy(place, plan);
  return { idle, turns, events, busy };
}

async function runSocketLoad(place: BenchHost, load: Load): Promise<SocketReport> {
  const { url, model, sockets, forMs, how = "all at once" } = load;
  const printed = await place.stage.runToEnd({
    name: "socket client",
    command: [place.bun, loadFile, socketUrl(url), String(sockets), String(forMs), how],
    core: place.loadCore,
    env: { BENCH_KEYS: allKeys },
    input: responsesMessage(model),
  });
  const report: SocketReport = JSON.parse(printed.trim().split("\n").at(-1) ?? "");
  return report;
}

function socketUrl(url: string): string {
  return `${url.replace("http", "ws")}/v1/responses`;
}

interface GatewayPair {
  gateway: GatewayProcess;
  upstream: { running: BenchProcess; url: string };
}

/** A gateway and its upstream, for as long as they are measured. */
async function withGatewayPair<T>(
  place: BenchHost,
  pauseMs: number,
  measure: (pair: GatewayPair) => Promise<T>,
): Promise<T> {
  const { running, port } = await startUpstream(place, pauseMs);
  const gateway = await startGateway(place.stage, {
    core: place.subjectCore,
    upstreamPort: port,
    name: `sockets-${pauseMs}`,
    extraKeys: KEYS,
  });
  try {
    return await measure({ gateway, upstream: { running, url: `http://127.0.0.1:${port}` } });
  } finally {
    await gateway.running.stop();
    await running.stop();
  }
}

function measureIdle(place: BenchHost): Promise<SocketResults["idle"]> {
  return withGatewayPair(place, EVENT_PAUSE_MS, async ({ gateway }) => {
    const { pid } = gateway.running;
    const beforeBytes = rssBytes(pid);
    const client = place.stage.start({
      name: "socket client",
      command: [place.bun, loadFile, socketUrl(gateway.url), String(IDLE_SOCKETS)],
      core: place.loadCore,
      env: { BENCH_KEYS: allKeys },
    });
    while (!client.output().startsWith('{"open"')) {
      if (client.output() !== "") throw new Error(`the sockets could not be opened: ${client.output()}`);
      await Bun.sleep(50);
    }
    // The highest of what is seen once opening them has been digested.
    await Bun.sleep(2_000);
    let openBytes = 0;
    for (let i = 0; i < 8; i++) {
      openBytes = Math.max(openBytes, rssBytes(pid));
      await Bun.sleep(250);
    }
    await client.stop();
    place.progress(`${IDLE_SOCKETS} idle sockets: ${(openBytes / 1e6).toFixed(0)} MB`);
    return { sockets: IDLE_SOCKETS, beforeBytes, openBytes };
  });
}

function measureTurns(place: BenchHost, plan: SocketPlan): Promise<SocketResults["turns"]> {
  return withGatewayPair(place, 0, async ({ gateway, upstream }) => {
    const applyLoad = (forMs: number, url: string, model: string) =>
      runSocketLoad(place, { url, model, sockets: SOCKETS_IN_TURN, forMs, how: "one by one" });
    await applyLoad(plan.warmUp.atLeastMs, gateway.url, WAYS.bridge);
    await applyLoad(plan.warmUp.atLeastMs, gateway.url, WAYS.native);
    const rounds: SocketResults["turns"] = [];
    for (let i = 1; i <= plan.rounds; i++) {
      rounds.push({
        direct: await applyLoad(plan.roundMs, upstream.url, PUBLIC_MODEL),
        bridge: await applyLoad(plan.roundMs, gateway.url, WAYS.bridge),
        native: await applyLoad(plan.roundMs, gateway.url, WAYS.native),
      });
      place.progress(`turns on a warm socket, round ${i}/${plan.rounds}`);
    }
    return rounds;
  });
}

function measureEvents(place: BenchHost, wrk: Wrk, plan: SocketPlan): Promise<SocketResults["events"]> {
  return withGatewayPair(place, EVENT_PAUSE_MS, async ({ gateway, upstream }) => {
    const { url } = gateway;
    const overSockets = (way: Way, forMs: number) =>
      runSocketLoad(place, { url, model: WAYS[way], sockets: LOAD_SOCKETS, forMs });
    const overHttp = (durationMs: number) =>
      wrk.run({
        url: `${url}/v1/responses`,
        body: responsesStreamBody(),
        key: BENCH_KEY,
        connections: LOAD_SOCKETS,
        durationMs,
      });

    async function measureCost(applyLoad: () => Promise<unknown>): Promise<number> {
      const eventsBefore = await readEventCount(upstream.url);
      const before = readCpu(gateway.running.pid);
      await applyLoad();
      await Bun.sleep(SETTLE_MS);
      const micros = cpuMicrosBetween(before, readCpu(gateway.running.pid));
      return micros / ((await readEventCount(upstream.url)) - eventsBefore);
    }

    for (const applyLoad of [
      overHttp,
      (forMs: number) => overSockets("bridge", forMs),
      (forMs: number) => overSockets("native", forMs),
    ])
      place.progress(
        `events of sockets: the gateway ${await warmUp(gateway.running.pid, plan.warmUp, applyLoad)}`,
      );
    const rounds: SocketResults["events"] = [];
    for (let i = 1; i <= plan.rounds; i++) {
      const round = {
        sse: await measureCost(() => overHttp(plan.roundMs)),
        bridge: await measureCost(() => overSockets("bridge", plan.roundMs)),
        native: await measureCost(() => overSockets("native", plan.roundMs)),
      };
      rounds.push(round);
      const shown = Object.entries(round).map(([name, micros]) => `${name} ${micros.toFixed(1)} µs`);
      place.progress(`events of sockets, round ${i}/${plan.rounds}: ${shown.join(", ")}`);
    }
    return rounds;
  });
}

async function readEventCount(upstreamUrl: string): Promise<number> {
  const counts: UpstreamCounts = JSON.parse(await (await fetch(`${upstreamUrl}/counts`)).text());
  return counts.events;
}

function measureBusy(place: BenchHost, plan: SocketPlan): Promise<SocketResults["busy"]> {
  return withGatewayPair(place, BUSY_EVENT_PAUSE_MS, async ({ gateway, upstream }) => {
    const many = { sockets: BUSY_SOCKETS, forMs: plan.streamsHeldMs };
    // A thousand turns start within a second. Code that is not compiled yet takes longer than that to start them.
    for (const model of Object.values(WAYS)) {
      const text = await warmUp(gateway.running.pid, plan.warmUp, (forMs) =>
        runSocketLoad(place, { ...many, forMs, url: gateway.url, model }),
      );
      place.progress(`${BUSY_SOCKETS} busy sockets: the gateway ${text}`);
    }
    const rounds: SocketResults["busy"]["rounds"] = [];
    for (let i = 1; i <= BUSY_ROUNDS; i++) {
      const round = {
        direct: await runSocketLoad(place, { ...many, url: upstream.url, model: PUBLIC_MODEL }),
        bridge: await runSocketLoad(place, { ...many, url: gateway.url, model: WAYS.bridge }),
        native: await runSocketLoad(place, { ...many, url: gateway.url, model: WAYS.native }),
      };
      rounds.push(round);
      const shown = Object.entries(round).map(([name, { p99Ms }]) => `${name} ${p99Ms.toFixed(0)} ms`);
      place.progress(`${BUSY_SOCKETS} busy sockets, round ${i}/${BUSY_ROUNDS}, p99: ${shown.join(", ")}`);
    }
    return { sockets: BUSY_SOCKETS, rounds };
  });
}

/** Ratios and differences are taken within a round, since machines are noisy between them. */
export function addedTurnMs({ turns }: SocketResults, way: Way): number {
  return median(turns.map((round) => round[way].p50Ms - round.direct.p50Ms));
}

export function eventRatio({ events }: SocketResults, way: Way): number {
  return median(events.map((round) => round[way] / round.sse));
}

/** How much longer the slowest in a hundred turns takes than the common one without a gateway. */
export function paceRatio({ busy }: SocketResults, way: Way): number {
  return median(busy.rounds.map((round) => round[way].p99Ms / round.direct.p50Ms));
}
