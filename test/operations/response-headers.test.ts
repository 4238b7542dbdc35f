/** Which metadata of an upstream response is forwarded to the client, and which is not. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { eventStream, responsesEvent } from "../support/canned-upstream.ts";
import { eventually } from "../support/eventually.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { eventsIn, type SentEvent } from "../support/sse-text.ts";
import { openSocketClient } from "../support/turn-client.ts";

const UPSTREAM_MODEL = "up-canary-2026";
const UPSTREAM_ID = "0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000";
const HEAD = {
  "x-request-id": UPSTREAM_ID,
  "x-reasoning-included": "canary",
  "openai-processing-ms": "12",
  "openai-model": UPSTREAM_MODEL,
  "openai-organization": "org-canary",
  "x-codex-turn-state": "canary",
  "x-codex-primary-used-percent": "77",
  "x-models-etag": "canary",
};

let respond: () => Response | Promise<Response>;
let upstream: ReturnType<typeof Bun.serve>;
let gateway: RunningGateway;

beforeAll(async () => {
  upstream = Bun.serve({ port: 0, hostname: "127.0.0.1", idleTimeout: 0, fetch: () => respond() });
  gateway = await startTestGateway({
    limits: { keepAliveMs: 300, keepAliveTickMs: 20 },
    environment: { UPSTREAM_URL: `http://127.0.0.1:${upstream.port}/v1` },
    file: `
models: [{ id: own, interfaces: [chat, responses, embeddings, images] }]
accounts:
  - name: only
    kind: openai
    base_url: \${UPSTREAM_URL}
    credential: c
    private_network: true
    models: { own: ${UPSTREAM_MODEL} }
groups: [{ name: default, models: [own], accounts: [only] }]
keys: [{ name: test, group: default, secret: ${TEST_KEY} }]
`,
  });
});

afterAll(async () => {
  await gateway.stop();
  await upstream.stop(true);
});

/** Headers of the response alone; `eventStream` sets its content type. */
function withHead(response: Response): Response {
  for (const [name, value] of Object.entries(HEAD)) response.headers.set(name, value);
  return response;
}

const response = (status: string) => ({
  id: "resp_1",
  object: "response",
  model: UPSTREAM_MODEL,
  status,
  output: [],
  usage: status === "completed" ? { input_tokens: 3, output_tokens: 2, total_tokens: 5 } : null,
});
const RESPONSE_EVENTS = [
  responsesEvent("response.created", { sequence_number: 0, response: response("in_progress") }),
  responsesEvent("response.output_text.delta", { sequence_number: 1, delta: "Hi" }),
  responsesEvent("response.completed", { sequence_number: 2, response: response("completed") }),
];
const chunk = (choices: object[], more: object = {}) =>
  `data: ${JSON.stringify({ id: "c1", object: "chat.completion.chunk", created: 1, model: UPSTREAM_MODEL, choices, ...more })}\n\n`;
const USAGE = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 };

async function stream(path: string, body: object): Promise<{ events: SentEvent[]; headers: Headers }> {
  const response = await gateway.call(path, { model: "own", stream: true, ...body });
  const text = await response.text();
  expect(response.status, text).toBe(200);
  expect(text).not.toContain("canary");
  return { events: eventsIn(text), headers: response.headers };
}

describe("account information from a Responses upstream", () => {
  const PRIVATE = [
    responsesEvent("codex.rate_limits", { plan_type: "pro", rate_limits: { primary: { used_percent: 77 } } }),
    responsesEvent("codex.response.metadata", { headers: { "x-models-etag": "canary" } }),
    responsesEvent("responsesapi.websocket_timing", { host: "org-canary.internal" }),
    responsesEvent("response.metadata", { headers: { "x-codex-turn-state": "canary" } }),
  ];
  const received = () => eventStream(RESPONSE_EVENTS.flatMap((event) => [...PRIVATE, event]));
  const PUBLIC = ["response.created", "response.output_text.delta", "response.completed"];

  test("is not forwarded on a stream", async () => {
    respond = received;
    const { events } = await stream("/v1/responses", { input: "x" });
    expect(events.map(({ type }) => type)).toEqual([...PUBLIC, null]);
  });

  test.each([{ "user-agent": "my-app/1" }, { "user-agent": "codex_exec/0.166.0", originator: "codex_exec" }])(
    "is not forwarded on a WebSocket with the headers %j",
    async (headers) => {
      respond = received;
      const client = await openSocketClient(gateway.url, { headers });
      const { events } = await client.turn({ model: "own", input: "x" });
      client.close();
      expect(events.map(({ type }) => type)).toEqual(PUBLIC);
      expect(JSON.stringify(events)).not.toContain("canary");
    },
  );

  test("does not count as content: a later failure still results in an error response", async () => {
    respond = () => eventStream([...PRIVATE, responsesEvent("response.failed", { response: {} })]);
    const refused = await gateway.call("/v1/responses", { model: "own", input: "x", stream: true });
    expect(refused.status).toBe(502);
  });
});

test("every event of a streamed image has the public model name", async () => {
  const picture = { b64_json: "AAAA", model: UPSTREAM_MODEL };
  respond = () =>
    eventStream([
      responsesEvent("image_generation.partial_image", { partial_image_index: 0, ...picture }),
      responsesEvent("image_generation.completed", { ...picture, usage: USAGE }),
    ]);
  const { events } = await stream("/v1/images/generations", { prompt: "x" });
  expect(events.map(({ data }) => JSON.parse(data))).toMatchObject([
    { type: "image_generation.partial_image", b64_json: "AAAA", model: "own" },
    { type: "image_generation.completed", b64_json: "AAAA", model: "own", usage: USAGE },
  ]);
});

describe("the response headers", () => {
  const CROSSING = {
    "x-upstream-request-id": UPSTREAM_ID,
    "x-reasoning-included": "true",
    "openai-processing-ms": "12",
    "openai-model": "own",
  };
  /** Only headers that an upstream can send, without the gateway's own. */
  const crossed = (headers: Headers) =>
    Object.fromEntries(
      [...headers].filter(([name]) => name in CROSSING || (name in HEAD && name !== "x-request-id")),
    );

  test("of a whole response contain only the allowed upstream headers", async () => {
    respond = () => withHead(Response.json(response("completed")));
    const whole = await gateway.call("/v1/responses", { model: "own", input: "x" });
    expect(crossed(whole.headers)).toEqual(CROSSING);
    expect(whole.headers.get("x-request-id")).toStartWith("req_");
    const kept = await gateway.call("/v1/responses/resp_1");
    expect(crossed(kept.headers)).toEqual(CROSSING);
  });

  test("of a stream contain the same", async () => {
    respond = () => withHead(eventStream(RESPONSE_EVENTS));
    expect(crossed((await stream("/v1/responses", { input: "x" })).headers)).toEqual(CROSSING);
    const kept = await gateway.call("/v1/responses/resp_1?stream=true");
    expect(crossed(kept.headers)).toEqual(CROSSING);
    await kept.text();
  });

  test("sent before the account responded contain no upstream headers", async () => {
    const { promise: release, resolve: goOn } = Promise.withResolvers<void>();
    respond = async () => {
      await release;
      return withHead(eventStream(RESPONSE_EVENTS));
    };
    const late = await gateway.call("/v1/responses", { model: "own", input: "x", stream: true });
    goOn();
    expect(crossed(late.headers)).toEqual({});
    expect(await late.text()).toContain("response.completed");
  });

  test("of a WebSocket turn carry both ids in its first message", async () => {
    respond = () => withHead(eventStream(RESPONSE_EVENTS));
    const client = await openSocketClient(gateway.url);
    const { events } = await client.turn({ model: "own", input: "x" });
    client.close();
    expect(events[0]?.headers).toEqual({
      "x-request-id": expect.stringMatching(/^req_/),
      "x-upstream-request-id": UPSTREAM_ID,
    });
  });
});

test("the client's request id is logged beside the gateway's id when an attempt fails", async () => {
  respond = () => new Response("no", { status: 500 });
  const own = { "x-client-request-id": `mine-${"x".repeat(200)}` };
  const failed = await gateway.call("/v1/responses", { model: "own", input: "x" }, { headers: own });
  const id = failed.headers.get("x-request-id") ?? "";
  const line = await eventually(() => gateway.log.find((text) => text.includes(id)) ?? null);
  expect(JSON.parse(line)).toMatchObject({
    event: "attempt_failed",
    request_id: id,
    client_request_id: own["x-client-request-id"].slice(0, 128),
  });
});

describe("usage that a chat upstream sends with the last choice", () => {
  const chat = (more: object) => stream("/v1/chat/completions", { messages: [{ role: "user" }], ...more });
  const text = { index: 0, delta: { content: "a" }, finish_reason: null };
  const end = { index: 0, delta: {}, finish_reason: "stop" };

  test.each([["with [DONE]", ["data: [DONE]\n\n"]] as const, ["without [DONE]", []] as const])(
    "becomes a separate chunk with include_usage, and stays where it is without it: %s",
    async (_, done) => {
      respond = () => eventStream([chunk([text]), chunk([end], { usage: USAGE }), ...done]);
      const asked = await chat({ stream_options: { include_usage: true } });
      const chunks = asked.events.slice(0, -1).map(({ data }) => JSON.parse(data));
      expect(chunks.map(({ choices, usage }) => [choices.length, usage])).toEqual([
        [1, undefined],
        [1, null],
        [0, USAGE],
      ]);
      expect(chunks[2]).toEqual({ ...chunks[1], choices: [], usage: USAGE });
      expect(asked.events.at(-1)?.data).toBe("[DONE]");

      const unasked = await chat({});
      expect(unasked.events).toHaveLength(3);
      expect(JSON.parse(unasked.events[1]?.data ?? "")).toMatchObject({ choices: [end], usage: USAGE });
    },
  );
});

test("base64 embeddings are encoded from an upstream that returns only numbers", async () => {
  const vectors = [[0.5, -2.25, 3], [1e-3]];
  const data = vectors.map((embedding, i) => ({ object: "embedding", index: 1 - i, embedding }));
  respond = () => Response.json({ object: "list", data, model: UPSTREAM_MODEL, usage: USAGE });
  const packed = await gateway.call("/v1/embeddings", {
    model: "own",
    input: ["a", "b"],
    encoding_format: "base64",
  });
  expect(await packed.json()).toEqual({
    object: "list",
    data: vectors.map((vector, i) => ({
      object: "embedding",
      index: 1 - i,
      embedding: Buffer.from(Float32Array.from(vector).buffer).toString("base64"),
    })),
    model: "own",
    usage: USAGE,
  });
});
