/** Traces: the spans that a collector receives, their trace context, and what a collector that is down costs. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { limits as productLimits } from "../../src/config/limits/product-limits.ts";
import { parseTraceparent } from "../../src/telemetry/trace-context.ts";
import { type CollectedSpan, type Collector, startCollector } from "../support/collector.ts";
import { type ConsoleClient, createTokenClient } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { openSocketClient } from "../support/turn-client.ts";

const SERVER = 2;
const CLIENT = 3;
const FAST = { telemetry: { ...productLimits.telemetry, intervalMs: 20, retriesMs: [20, 20], flushMs: 500 } };

const FILE = `
models:
  - { id: chat, interfaces: [chat, responses, embeddings] }
  - { id: flaky, interfaces: [chat] }
  - { id: broken, interfaces: [chat] }
  - { id: claude, interfaces: [messages, chat] }
  - { id: gemini, interfaces: [gemini, messages] }
  - { id: responses-only, interfaces: [responses, messages] }
accounts:
  - name: first
    kind: openai
    base_url: \${SIMULATOR_URL}
    credential: secret-of-first
    private_network: true
    propagate_trace: true
    models: { chat: sim-fast, flaky: fault/500 }
  - name: second
    kind: openai
    base_url: \${SIMULATOR_URL}
    private_network: true
    priority: 2
    models: { flaky: sim-fast }
  - name: third
    kind: openai
    base_url: \${SIMULATOR_URL}
    private_network: true
    models: { broken: fault/500 }
  - { name: messages, kind: anthropic, base_url: "\${SIMULATOR_ORIGIN}", private_network: true, models: { claude: sim-fast } }
  - { name: google, kind: gemini, base_url: "\${SIMULATOR_ORIGIN}", private_network: true, models: { gemini: sim-fast } }
  - name: responses
    kind: openai
    base_url: \${SIMULATOR_URL}
    private_network: true
    interfaces: [responses]
    models: { responses-only: sim-fast }
groups:
  - name: default
    models: [chat, flaky, broken, claude, gemini, responses-only]
    accounts: [first, second, third, messages, google, responses]
users: [{ email: dev@example.com, role: user }]
keys: [{ name: test, user: dev@example.com, group: default, secret: ${TEST_KEY} }]
`;

let collector: Collector;
let gateway: RunningGateway;
let admin: ConsoleClient;

beforeAll(async () => {
  collector = startCollector();
  gateway = await startTestGateway({
    file: FILE,
    telemetry: {
      endpoint: collector.url,
      headers: { "x-api-key": "collector-key" },
      resource: { "deployment.environment.name": "test" },
      trace_url: "https://traces.example.com/t/{trace_id}",
    },
    limits: FAST,
  });
  admin = await createTokenClient(gateway, "root@example.com", "read", "admin");
});
afterAll(async () => {
  await gateway.stop();
  await collector.stop();
});

const chat = (model: string, init: { stream?: boolean; headers?: Record<string, string> } = {}) =>
  gateway.call(
    "/v1/chat/completions",
    { model, stream: init.stream ?? false, max_tokens: 50, messages: [{ role: "user", content: "Hello" }] },
    { headers: { "user-agent": 'client/1.0 "quoted"', ...init.headers } },
  );

async function traced(response: Response, count: number): Promise<readonly CollectedSpan[]> {
  await response.text();
  return collector.findSpans(response.headers.get("x-request-id"), count);
}

function findSpan(spans: readonly CollectedSpan[], kind: number, index = 0): CollectedSpan {
  const found = spans.filter((span) => span.kind === kind)[index];
  if (found === undefined) throw new Error(`no span of kind ${kind} at ${index}`);
  return found;
}

describe("the spans of a request", () => {
  test("are one server span and one client span with the use of the model", async () => {
    const response = await chat("chat");
    const spans = await traced(response, 2);
    const server = findSpan(spans, SERVER);
    const client = findSpan(spans, CLIENT);
    expect(spans).toHaveLength(2);
    expect(server).toMatchObject({ name: "POST /v1/chat/completions", isError: false });
    expect(server.parentSpanId).toBeUndefined();
    expect(server.attributes).toMatchObject({
      "http.request.method": "POST",
      "http.route": "/v1/chat/completions",
      "http.response.status_code": 200,
      "user_agent.original": 'client/1.0 "quoted"',
      "gateway.group": "default",
      "gateway.model": "chat",
      "gateway.outcome": "completed",
      "gateway.attempts": 1,
    });
    expect(Object.keys(server.attributes).filter((key) => key.startsWith("gen_ai."))).toEqual([]);
    expect(server.attributes["client.address"]).toBeUndefined();
    expect(client).toMatchObject({ name: "chat sim-fast", parentSpanId: server.spanId, isError: false });
    const [row] = (await gateway.usageRows()).slice(-1);
    expect(client.attributes).toMatchObject({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "openai",
      "gen_ai.request.model": "sim-fast",
      "gen_ai.request.stream": false,
      "gen_ai.request.max_tokens": 50,
      "gen_ai.usage.input_tokens": Number(row?.input_tokens),
      "gen_ai.usage.output_tokens": Number(row?.output_tokens),
      "server.address": "127.0.0.1",
      "gateway.account": "first",
      "gateway.attempt": 1,
    });
  });

  describe("describe the response of the upstream", () => {
    const MESSAGES = [{ role: "user", content: "Hello" }];
    const GEMINI = { contents: [{ role: "user", parts: [{ text: "Hello" }] }] };
    const CASES: readonly [kind: string, path: string, body: object, reason: string][] = [
      ["Chat, whole", "/v1/chat/completions", { model: "chat", messages: MESSAGES }, "stop"],
      ["Chat, streamed", "/v1/chat/completions", { model: "chat", messages: MESSAGES, stream: true }, "stop"],
      ["Responses, whole", "/v1/responses", { model: "chat", input: "Hello" }, "completed"],
      ["Responses, streamed", "/v1/responses", { model: "chat", input: "Hello", stream: true }, "completed"],
      [
        "Messages, whole",
        "/v1/messages",
        { model: "claude", max_tokens: 50, messages: MESSAGES },
        "max_tokens",
      ],
      [
        "Messages, streamed",
        "/v1/messages",
        { model: "claude", max_tokens: 50, messages: MESSAGES, stream: true },
        "max_tokens",
      ],
      ["Gemini, whole", "/v1beta/models/gemini:generateContent", GEMINI, "STOP"],
      ["Gemini, streamed", "/v1beta/models/gemini:streamGenerateContent?alt=sse", GEMINI, "STOP"],
      ["Chat on Messages, whole", "/v1/chat/completions", { model: "claude", messages: MESSAGES }, "stop"],
      [
        "Chat on Messages, streamed",
        "/v1/chat/completions",
        { model: "claude", messages: MESSAGES, stream: true },
        "stop",
      ],
      [
        "Messages on Gemini, streamed",
        "/v1/messages",
        { model: "gemini", max_tokens: 50, messages: MESSAGES, stream: true },
        "length",
      ],
      [
        "Messages on Responses, whole",
        "/v1/messages",
        { model: "responses-only", max_tokens: 50, messages: MESSAGES },
        "length",
      ],
    ];
    test.each(CASES)("%s", async (_, path, body, reason) => {
      const spans = await traced(await gateway.call(path, body), 2);
      const { attributes } = findSpan(spans, CLIENT);
      expect(attributes).toMatchObject({
        "gen_ai.response.model": "sim-fast-2026-01-01",
        "gen_ai.response.finish_reasons": [reason],
      });
      expect(String(attributes["gen_ai.response.id"]).length).toBeGreaterThan(4);
    });
  });

  test("have the scheme that the client used, as the proxy reports it", async () => {
    const plain = findSpan(await traced(await chat("chat"), 2), SERVER);
    expect(plain.attributes["url.scheme"]).toBe("http");
    const headers = { "x-forwarded-proto": "https" };
    const secure = findSpan(await traced(await chat("chat", { headers }), 2), SERVER);
    expect(secure.attributes["url.scheme"]).toBe("https");
  });

  test("of a stream contain the time to the first chunk", async () => {
    const spans = await traced(await chat("chat", { stream: true }), 2);
    const { attributes } = findSpan(spans, CLIENT);
    expect(attributes["gen_ai.request.stream"]).toBe(true);
    expect(Number(attributes["gen_ai.response.time_to_first_chunk"])).toBeGreaterThanOrEqual(0);
  });

  test("have one client span for each attempt, and only the failed one is an error", async () => {
    const spans = await traced(await chat("flaky"), 3);
    expect(findSpan(spans, SERVER)).toMatchObject({
      isError: false,
      attributes: { "gateway.attempts": 2 },
    });
    expect(findSpan(spans, CLIENT, 0)).toMatchObject({
      isError: true,
      attributes: { "gateway.account": "first", "error.type": "server", "http.response.status_code": 500 },
    });
    expect(findSpan(spans, CLIENT, 1)).toMatchObject({
      isError: false,
      attributes: { "gateway.account": "second", "gateway.attempt": 2 },
    });
  });

  test("of a rejected request have no error status: the client is at fault", async () => {
    const spans = await traced(await chat("unheard-of"), 1);
    const server = findSpan(spans, SERVER);
    expect(server).toMatchObject({ isError: false, attributes: { "error.type": "model_not_found" } });
    expect(server.attributes["gateway.model"]).toBeUndefined();
  });

  test("of a request without a valid key name no caller", async () => {
    const response = await gateway.call("/v1/embeddings", {}, { headers: { authorization: "Bearer wrong" } });
    const { attributes } = findSpan(await traced(response, 1), SERVER);
    expect(attributes).toMatchObject({ "http.response.status_code": 401, "error.type": "invalid_api_key" });
    expect(attributes["gateway.key_id"]).toBeUndefined();
  });

  test("contain no secret and no content", async () => {
    await traced(await chat("chat"), 2);
    const text = JSON.stringify(collector.messages);
    for (const secret of [TEST_KEY, "secret-of-first", "Hello", "collector-key"]) {
      expect(text).not.toContain(secret);
    }
  });

  test("carry the resource of the process and the headers for the collector", async () => {
    await traced(await chat("chat"), 2);
    const resource = collector.messages[0]?.resourceSpans[0]?.resource.attributes ?? [];
    const values = Object.fromEntries(resource.map(({ key, value }) => [key, Object.values(value)[0]]));
    expect(values).toMatchObject({ "service.name": "model-gateway", "deployment.environment.name": "test" });
    expect(collector.requestHeaders[0]?.get("x-api-key")).toBe("collector-key");
    expect(collector.requestHeaders[0]?.get("content-encoding")).toBe("gzip");
    expect(collector.problems).toEqual([]);
  });
});

describe("the trace context", () => {
  const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
  const traceparent = `00-${traceId}-00f067aa0ba902b7-01`;

  test("of a client is continued, and reaches only accounts that allow it", async () => {
    const before = gateway.simulator.ledger.snapshot().entries.length;
    const headers = { traceparent, tracestate: "vendor=1", baggage: "user=ada" };
    const spans = await traced(await chat("flaky", { headers }), 3);
    expect(findSpan(spans, SERVER)).toMatchObject({ traceId, parentSpanId: "00f067aa0ba902b7" });
    const [toFirst, toSecond] = gateway.simulator.ledger.snapshot().entries.slice(before);
    expect(toFirst?.headers.traceparent).toBe(`00-${traceId}-${findSpan(spans, CLIENT).spanId}-01`);
    expect(toFirst?.headers.tracestate).toBe("vendor=1");
    expect(toFirst?.headers.baggage).toBeUndefined();
    expect(toSecond?.headers.traceparent).toBeUndefined();
  });

  test("of a client that does not sample is followed, except for failures", async () => {
    const headers = { traceparent: `00-${traceId}-00f067aa0ba902b7-00` };
    const unsampled = await chat("chat", { headers });
    await unsampled.text();
    await traced(await chat("broken", { headers }), 2);
    const ids = collector.spans.map(({ attributes }) => attributes["gateway.request_id"]);
    expect(ids).not.toContain(unsampled.headers.get("x-request-id"));
  });

  test("without a client's context follows from the request id", async () => {
    const response = await chat("chat");
    const requestId = response.headers.get("x-request-id") ?? "";
    const [span] = await traced(response, 2);
    expect(span?.traceId).toBe(requestId.replace("req_", "").replaceAll("-", ""));
  });

  test("of a turn on a WebSocket is in its frame, as Codex sends it", async () => {
    const client = await openSocketClient(gateway.url);
    const before = collector.spans.length;
    await client.turn({
      model: "chat",
      input: "Hello",
      client_metadata: { ws_request_header_traceparent: traceparent },
    });
    client.close();
    const spans = await eventually(() =>
      collector.spans.length >= before + 2 ? collector.spans.slice(before) : null,
    );
    expect(findSpan(spans, SERVER)).toMatchObject({
      traceId,
      name: "POST /v1/responses",
      attributes: { "network.protocol.name": "websocket" },
    });
  });

  test("is on the request page for administrators, and in the log of a failed attempt", async () => {
    const response = await chat("flaky", { headers: { traceparent } });
    await response.text();
    const id = response.headers.get("x-request-id") ?? "";
    expect(await admin.call("usage.request", { params: { id } })).toMatchObject({
      trace_id: traceId,
      trace_url: `https://traces.example.com/t/${traceId}`,
    });
    const lines = gateway.log.map((text) => JSON.parse(text));
    expect(lines).toContainEqual(expect.objectContaining({ event: "attempt_failed", trace_id: traceId }));
  });
});

test("the OpenTelemetry packages write the same message, and read trace contexts in the same way", async () => {
  const message = collector.messages.at(-1);
  const id = "4bf92f3577b34da6a3ce929d0e0e4736";
  const headers = [
    `00-${id}-00f067aa0ba902b7-01`,
    `00-${id}-00f067aa0ba902b7-00`,
    `00-${id}-00f067aa0ba902b7-03`,
    `00-${id}-00f067aa0ba902b7-01-extra`,
    `cc-${id}-00f067aa0ba902b7-01-extra`,
    `cc-${id}-00f067aa0ba902b7-01.extra`,
    `ff-${id}-00f067aa0ba902b7-01`,
    `00-${"0".repeat(32)}-00f067aa0ba902b7-01`,
    `00-${id}-${"0".repeat(16)}-01`,
    `00-${id.toUpperCase()}-00f067aa0ba902b7-01`,
    `00-${id}-00f067aa0ba902b7`,
    "",
  ];
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "../clients/otlp-oracle.mjs")], {
    stdin: Buffer.from(JSON.stringify({ message, headers })),
    stdout: "pipe",
  });
  const oracle = JSON.parse(await new Response(child.stdout).text());
  expect(comparable(message)).toEqual(comparable(oracle.message));
  for (const [i, header] of headers.entries()) {
    const expected = oracle.contexts[i];
    expect([header, parseTraceparent(header)]).toEqual([header, expected]);
  }
});

/** Without members that have their default value, and with integers as numbers: the form allows both. */
function comparable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(comparable);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).flatMap(([key, member]): [string, unknown][] => {
    if (key === "intValue" || key === "doubleValue") return [["number", Number(member)]];
    const isDefault = member === 0 || (Array.isArray(member) && member.length === 0);
    const plain = comparable(member);
    const isEmpty = key === "status" && Object.keys(plain as object).length === 0;
    return isDefault || isEmpty ? [] : [[key, plain]];
  });
  return Object.fromEntries(entries);
}

describe("a collector that fails", () => {
  async function readMetric(client: ConsoleClient, name: string): Promise<number> {
    const text = await (await client.fetch("/metrics")).text();
    return Number(
      text
        .split("\n")
        .find((line) => line.startsWith(name))
        ?.split(" ")
        .at(-1),
    );
  }

  test("costs no latency, only a counter: a black hole", async () => {
    const hole = startCollector();
    hole.respond(() => new Promise(() => {}));
    const limits = { ...FAST.telemetry, batchesMax: 2, batchSpansMax: 10, retriesMs: [] };
    const held = await startTestGateway({
      telemetry: { endpoint: hole.url, timeout: "200ms" },
      limits: { telemetry: limits },
    });
    const client = await createTokenClient(held, "root@example.com", "read", "admin");
    const body = { model: "fast-chat", messages: [{ role: "user", content: "Hello" }] };
    for (let i = 0; i < 60; i++) await (await held.call("/v1/chat/completions", body)).text();
    await eventually(
      async () => (await readMetric(client, 'gateway_telemetry_dropped_total{reason="unavailable"}')) > 0,
    );
    expect(await readMetric(client, 'gateway_telemetry_dropped_total{reason="queue_full"}')).toBeGreaterThan(
      0,
    );
    expect(await readMetric(client, "gateway_telemetry_exported_total")).toBe(0);
    const failures = held.log.filter((line) => line.includes("telemetry_export_failed"));
    expect(failures).toHaveLength(1);
    // The collector never responds, and the gateway stops before it.
    await held.stop();
    await hole.stop();
  }, 60_000);

  test("is sent the same batch again when it is busy, and not when it rejects the batch", async () => {
    const before = collector.spans.length;
    let responses = 0;
    collector.respond(() => (++responses === 1 ? new Response("busy", { status: 503 }) : Response.json({})));
    await traced(await chat("chat"), 2);
    expect(responses).toBe(2);
    expect(collector.spans.length - before).toBe(2);
    collector.respond(() => new Response("no", { status: 400 }));
    await (await chat("chat")).text();
    await eventually(
      async () => (await readMetric(admin, 'gateway_telemetry_dropped_total{reason="rejected"}')) === 2,
    );
    collector.respond(() => Response.json({ partialSuccess: { rejectedSpans: "1" } }));
    await traced(await chat("chat"), 2);
    await eventually(
      async () => (await readMetric(admin, 'gateway_telemetry_dropped_total{reason="rejected"}')) === 3,
    );
    collector.respond(() => Response.json({}));
  });
});

test("a gateway that stops exports the spans that it still has", async () => {
  const last = startCollector();
  const brief = await startTestGateway({ environment: { OTEL_EXPORTER_OTLP_ENDPOINT: last.url } });
  const body = { model: "fast-chat", messages: [{ role: "user", content: "Hello" }] };
  await (await brief.call("/v1/chat/completions", body)).text();
  expect(last.spans).toEqual([]);
  await brief.stop();
  expect(last.spans).toHaveLength(2);
  await last.stop();
});
