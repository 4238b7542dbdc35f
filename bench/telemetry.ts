/**
 * What tracing and captures cost: the CPU of a request of 1 KB in gateways that differ in one setting only. Every
 * setting has several processes, because the compiler makes equal processes differ by a microsecond or more.
 */

import type { CollectorCounts } from "./collector.ts";
import { BENCH_KEY, type GatewayProcess, startGateway } from "./gateway-process.ts";
import { UNARY_LOADS } from "./load.ts";
import { cpuMicrosBetween, readCpu } from "./measure.ts";
import { freePort, readyAfterMs } from "./processes.ts";
import { type BenchHost, startUpstream } from "./single-measures.ts";
import type { TelemetryCost } from "./telemetry-cost.ts";
import { type RoundPlan, warmUp } from "./warm-up.ts";
import type { Wrk } from "./wrk.ts";

export const TELEMETRY_SETTINGS = ["plain", "traced", "capturing"] as const;
/** `traced`: every request is exported. `capturing`: all requests of another key are captured. */
export type TelemetrySetting = (typeof TELEMETRY_SETTINGS)[number];

export interface TelemetryResults {
  cost: TelemetryCost;
  /** CPU microseconds a request, of every process in every round. */
  micros: Record<TelemetrySetting, number[]>;
  /** Of the spans of all measured requests. */
  exportedShare: number;
}

const PROCESSES = 2;
/** There are many processes, and what is compiled late costs all of them the same. */
const WARM_UP_MS_MAX = 30_000;
const CONNECTIONS = 8;
/** Of a request that one account serves at once. */
const SPANS_PER_REQUEST = 2;
/** Work that a round leaves behind, such as usage rows and garbage, is counted to the round. */
const SETTLE_MS = 250;
/** Spans wait up to five seconds for others. */
const EXPORT_MS = 6_000;

interface MeasuredGateway {
  readonly setting: TelemetrySetting;
  readonly gateway: GatewayProcess;
  requests: number;
}

export async function measureTelemetry(
  place: BenchHost,
  wrk: Wrk,
  plan: RoundPlan,
): Promise<TelemetryResults> {
  const upstream = await startUpstream(place, 0);
  const cost = await measureCost(place);
  const collectorUrl = await startCollector(place);
  const gateways: MeasuredGateway[] = [];
  for (let i = 0; i < PROCESSES; i++)
    for (const setting of TELEMETRY_SETTINGS) {
      const name = `telemetry-${setting}-${i}`;
      const gateway = await startGateway(place.stage, {
        core: place.subjectCore,
        upstreamPort: upstream.port,
        name,
        isOtherKeyCaptured: setting === "capturing",
        env: setting === "traced" ? tracingVariables(collectorUrl) : {},
      });
      gateways.push({ setting, gateway, requests: 0 });
    }
  const atMostMs = Math.min(plan.warmUp.atMostMs, WARM_UP_MS_MAX);
  for (const one of gateways) {
    const { pid } = one.gateway.running;
    const text = await warmUp(pid, { ...plan.warmUp, atMostMs }, (ms) => applyLoad(wrk, one, ms));
    place.progress(`${one.setting}: ${text}`);
  }
  const micros: TelemetryResults["micros"] = { plain: [], traced: [], capturing: [] };
  for (let i = 1; i <= plan.rounds; i++) {
    // Every other round goes the other way round, so that no setting has the better place in it.
    for (const one of i % 2 === 0 ? gateways.toReversed() : gateways)
      micros[one.setting].push(await measureOnce(wrk, one, plan.roundMs));
    place.progress(`tracing and captures, round ${i}/${plan.rounds}`);
  }
  await Bun.sleep(EXPORT_MS);
  const exportedShare = await readExportedShare(collectorUrl, gateways);
  for (const { gateway } of gateways) await gateway.running.stop();
  await upstream.running.stop();
  return { cost, micros, exportedShare };
}

/** Tracing alone: it does not drown in what a busy machine adds to a whole request. */
async function measureCost(place: BenchHost): Promise<TelemetryCost> {
  const collectorUrl = await startCollector(place);
  const printed = await place.stage.runToEnd({
    name: "telemetry cost",
    command: [place.bun, `${import.meta.dir}/telemetry-cost.ts`, collectorUrl],
    core: place.subjectCore,
  });
  place.progress("tracing");
  const cost: TelemetryCost = JSON.parse(printed);
  return cost;
}

function tracingVariables(collectorUrl: string): Record<string, string> {
  return { OTEL_EXPORTER_OTLP_ENDPOINT: collectorUrl, OTEL_TRACES_SAMPLER: "always_on" };
}

async function startCollector(place: BenchHost): Promise<string> {
  const port = freePort();
  const command = [place.bun, `${import.meta.dir}/collector.ts`, String(port)];
  const running = place.stage.start({ name: "collector", command, core: place.loadCore });
  const url = `http://127.0.0.1:${port}`;
  await readyAfterMs(running, url, 5_000);
  return url;
}

async function applyLoad(wrk: Wrk, measured: MeasuredGateway, durationMs: number): Promise<number> {
  const load = UNARY_LOADS[0];
  if (load === undefined) throw new Error("there is no load");
  const { requests } = await wrk.run({
    url: measured.gateway.url + load.path,
    body: load.body,
    key: BENCH_KEY,
    connections: CONNECTIONS,
    durationMs,
  });
  measured.requests += requests;
  return requests;
}

async function measureOnce(wrk: Wrk, measured: MeasuredGateway, roundMs: number): Promise<number> {
  const { pid } = measured.gateway.running;
  const before = readCpu(pid);
  const requests = await applyLoad(wrk, measured, roundMs);
  await Bun.sleep(SETTLE_MS);
  return cpuMicrosBetween(before, readCpu(pid)) / requests;
}

async function readExportedShare(
  collectorUrl: string,
  gateways: readonly MeasuredGateway[],
): Promise<number> {
  const counts: CollectorCounts = JSON.parse(await (await fetch(collectorUrl)).text());
  const traced = gateways.filter(({ setting }) => setting === "traced");
  const requests = traced.reduce((sum, { requests: served }) => sum + served, 0);
  return counts.spans / (requests * SPANS_PER_REQUEST);
}
