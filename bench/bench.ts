/**
 * `npm run bench`: what the gateway costs beside nginx as a plain hop and no hop at all, in one run.
 *   --quick      under a minute; the gateway is still warming up, so its CPU looks dearer than it is
 *   --only PART  unary, sse, latency, memory, startup, dispatch, translate, policy, billing, sockets, telemetry or nodes;
 *                may be repeated. nodes needs PostgreSQL and Redis and takes ten minutes: it runs only if it is named
 *   --budget     exit with 1 when a median is worse than its figure in budget.json
 * The process under test has a core to itself; upstream and load generator share the other one.
 */

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { startGateway } from "./gateway-process.ts";
import { type Bench, runLoad, SSE_LOADS, type Subject, UNARY_LOADS } from "./load.ts";
import { allowedCores, machine } from "./measure.ts";
import { nginxConf } from "./nginx-conf.ts";
import { measureNodes } from "./nodes.ts";
import {
  findOrInstallTools,
  freePort,
  openProcessGroup,
  type ProcessGroup,
  readyAfterMs,
  type Tools,
} from "./processes.ts";
import {
  type BenchHost,
  eventsPerChunk,
  measureBilling,
  measureDispatch,
  measureMemory,
  measurePolicy,
  measureStartup,
  measureTranslation,
  sequentialRound,
  startUpstream,
} from "./single-measures.ts";
import { measureSockets } from "./sockets.ts";
import { goals, loadRows, type Results, sequentialRows } from "./summary.ts";
import { machineText, resultText } from "./table.ts";
import { measureTelemetry } from "./telemetry.ts";
import type { RoundPlan } from "./warm-up.ts";
import { openWrk } from "./wrk.ts";

const PARTS = [
  "unary",
  "sse",
  "latency",
  "memory",
  "startup",
  "dispatch",
  "translate",
  "policy",
  "billing",
  "sockets",
  "nodes",
  "telemetry",
] as const;
type Part = (typeof PARTS)[number];
const DEFAULT_PARTS = PARTS.filter((part) => part !== "nodes");

interface Plan extends RoundPlan {
  parts: ReadonlySet<Part>;
  streamsHeldMs: number;
  startupRepeats: number;
  isBudgetEnforced: boolean;
}

// Many rounds: what else the machine does comes and goes within seconds, and a median needs rounds without it. Not too
// short ones: what a process clears away after each of them is counted, and under steady load is not done as often.
const FULL = {
  rounds: 9,
  roundMs: 1_500,
  warmUp: { atLeastMs: 10_000, atMostMs: 90_000 },
  streamsHeldMs: 8_000,
  startupRepeats: 5,
};
const QUICK = {
  rounds: 3,
  roundMs: 500,
  warmUp: { atLeastMs: 1_000, atMostMs: 1_000 },
  streamsHeldMs: 3_000,
  startupRepeats: 1,
};
const STREAMS_OPEN = 1_000;
const KEYS_STORED = 10_000;
/** Long enough that events do not share a chunk, short enough that a stream is over in a blink. */
const EVENT_PAUSE_MS = 1;

function readPlan(): Plan {
  const { values } = parseArgs({
    options: {
      quick: { type: "boolean" },
      only: { type: "string", multiple: true },
      budget: { type: "boolean" },
    },
  });
  const parts = (values.only ?? DEFAULT_PARTS).map((name) => {
    const part = PARTS.find((known) => known === name);
    if (part === undefined) throw new Error(`--only ${name}: there is only ${PARTS.join(", ")}.`);
    return part;
  });
  return {
    parts: new Set(parts),
    isBudgetEnforced: values.budget ?? false,
    ...(values.quick ? QUICK : FULL),
  };
}

async function startSubjects(place: BenchHost, tools: Tools, upstreamPort: number): Promise<Subject[]> {
  const { stage, subjectCore: core } = place;
  const port = freePort();
  const conf = join(stage.dir, "nginx.conf");
  const asRoot = process.getuid?.() === 0;
  await Bun.write(conf, nginxConf({ dir: stage.dir, port, upstreamPort, asRoot }));
  const command = [tools.nginx, "-p", stage.dir, "-c", conf, "-e", join(stage.dir, "nginx-error.log")];
  const nginx = stage.start({ name: "nginx", command, core });
  const nginxUrl = `http://127.0.0.1:${port}`;
  await readyAfterMs(nginx, `${nginxUrl}/counts`, 5_000);
  const gateway = await startGateway(stage, { core, upstreamPort, name: "load" });
  return [
    { name: "direct", url: `http://127.0.0.1:${upstreamPort}`, pid: null },
    { name: "nginx", url: nginxUrl, pid: nginx.pid },
    { name: "gateway", url: gateway.url, pid: gateway.running.pid },
  ];
}

async function measureLoads(place: BenchHost, tools: Tools, plan: Plan, results: Results): Promise<void> {
  const upstream = await startUpstream(place, EVENT_PAUSE_MS);
  const upstreamUrl = `http://127.0.0.1:${upstream.port}`;
  const subjects = await startSubjects(place, tools, upstream.port);
  const wrk = openWrk(tools.wrk, place.stage, place.loadCore);
  const { rounds, roundMs, warmUp } = plan;
  const bench: Bench = { subjects, upstreamUrl, wrk, rounds, roundMs, warmUp, progress: place.progress };

  const loads = [
    ...(plan.parts.has("unary") ? UNARY_LOADS : []),
    ...(plan.parts.has("sse") ? SSE_LOADS : []),
  ];
  for (const load of loads) results.loads.push({ load, rounds: await runLoad(bench, load) });
  const stream = loads.find((load) => load.streaming);
  if (stream) results.eventsPerChunk = await eventsPerChunk(place, upstreamUrl, stream.connections);

  if (!plan.parts.has("latency")) return;
  // A gateway that served nothing yet is not what a lone request meets.
  if (loads.length === 0) await sequentialRound(place, subjects, warmUp.atLeastMs);
  for (let round = 1; round <= rounds; round++) {
    results.sequential.push(await sequentialRound(place, subjects, roundMs));
    place.progress(`one at a time, round ${round}/${rounds}`);
  }
}

async function measureAll(place: BenchHost, tools: Tools, plan: Plan): Promise<Results> {
  const results: Results = {
    loads: [],
    eventsPerChunk: null,
    sequential: [],
    memory: null,
    startup: null,
    dispatch: null,
    translate: null,
    policy: null,
    billing: null,
    sockets: null,
    nodes: null,
    telemetry: null,
  };
  if (plan.parts.has("dispatch")) results.dispatch = await measureDispatch(place);
  if (plan.parts.has("translate")) results.translate = await measureTranslation(place);
  if (plan.parts.has("policy")) results.policy = await measurePolicy(place);
  if (plan.parts.has("billing")) results.billing = await measureBilling(place);
  if (plan.parts.has("startup")) {
    results.startup = await measureStartup(place, KEYS_STORED, plan.startupRepeats);
  }
  if (plan.parts.has("memory")) {
    results.memory = await measureMemory(place, STREAMS_OPEN, plan.streamsHeldMs);
  }
  if (plan.parts.has("unary") || plan.parts.has("sse") || plan.parts.has("latency")) {
    await measureLoads(place, tools, plan, results);
  }
  if (plan.parts.has("sockets")) {
    const wrk = openWrk(tools.wrk, place.stage, place.loadCore);
    results.sockets = await measureSockets(place, wrk, plan);
  }
  if (plan.parts.has("nodes")) results.nodes = await measureNodes(place, plan);
  if (plan.parts.has("telemetry")) {
    const wrk = openWrk(tools.wrk, place.stage, place.loadCore);
    results.telemetry = await measureTelemetry(place, wrk, plan);
  }
  return results;
}

function endWith(stage: ProcessGroup): void {
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => {
      stage.close();
      process.exit(130);
    });
  }
}

async function main(): Promise<void> {
  const plan = readPlan();
  const tools = findOrInstallTools();
  const facts = machine(tools);
  console.log(machineText(facts));
  const { atLeastMs, atMostMs } = plan.warmUp;
  const least = `for ${atLeastMs / 1_000} s`;
  const most = `and requests and streams until its code is compiled, at most for ${atMostMs / 1_000} s`;
  const until = atLeastMs < atMostMs ? `${least}, ${most}` : least;
  console.log(`The gateway serves each load ${until}, before it is measured.\n`);

  const stage = openProcessGroup();
  endWith(stage);
  const begunMs = performance.now();
  const progress = (line: string) =>
    console.error(`${((performance.now() - begunMs) / 1_000).toFixed(0).padStart(4)} s  ${line}`);
  try {
    const [subjectCore, loadCore = subjectCore] = allowedCores();
    const place: BenchHost = { stage, bun: process.execPath, subjectCore, loadCore, progress };
    const results = await measureAll(place, tools, plan);
    console.log(`\n${resultText(results)}`);

    const at = new Date().toISOString();
    const folder = join(import.meta.dir, "results");
    mkdirSync(folder, { recursive: true });
    const file = join(folder, `${at.replaceAll(":", "-").slice(0, 19)}.json`);
    const summary = {
      loads: results.loads.flatMap(loadRows),
      sequential: sequentialRows(results.sequential),
      goals: goals(results),
    };
    const raw = {
      ...results,
      loads: results.loads.map(({ load: { body, ...load }, rounds }) => ({
        ...load,
        bodyBytes: Buffer.byteLength(body),
        rounds,
      })),
    };
    const written = { at, machine: facts, plan: { ...plan, parts: [...plan.parts] }, summary, raw };
    await Bun.write(file, `${JSON.stringify(written, null, 2)}\n`);
    console.log(`\nAll numbers: ${file}`);
    const exceeded = goals(results).filter(({ met }) => !met);
    if (plan.isBudgetEnforced && exceeded.length > 0) {
      throw new Error(`over budget: ${exceeded.map(({ title }) => title).join("; ")}`);
    }
  } finally {
    stage.close();
  }
}

function reason(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  return thrown.cause === undefined ? thrown.message : `${thrown.message}: ${reason(thrown.cause)}`;
}

try {
  await main();
  process.exit(0);
} catch (thrown) {
  console.error(`\nbench failed: ${reason(thrown)}`);
  process.exit(1);
}
