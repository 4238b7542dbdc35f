/** Load on direct, nginx and gateway in turn, and what it cost the process under test. */

import { BENCH_KEY } from "./gateway-process.ts";
import { cpuMicrosBetween, readCpu, rssBytes } from "./measure.ts";
import {
  chatBody,
  chatStreamBody,
  EVENTS_PER_STREAM,
  PUBLIC_MODEL,
  responsesStreamBody,
} from "./request-bodies.ts";
import type { UpstreamCounts } from "./upstream.ts";
import { type WarmUp, warmUp } from "./warm-up.ts";
import type { Wrk, WrkResult } from "./wrk.ts";

export const SUBJECTS = ["direct", "nginx", "gateway"] as const;
export type SubjectName = (typeof SUBJECTS)[number];

export interface Subject {
  name: SubjectName;
  url: string;
  /** Null for direct: there is no process in between. */
  pid: number | null;
}

export interface Load {
  id: "unary-1k" | "unary-20k" | "unary-200k" | "sse-chat" | "sse-responses";
  title: string;
  path: string;
  body: string;
  connections: number;
  /** While the gateway warms up: streams are few a second otherwise, and what begins and ends them is code too. */
  warmUpConnections: number;
  streaming: boolean;
}

export interface LoadRun {
  subject: SubjectName;
  requests: number;
  /** Counted where they are made, so that streams cut off at the end of a round are counted too. */
  events: number;
  requestsPerSecond: number;
  latencyMs: { p50: number; p90: number; p99: number; max: number };
  /** Null for direct. */
  process: {
    cpuMicrosPerRequest: number;
    cpuMicrosPerEvent: number;
    busyShare: number;
    rssBytes: number;
  } | null;
}

const CHAT_PATH = "/v1/chat/completions";

function unary(id: Load["id"], kb: number): Load {
  const body = chatBody(kb * 1_000);
  const title = `unary ${kb} KB`;
  return { id, title, path: CHAT_PATH, body, connections: 32, warmUpConnections: 32, streaming: false };
}

/** Few enough streams that no core is saturated: then events arrive, and are forwarded, one by one. */
const STREAMS = 20;
const WARM_UP_STREAMS = 200;

export const UNARY_LOADS: readonly Load[] = [
  unary("unary-1k", 1),
  unary("unary-20k", 20),
  unary("unary-200k", 200),
];

export const SSE_LOADS: readonly Load[] = [
  {
    id: "sse-chat",
    title: "SSE chat",
    path: CHAT_PATH,
    body: chatStreamBody(),
    connections: STREAMS,
    warmUpConnections: WARM_UP_STREAMS,
    streaming: true,
  },
  {
    id: "sse-responses",
    title: "SSE responses",
    path: "/v1/responses",
    body: responsesStreamBody(),
    connections: STREAMS,
    warmUpConnections: WARM_UP_STREAMS,
    streaming: true,
  },
];

export interface Bench {
  subjects: readonly Subject[];
  upstreamUrl: string;
  wrk: Wrk;
  rounds: number;
  roundMs: number;
  warmUp: WarmUp;
  progress(line: string): void;
}

/** Remaining work of a round (usage rows, garbage) counts for it, even if it is done later. */
const SETTLE_MS = 250;

export async function runLoad(bench: Bench, load: Load): Promise<LoadRun[][]> {
  for (const subject of bench.subjects) {
    await checkResponse(subject, load);
    // Only the gateway's code is compiled while it runs.
    if (subject.name === "gateway" && subject.pid !== null) {
      const many = { ...load, connections: load.warmUpConnections };
      const warmUpText = await warmUp(subject.pid, bench.warmUp, (spanMs) =>
        sendLoad(bench, subject, many, spanMs),
      );
      bench.progress(`${load.title}: the gateway ${warmUpText}`);
    }
  }
  const rounds: LoadRun[][] = [];
  for (let round = 1; round <= bench.rounds; round++) {
    const runs: LoadRun[] = [];
    for (const subject of bench.subjects) runs.push(await measure(bench, subject, load));
    rounds.push(runs);
    const cost = runs.flatMap(({ subject, process: used }) => {
      if (used === null) return [];
      const micros = load.streaming ? used.cpuMicrosPerEvent : used.cpuMicrosPerRequest;
      return [`${subject} ${micros.toFixed(1)} µs`];
    });
    bench.progress(`${load.title}, round ${round}/${bench.rounds}: ${cost.join(", ")}`);
  }
  return rounds;
}

async function sendLoad(bench: Bench, subject: Subject, load: Load, durationMs: number): Promise<WrkResult> {
  const { path, body, connections } = load;
  try {
    return await bench.wrk.run({ url: subject.url + path, body, key: BENCH_KEY, connections, durationMs });
  } catch (thrown) {
    throw new Error(`${subject.name}, ${load.title}`, { cause: thrown });
  }
}

const ATTEMPTS_MAX = 3;

/** On a busy machine a core can be unavailable for most of a round; such a round is discarded. */
async function measure(bench: Bench, subject: Subject, load: Load): Promise<LoadRun> {
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    const run = await measureOnce(bench, subject, load);
    if (run.requests > load.connections) return run;
    bench.progress(`${load.title}, ${subject.name}: the machine was busy elsewhere, once more`);
  }
  throw new Error(`${subject.name}, ${load.title}: hardly a request was completed`);
}

async function measureOnce(bench: Bench, subject: Subject, load: Load): Promise<LoadRun> {
  const { pid } = subject;
  const countsBefore = await counts(bench.upstreamUrl);
  const cpuBefore = pid === null ? null : readCpu(pid);
  const result = await sendLoad(bench, subject, load, bench.roundMs);
  await Bun.sleep(SETTLE_MS);
  const cpuUsed = pid === null || cpuBefore === null ? 0 : cpuMicrosBetween(cpuBefore, readCpu(pid));
  const events = (await counts(bench.upstreamUrl)).events - countsBefore.events;
  return {
    subject: subject.name,
    requests: result.requests,
    events,
    requestsPerSecond: (result.requests * 1_000) / result.durationMs,
    latencyMs: result.latencyMs,
    process:
      pid === null
        ? null
        : {
            cpuMicrosPerRequest: cpuUsed / result.requests,
            cpuMicrosPerEvent: events === 0 ? 0 : cpuUsed / events,
            busyShare: cpuUsed / 1_000 / result.durationMs,
            rssBytes: rssBytes(pid),
          },
  };
}

async function counts(upstreamUrl: string): Promise<UpstreamCounts> {
  const response: UpstreamCounts = JSON.parse(await (await fetch(`${upstreamUrl}/counts`)).text());
  return response;
}

/** Before anything is measured: the response is the right one, not only a fast one. */
async function checkResponse(subject: Subject, load: Load): Promise<void> {
  const response = await fetch(subject.url + load.path, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${BENCH_KEY}` },
    body: load.body,
  });
  const text = await response.text();
  const wrong = (what: string) =>
    new Error(`${subject.name}, ${load.title}: ${what}\n${text.slice(0, 1_000)}`);
  if (response.status !== 200) throw wrong(`answered ${response.status}`);
  // The gateway adds the mark to Responses streams, where OpenAI sends none.
  const eventText = load.path === CHAT_PATH ? text : text.replace("data: [DONE]\n\n", "");
  const events = eventText.match(/^data: /gm)?.length ?? 0;
  if (load.streaming && events !== EVENTS_PER_STREAM) throw wrong(`sent ${events} events`);
  if (subject.name === "gateway" && !text.includes(`"model":"${PUBLIC_MODEL}"`)) {
    throw wrong(`did not answer as ${PUBLIC_MODEL}`);
  }
}
