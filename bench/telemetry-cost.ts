/**
 * What tracing costs a request: its span context, its two spans, and their message, compressed and sent to a collector.
 * `bun bench/telemetry-cost.ts COLLECTOR_URL` prints JSON. A process of its own, so that nothing else is measured with it.
 */

import { randomBytes } from "node:crypto";
import { systemClock } from "../src/base/clock.ts";
import { openDeadlines } from "../src/base/deadlines.ts";
import { limits } from "../src/config/limits/product-limits.ts";
import {
  lookUpEndpoint,
  MODEL,
  makeCaller,
  makeRequest,
  ROUTE,
} from "../src/gateway/charging/charging.test-support.ts";
import { UNCHANGED } from "../src/gateway/request/attempt-trace.ts";
import { openContext, setCaller } from "../src/gateway/request-context.ts";
import { exportSpans, type RequestEnd } from "../src/gateway/settlement/request-spans.ts";
import { NO_TOKENS } from "../src/money/token-counts.ts";
import { openHttpClient } from "../src/net/http-client/client.ts";
import { Dialer } from "../src/net/http-client/dial.ts";
import { HeadReader } from "../src/net/http-server/head-reader.ts";
import { RequestHead } from "../src/net/http-server/request-head.ts";
import type { HeaderReader } from "../src/net/wire/http-fields.ts";
import { OtlpClient, type OtlpResult } from "../src/telemetry/otlp-client.ts";
import { buildFrame } from "../src/telemetry/resource.ts";
import { SpanExporter } from "../src/telemetry/span-exporter.ts";
import { Tracer } from "../src/telemetry/tracer.ts";
import { median } from "./measure.ts";

export interface TelemetryCost {
  tracingMicros: number;
  /** On the thread that serves requests; the rest is compression, on another thread. */
  tracingMainThreadMicros: number;
}

const ROUNDS = 41;
const WARM_UP_ROUNDS = 8;
const MESSAGES_PER_ROUND = 40;
const SPANS_PER_REQUEST = 2;
const REQUESTS_PER_MESSAGE = limits.telemetry.batchSpansMax / SPANS_PER_REQUEST;

/** Reports accepted messages, so that the loop leaves the exporter time and no span is dropped. */
class AcknowledgingClient {
  readonly #client: OtlpClient;
  #accepted = Promise.withResolvers<void>();

  constructor(client: OtlpClient) {
    this.#client = client;
  }

  nextAccepted(): Promise<void> {
    this.#accepted = Promise.withResolvers();
    return this.#accepted.promise;
  }

  async send(message: Uint8Array): Promise<OtlpResult> {
    const result = await this.#client.send(message);
    if (result.kind === "accepted") this.#accepted.resolve();
    else this.#accepted.reject(new Error(`the collector did not accept a message: ${result.reason}`));
    return result;
  }
}

function openClient(collectorUrl: string): AcknowledgingClient {
  const deadlines = openDeadlines(limits.deadlineScanMs, systemClock);
  const clock = { ...systemClock, monotonicMs: deadlines.lastScanMs };
  const { connectTimeoutMs, upstreamIdleMs, upstreamHeadBytesMax, lookupTimeoutMs, addressCacheMs } = limits;
  return new AcknowledgingClient(
    new OtlpClient({
      dialer: new Dialer({ clock, lookupTimeoutMs, cacheMs: addressCacheMs }),
      http: openHttpClient({
        deadlines,
        clock,
        connectTimeoutMs,
        idleMs: upstreamIdleMs,
        idlePerOriginMax: 1,
        headBytesMax: upstreamHeadBytesMax,
      }),
      nowMs: systemClock.nowMs,
      url: `${collectorUrl}/v1/traces`,
      headers: {},
      compression: "gzip",
      timeoutMs: 10_000,
      userAgent: "bench",
    }),
  );
}

const client = openClient(process.argv[2] ?? "");
const tracer = new Tracer({
  exporter: new SpanExporter({
    client,
    frame: () => buildFrame({ serviceName: "bench", instanceId: "bench", attributes: {} }),
    log: { info() {}, warn() {} },
    limits: limits.telemetry,
  }),
  randomBytes,
  sampleRatio: 1,
  clientContext: "follow",
  slowMs: 60_000,
  clientAddress: false,
  traceUrl: null,
});

const HEADERS = readHeaders();
const ENDPOINT = lookUpEndpoint("chat.completions");
const CALLER = makeCaller("balance");
const REQUEST = makeRequest("chat.completions");
const SIGNAL = new AbortController().signal;
const REQUEST_IDS = Array.from({ length: REQUESTS_PER_MESSAGE }, () => `req_${crypto.randomUUID()}`);

function readHeaders(): HeaderReader {
  const lines = ["POST /v1/chat/completions HTTP/1.1", "host: gateway", "user-agent: OpenAI/Python 2.1"];
  const bytes = Buffer.from([...lines, "content-type: application/json", "", ""].join("\r\n"));
  const head = new HeadReader().read(bytes, 0, bytes.length);
  if (!(head instanceof RequestHead)) throw new Error("the head is not valid");
  return head.options.headers;
}

/** One request as far as tracing takes part in it. */
function serve(requestId: string, by: Tracer | null): void {
  const call = {
    request: { headers: HEADERS, signal: SIGNAL },
    requestId,
    startedMs: 100,
    bodyBytes: 1_000,
    clientAddress: () => "",
    networkAddress: () => "",
    socketTurn: null,
    closeConnection() {},
  };
  const context = openContext(call, ENDPOINT, by);
  setCaller(context, CALLER);
  context.request = REQUEST;
  context.model = MODEL;
  context.trace.beginAttempt({ route: ROUTE, changes: UNCHANGED, nowMs: 101 });
  context.trace.lastAttempt?.recordFirstByte("upstream-request-1", 300);
  const end: RequestEnd = {
    ...NO_TOKENS,
    inputTokens: 812,
    outputTokens: 96,
    atMs: systemClock.nowMs(),
    durationMs: 400,
    status: 200,
    outcome: "completed",
    errorCode: null,
    waitMs: 0,
    costNano: 1_475_000n,
    usageSource: "upstream",
    responseId: "chatcmpl-1",
  };
  const facts = { id: "chatcmpl-1", model: "gpt-5.5-2026-04-23", finishReasons: ["stop"] };
  if (by !== null) exportSpans(by, context, { row: end, describeResponse: () => facts });
}

interface RoundCost {
  readonly allMicros: number;
  readonly mainMicros: number;
}

async function measureRound(by: Tracer | null): Promise<RoundCost> {
  const before = process.cpuUsage();
  const mainBefore = process.threadCpuUsage();
  for (let message = 0; message < MESSAGES_PER_ROUND; message++) {
    const accepted = by === null ? Bun.sleep(0) : client.nextAccepted();
    for (const requestId of REQUEST_IDS) serve(requestId, by);
    await accepted;
  }
  const all = process.cpuUsage(before);
  const main = process.threadCpuUsage(mainBefore);
  const requests = MESSAGES_PER_ROUND * REQUESTS_PER_MESSAGE;
  return {
    allMicros: (all.user + all.system) / requests,
    mainMicros: (main.user + main.system) / requests,
  };
}

const added: RoundCost[] = [];
for (let round = -WARM_UP_ROUNDS; round < ROUNDS; round++) {
  const without = await measureRound(null);
  const traced = await measureRound(tracer);
  if (round < 0) continue;
  added.push({
    allMicros: traced.allMicros - without.allMicros,
    mainMicros: traced.mainMicros - without.mainMicros,
  });
}
const cost: TelemetryCost = {
  tracingMicros: median(added.map(({ allMicros }) => allMicros)),
  tracingMainThreadMicros: median(added.map(({ mainMicros }) => mainMicros)),
};
console.log(JSON.stringify(cost));
process.exit(0);
