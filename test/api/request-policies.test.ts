/** Tests request policies on a running gateway: what reaches the upstream, what is rejected, and what callers see. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { expectRejection } from "../support/error-envelope.ts";
import { eventually } from "../support/eventually.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { openSocketClient } from "../support/turn-client.ts";

const key = (name: string) => `${name}-key-0123456789-0123456789-0123456789`;

const FILE = `
models:
  - { id: talker, interfaces: [chat, responses, messages, gemini] }
  - { id: talker-pro, interfaces: [chat, responses, messages, gemini] }
  - { id: embedder, interfaces: [embeddings] }
accounts:
  - name: sim
    kind: openai
    base_url: "\${RELAY_URL}"
    credential: up
    private_network: true
    models: { talker: sim-fast, talker-pro: sim-fast, embedder: sim-embed }
  - name: chat-only
    kind: openai
    base_url: "\${RELAY_URL}"
    credential: up
    private_network: true
    interfaces: [chat]
    models: { talker: sim-fast }
request_policies:
  - name: strict
    self_service: true
    models: ["talker", "embed*"]
    output_tokens: { max: 64 }
    effort: { max: low }
    service_tiers: [auto, default]
    tools: { deny: [web_search, mcp] }
    inputs: { images: 1, urls: deny }
    force: { store: false }
  - { name: harsh, effort: { max: medium, over: reject }, output_tokens: { max: 32, over: reject } }
  - { name: office, networks: [10.1.0.0/16] }
  - { name: here, networks: [127.0.0.0/8, "::1"] }
  - { name: short, input_tokens: { max: 50 } }
groups:
  - { name: free, models: [talker, talker-pro, embedder], accounts: [sim] }
  - { name: bound, models: [talker, talker-pro, embedder], accounts: [sim], request_policy: strict }
  - { name: translated, models: [talker], accounts: [chat-only], request_policy: strict }
keys:
  - { name: free, group: free, secret: ${key("free")} }
  - { name: test, group: free, secret: ${TEST_KEY} }
  - { name: bound, group: bound, secret: ${key("bound")} }
  - { name: translated, group: translated, secret: ${key("translated")} }
  - { name: both, group: bound, request_policy: harsh, secret: ${key("both")} }
  - { name: office, group: free, request_policy: office, secret: ${key("office")} }
  - { name: here, group: free, request_policy: here, secret: ${key("here")} }
  - { name: short, group: free, request_policy: short, secret: ${key("short")} }
`;

let gateway: RunningGateway;
/** The bodies that the upstream received, in order. */
const bodies: string[] = [];
/** Records each body on its way to the simulator. */
const relay = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  async fetch(request) {
    const body = await request.text();
    bodies.push(body);
    const { pathname } = new URL(request.url);
    return fetch(new URL(pathname, gateway.simulator.url), {
      method: request.method,
      headers: request.headers,
      body,
    });
  },
});

beforeAll(async () => {
  const environment = { RELAY_URL: `http://127.0.0.1:${relay.port}/v1` };
  gateway = await startTestGateway({ file: FILE, environment });
});

afterAll(async () => {
  await gateway.stop();
  await relay.stop(true);
});

const bearer = (name: string) => ({ authorization: `Bearer ${key(name)}` });
const post = (path: string, name: string, body: object, headers: Record<string, string> = {}) =>
  gateway.call(path, body, { headers: { ...bearer(name), ...headers } });
/** The last body that the upstream received. */
const received = (): Record<string, unknown> => JSON.parse(bodies.at(-1) ?? "null");

/** The rejection must have this status, code and member. */
async function expectViolation(
  response: Response,
  status: number,
  expected: { code: string; param?: string },
): Promise<unknown> {
  const error = await expectRejection(response, status);
  expect(error).toMatchObject(expected);
  return error;
}

const SEARCH = { type: "web_search" };
const OWN = { type: "function", name: "mine", parameters: { type: "object", properties: {} } };

describe("a request that passes through", () => {
  test("only the named members change, and the header names every change", async () => {
    const response = await post("/v1/responses", "bound", {
      model: "talker",
      input: "Hi",
      max_output_tokens: 1_000,
      reasoning: { effort: "high", summary: "auto" },
      tools: [SEARCH, OWN],
      user: "u-1",
    });
    expect(response.status).toBe(200);
    expect(received()).toEqual({
      store: false,
      model: "sim-fast",
      input: "Hi",
      max_output_tokens: 64,
      reasoning: { effort: "low", summary: "auto" },
      tools: [OWN],
      user: "u-1",
    });
    expect(response.headers.get("x-gateway-policy")).toBe(
      "tools=-web_search, effort=low, output_tokens=64, store=false",
    );
  });

  test("the cap is sent also if the client sets none", async () => {
    const body = { model: "talker", messages: [{ role: "user", content: "Hi" }] };
    const response = await post("/v1/chat/completions", "bound", body);
    expect(response.status).toBe(200);
    expect(received()).toMatchObject({ max_completion_tokens: 64 });
    expect(response.headers.get("x-gateway-policy")).toBe("output_tokens=64");
  });

  test("without a request policy nothing changes", async () => {
    const body = { model: "talker", input: "Hi", tools: [SEARCH], reasoning: { effort: "high" } };
    const response = await post("/v1/responses", "free", body);
    expect(response.headers.get("x-gateway-policy")).toBeNull();
    expect(received()).toEqual({ ...body, model: "sim-fast" });
  });
});

describe("a translated request", () => {
  test("gets the same rules before it is translated", async () => {
    const response = await post(
      "/v1/messages",
      "translated",
      {
        model: "talker",
        max_tokens: 1_000,
        messages: [{ role: "user", content: "Hi" }],
        tools: [
          { type: "web_search_20250305", name: "web_search" },
          { name: "mine", input_schema: { type: "object" } },
        ],
      },
      { "anthropic-version": "2023-06-01" },
    );
    expect(response.status).toBe(200);
    const { tools, ...sent } = received();
    expect(tools).toMatchObject([{ type: "function", function: { name: "mine" } }]);
    expect(sent.max_completion_tokens ?? sent.max_tokens).toBe(64);
    expect(response.headers.get("x-gateway-policy")).toBe("tools=-web_search_20250305, output_tokens=64");
  });

  test("Gemini on an account with Chat Completions", async () => {
    const response = await gateway.call(
      "/v1beta/models/talker:generateContent",
      {
        contents: [{ role: "user", parts: [{ text: "Hi" }] }],
        tools: [{ googleSearch: {} }],
        generationConfig: { maxOutputTokens: 5_000 },
      },
      { headers: { ...bearer("translated") } },
    );
    expect(response.status).toBe(200);
    const sent = received();
    expect(sent.tools).toBeUndefined();
    expect(sent.max_completion_tokens ?? sent.max_tokens).toBe(64);
  });
});

describe("rejections", () => {
  test("a rule of the key rejects what a rule of the group would change", async () => {
    const response = await post("/v1/responses", "both", {
      model: "talker",
      input: "Hi",
      reasoning: { effort: "medium" },
    });
    await expectViolation(response, 400, { code: "policy_violation" });
  });

  test("each dialect reports a violation in its own form", async () => {
    const messages = await post(
      "/v1/messages",
      "both",
      { model: "talker", max_tokens: 100, messages: [{ role: "user", content: "Hi" }] },
      { "anthropic-version": "2023-06-01" },
    );
    expect(messages.status).toBe(400);
    expect(await messages.json()).toMatchObject({ type: "error", error: { type: "invalid_request_error" } });
    const gemini = await gateway.call(
      "/v1beta/models/talker:generateContent",
      { contents: [{ parts: [{ text: "Hi" }] }], generationConfig: { maxOutputTokens: 100 } },
      { headers: { ...bearer("both") } },
    );
    expect(gemini.status).toBe(400);
    expect(await gemini.json()).toMatchObject({ error: { status: "INVALID_ARGUMENT" } });
  });

  test("nothing is sent upstream, and the rejection is recorded", async () => {
    const before = bodies.length;
    const body = { model: "talker", input: "Hi", service_tier: "priority" };
    await expectViolation(await post("/v1/responses", "bound", body), 400, {
      code: "policy_violation",
      param: "service_tier",
    });
    expect(bodies.length).toBe(before);
    expect((await gateway.usageRows()).at(-1)).toMatchObject({
      outcome: "refused",
      error_code: "policy_violation",
    });
  });

  test("the input is counted if its estimate exceeds the maximum", async () => {
    const send = (input: string) => post("/v1/responses", "short", { model: "talker", input });
    expect((await send("Hello there.")).status).toBe(200);
    const long = await send("one two three four five six seven eight nine ten ".repeat(10));
    await expectViolation(long, 400, { code: "policy_violation", param: "input" });
  });
});

test("a model outside the set is not listed and not found", async () => {
  const models = async (name: string) => {
    const response = await gateway.call("/v1/models", undefined, { headers: bearer(name) });
    const { data } = (await response.json()) as { data: { id: string }[] };
    return data.map(({ id }) => id);
  };
  expect(await models("free")).toEqual(["talker", "talker-pro", "embedder"]);
  expect(await models("bound")).toEqual(["talker", "embedder"]);
  const response = await post("/v1/responses", "bound", { model: "talker-pro", input: "Hi" });
  await expectViolation(response, 404, { code: "model_not_found" });
});

describe("networks", () => {
  test("a key works from its networks only", async () => {
    expect((await post("/v1/responses", "here", { model: "talker", input: "Hi" })).status).toBe(200);
    const response = await post("/v1/responses", "office", { model: "talker", input: "Hi" });
    const error = await expectViolation(response, 403, { code: "network_not_allowed" });
    expect(JSON.stringify(error)).not.toContain("10.1");
  });

  test.each(["/v1/models", "/v1/usage", "/v1/responses/resp_1"])("%s is checked too", async (path) => {
    const response = await gateway.call(path, undefined, { headers: bearer("office") });
    await expectViolation(response, 403, { code: "network_not_allowed" });
  });

  test("a forwarded address of a proxy that is not trusted is rejected", async () => {
    const headers = { "x-forwarded-for": "127.0.0.1" };
    const response = await post("/v1/responses", "here", { model: "talker", input: "Hi" }, headers);
    await expectViolation(response, 403, { code: "network_not_allowed" });
  });

  test("a WebSocket from another network is not opened", async () => {
    await expect(openSocketClient(gateway.url, { key: key("office") })).rejects.toThrow();
  });
});

test("each turn on a WebSocket passes the same rules", async () => {
  const client = await openSocketClient(gateway.url, { key: key("bound") });
  const { last } = await client.turn({ model: "talker", input: "Hi", tools: [SEARCH, OWN] });
  expect(last.type).toMatch(/^response\.(completed|incomplete)$/);
  expect(received()).toMatchObject({ tools: [OWN], max_output_tokens: 64, store: false });
  const { last: rejected } = await client.turn({ model: "talker", input: "Hi", service_tier: "flex" });
  expect(rejected).toMatchObject({ type: "error", error: { code: "policy_violation" } });
  client.close();
});

test("a long body gets the same rules, in a thread", async () => {
  const filler = "lorem ipsum ".repeat(40_000);
  const response = await post("/v1/responses", "bound", {
    model: "talker",
    input: filler,
    tools: [SEARCH, OWN],
    reasoning: { effort: "xhigh" },
  });
  expect(response.status).toBe(200);
  expect(received()).toEqual({
    store: false,
    model: "sim-fast",
    input: filler,
    tools: [OWN],
    reasoning: { effort: "low" },
    max_output_tokens: 64,
  });
  const rejected = await post("/v1/responses", "bound", {
    model: "talker",
    input: filler,
    service_tier: "x",
  });
  await expectViolation(rejected, 400, { code: "policy_violation" });
});

test("changes are recorded with the request, and counted", async () => {
  const response = await post("/v1/responses", "bound", { model: "talker", input: "Hi", tools: [SEARCH] });
  const id = response.headers.get("x-request-id");
  const row = (await gateway.usageRows()).find(({ request_id }) => request_id === id);
  expect(JSON.parse(String(row?.trace))).toMatchObject({
    policyChanges: [
      { rule: "tools", param: "tools", from: "web_search", to: null },
      { rule: "output_tokens", param: "max_output_tokens", from: null, to: "64" },
      { rule: "force", param: "store", from: null, to: "false" },
    ],
  });
});

test("a changed policy is in force a moment later", async () => {
  const send = () =>
    post("/v1/responses", "both", { model: "talker", input: "Hi", reasoning: { effort: "high" } });
  expect((await send()).status).toBe(400);
  await gateway.apply("request_policies: [{ name: harsh, effort: { max: max } }]");
  await eventually(async () => (await send()).status, { equals: 200 });
  await gateway.apply("request_policies: [{ name: harsh, effort: { max: none, over: reject } }]");
  await eventually(async () => (await send()).status, { equals: 400 });
});

test("a policy with a rule that this version does not know rejects every request", async () => {
  const { db } = gateway.installation;
  await gateway.apply(`
request_policies: [{ name: future, force: { store: false } }]
keys: [{ name: future, group: free, request_policy: future, secret: ${key("future")} }]`);
  const send = () => post("/v1/responses", "future", { model: "talker", input: "Hi" });
  await eventually(async () => (await send()).status, { equals: 200 });
  await db.sql`UPDATE request_policy SET rules = ${'{"gravity":{"max":1}}'} WHERE name = 'future'`;
  await gateway.apply("models: [{ id: another, interfaces: [chat] }]");
  await eventually(async () => (await send()).status, { equals: 400 });
  await expectViolation(await send(), 400, { code: "policy_violation" });
});
