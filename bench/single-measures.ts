/** What is not load: added latency of a lone request, memory of many open streams, time to ready. */

import type { BillingCost } from "./billing-cost.ts";
import type { DispatchCost } from "./dispatch-cost.ts";
import { BENCH_KEY, startGateway } from "./gateway-process.ts";
import type { Subject, SubjectName } from "./load.ts";
import { rssBytes } from "./measure.ts";
import type { PolicyCost } from "./policy-cost.ts";
import { type BenchProcess, freePort, type ProcessGroup, readyAfterMs } from "./processes.ts";
import { chatBody, chatStreamBody } from "./request-bodies.ts";
import type { SequentialReport } from "./sequential.ts";
import type { ReaderReport } from "./stream-reader.ts";
import type { TranslateCost } from "./translate-cost.ts";

export interface BenchHost {
  stage: ProcessGroup;
  bun: string;
  subjectCore: number | undefined;
  loadCore: number | undefined;
  progress(line: string): void;
}

const benchFile = (file: string) => `${import.meta.dir}/${file}`;

export async function startUpstream(
  place: BenchHost,
  pauseMs: number,
): Promise<{ running: BenchProcess; port: number }> {
  const port = freePort();
  const command = [place.bun, benchFile("upstream.ts"), String(port), String(pauseMs)];
  const running = place.stage.start({ name: "upstream", command, core: place.loadCore });
  await readyAfterMs(running, `http://127.0.0.1:${port}/counts`, 5_000);
  return { running, port };
}

/** Needs no network, only a process to itself. */
export async function measureDispatch(place: BenchHost): Promise<DispatchCost> {
  const printed = await place.stage.runToEnd({
    name: "dispatch cost",
    command: [place.bun, benchFile("dispatch-cost.ts")],
    core: place.subjectCore,
  });
  place.progress("admission and dispatch");
  const cost: DispatchCost = JSON.parse(printed);
  return cost;
}

/** Needs no network, only a process to itself. */
export async function measureTranslation(place: BenchHost): Promise<TranslateCost> {
  const printed = await place.stage.runToEnd({
    name: "translate cost",
    command: [place.bun, benchFile("translate-cost.ts")],
    core: place.subjectCore,
  });
  place.progress("translation");
  const cost: TranslateCost = JSON.parse(printed);
  return cost;
}

/** Needs no network, only a process to itself. */
export async function measurePolicy(place: BenchHost): Promise<PolicyCost> {
  const printed = await place.stage.runToEnd({
    name: "policy cost",
    command: [place.bun, benchFile("policy-cost.ts")],
    core: place.subjectCore,
  });
  place.progress("request policy");
  const cost: PolicyCost = JSON.parse(printed);
  return cost;
}

/** Takes some minutes: the code of both billing paths is compiled first. */
export async function measureBilling(place: BenchHost): Promise<BillingCost> {
  const printed = await place.stage.runToEnd({
    name: "billing cost",
    command: [place.bun, benchFile("billing-cost.ts"), "--json"],
    core: place.subjectCore,
  });
  place.progress("hold and settle");
  const cost: BillingCost = JSON.parse(printed);
  return cost;
}

export type SequentialRound = Record<SubjectName, SequentialReport>;

export async function sequentialRound(
  place: BenchHost,
  subjects: readonly Subject[],
  durationMs: number,
): Promise<Partial<SequentialRound>> {
  const round: Partial<SequentialRound> = {};
  for (const { name, url } of subjects) {
    const { port } = new URL(url);
    const printed = await place.stage.runToEnd({
      name: "sequential client",
      command: [place.bun, benchFile("sequential.ts"), port, "/v1/chat/completions", String(durationMs)],
      core: place.loadCore,
      env: { BENCH_KEY },
      input: chatBody(1_000),
    });
    const report: SequentialReport = JSON.parse(printed);
    round[name] = report;
  }
  return round;
}

async function readStreams(
  place: BenchHost,
  url: string,
  streams: number,
  holdMs: number,
  core: number | undefined,
): Promise<ReaderReport> {
  const printed = await place.stage.runToEnd({
    name: "stream reader",
    command: [
      place.bun,
      benchFile("stream-reader.ts"),
      `${url}/v1/chat/completions`,
      String(streams),
      String(holdMs),
    ],
    core,
    env: { BENCH_KEY, BUN_CONFIG_MAX_HTTP_REQUESTS: "65535" },
    input: chatStreamBody(),
  });
  const report: ReaderReport = JSON.parse(printed);
  if (report.failed > 0) throw new Error(`${report.failed} streams failed, first: ${report.firstFailure}`);
  return report;
}

/** A reader in the gateway's place, on its core: how many events come in one chunk. */
export async function eventsPerChunk(
  place: BenchHost,
  upstreamUrl: string,
  streams: number,
): Promise<number> {
  const report = await readStreams(place, upstreamUrl, streams, 1_000, place.subjectCore);
  return report.events / report.chunks;
}

export interface MemoryReport {
  streams: number;
  idleBytes: number;
  /** The highest of samples while all streams were open. */
  openBytes: number;
}

export async function measureMemory(
  place: BenchHost,
  streams: number,
  holdMs: number,
): Promise<MemoryReport> {
  const slow = await startUpstream(place, 500);
  const gateway = await startGateway(place.stage, {
    core: place.subjectCore,
    upstreamPort: slow.port,
    name: "memory",
  });
  const { pid } = gateway.running;
  const idleBytes = rssBytes(pid);
  const samples: { readonly atMs: number; readonly bytes: number }[] = [];
  const sampler = setInterval(() => samples.push({ atMs: Date.now(), bytes: rssBytes(pid) }), 250);
  let heldUntilMs = 0;
  try {
    const report = await readStreams(place, gateway.url, streams, holdMs, place.loadCore);
    if (report.openAtEnd !== streams) {
      throw new Error(`only ${report.openAtEnd} of ${streams} streams were open together`);
    }
    heldUntilMs = report.heldUntilMs;
  } finally {
    clearInterval(sampler);
  }
  // Settling a thousand streams that end at once is other work.
  const held = samples.filter(({ atMs }) => atMs <= heldUntilMs);
  const openBytes = Math.max(...held.map(({ bytes }) => bytes));
  place.progress(`${streams} open streams: ${(openBytes / 1e6).toFixed(0)} MB`);
  await gateway.running.stop();
  await slow.running.stop();
  return { streams, idleBytes, openBytes };
}

export interface StartupReport {
  keys: number;
  /** Once: an empty folder, all keys come from the file. */
  firstMs: number;
  /** Again with the same file, which changes nothing. */
  sameFileMs: number[];
  /** From what is stored, without a file. */
  storedMs: number[];
}

/** Not pinned: a user's process is not either. */
export async function measureStartup(
  place: BenchHost,
  keys: number,
  repeats: number,
): Promise<StartupReport> {
  const once = async (extraKeys: number | null) => {
    const gateway = await startGateway(place.stage, { upstreamPort: freePort(), name: "startup", extraKeys });
    await gateway.running.stop();
    return gateway.readyMs;
  };
  const report: StartupReport = { keys, firstMs: await once(keys), sameFileMs: [], storedMs: [] };
  for (let i = 0; i < repeats; i++) {
    report.sameFileMs.push(await once(keys));
    report.storedMs.push(await once(null));
  }
  const shown = report.storedMs.map((ms) => ms.toFixed(0)).join(", ");
  place.progress(`ready with ${keys} keys: ${shown} ms`);
  return report;
}
