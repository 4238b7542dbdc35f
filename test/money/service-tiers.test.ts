/** Service tiers: the reported one decides the price, the requested one the hold. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { limits } from "../../src/config/limits/product-limits.ts";
import { bill, type PaidGateway, startPaidGateway } from "../support/paid-gateway.ts";

const TIERS = { priority: "2", flex: "0.5" };
const PRICE = { input: "1", output: "10", tier: TIERS };
const TOKENS = { input: 100, output: 20 };

/** The tier that the upstream reports; null for none. */
let reported: string | null = null;
/** The usage is reported; the stream breaks off otherwise. */
let isWhole = true;
let holdAtUpstream: bigint | null = null;
let gateway: PaidGateway;
let upstream: ReturnType<typeof Bun.serve>;

beforeAll(async () => {
  upstream = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: respond });
  const account = {
    kind: "openai",
    base_url: `http://127.0.0.1:${upstream.port}/v1`,
    credential: "credential",
    private_network: true,
  };
  gateway = await startPaidGateway(
    {
      balance: "10",
      models: {
        native: { upstream: "up", price: PRICE },
        translated: { upstream: "up", price: PRICE },
        untiered: { upstream: "up", price: { input: "1", output: "10" } },
      },
      accounts: [
        { ...account, name: "both", models: { native: "up", untiered: "up" } },
        // Its profile has no settings of OpenAI's own API, so the field is dropped in translation.
        { ...account, name: "groq", vendor: "groq", models: { translated: "up" } },
      ],
      group: { on_disconnect: "cancel" },
    },
    // Write-behind billing, which a fast sequence of requests would start, keeps holds in memory: no test can read them.
    { limits: { writeBehind: { ...limits.writeBehind, busyHolds: Number.POSITIVE_INFINITY } } },
  );
});
afterAll(async () => {
  await gateway.stop();
  await upstream.stop(true);
});
beforeEach(() => {
  reported = null;
  isWhole = true;
});

async function respond(request: Request): Promise<Response> {
  const { stream } = (await request.json()) as { stream?: boolean };
  const { heldNano } = await gateway.records.wallet();
  holdAtUpstream = heldNano;
  const isChat = request.url.endsWith("/chat/completions");
  const tier = reported === null ? {} : { service_tier: reported };
  const json = isChat ? chatCompletion(tier) : response(tier);
  if (stream !== true) return Response.json(json);
  const events = isChat ? chatEvents(tier) : responsesEvents(tier);
  return new Response(events.join(""), { headers: { "content-type": "text/event-stream" } });
}

const chatUsage = {
  prompt_tokens: TOKENS.input,
  completion_tokens: TOKENS.output,
  total_tokens: TOKENS.input + TOKENS.output,
};
const chatCompletion = (tier: object) => ({
  id: "c",
  object: "chat.completion",
  created: 1,
  model: "up",
  choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }],
  usage: chatUsage,
  ...tier,
});
const response = (tier: object, status = "completed") => ({
  id: "resp_1",
  object: "response",
  created_at: 1,
  model: "up",
  status,
  output: [{ type: "message", id: "m", role: "assistant", content: [{ type: "output_text", text: "Hi" }] }],
  usage: { input_tokens: TOKENS.input, output_tokens: TOKENS.output, total_tokens: 120 },
  ...tier,
});
const RESPONSE = { model: "native", input: "Hello", store: false };
const data = (json: object) => `data: ${JSON.stringify(json)}\n\n`;

function chatEvents(tier: object): string[] {
  const chunk = (delta: object, finish: string | null) =>
    data({
      id: "c",
      object: "chat.completion.chunk",
      created: 1,
      model: "up",
      ...tier,
      choices: [{ index: 0, delta, finish_reason: finish }],
    });
  const text = chunk({ role: "assistant", content: "Hi there, this is a text." }, null);
  if (!isWhole) return [text];
  const last = data({ id: "c", created: 1, model: "up", choices: [], usage: chatUsage });
  return [text, chunk({}, "stop"), last, "data: [DONE]\n\n"];
}

function responsesEvents(tier: object): string[] {
  const { usage: _, ...begun } = response({ service_tier: "auto" }, "in_progress");
  const delta = { type: "response.output_text.delta", item_id: "m", output_index: 0, delta: "Hi there." };
  const events = [data({ type: "response.created", response: begun }), data(delta)];
  return isWhole ? [...events, data({ type: "response.completed", response: response(tier) })] : events;
}

async function send(path: string, body: object): Promise<{ charged: bigint; held: bigint }> {
  const sent = await gateway.call(path, { max_tokens: 50, max_output_tokens: 50, ...body });
  await sent.text();
  const row = await gateway.records.row(sent.headers.get("x-request-id") ?? "");
  return { charged: row.chargedNano, held: holdAtUpstream ?? 0n };
}

const cost = (multiplier: string) =>
  bill(
    [
      [TOKENS.input, "1"],
      [TOKENS.output, "10"],
    ],
    multiplier,
  );

describe.each([
  ["chat", "/v1/chat/completions", { messages: [{ role: "user", content: "Hello" }] }],
  ["responses", "/v1/responses", { input: "Hello", store: false }],
])("%s", (_, path, prompt) => {
  describe.each([false, true])("streamed: %p", (stream) => {
    const request = (body: object, model = "native") => send(path, { ...prompt, model, stream, ...body });

    test("the reported tier decides the price, whatever was requested", async () => {
      reported = "priority";
      expect((await request({ service_tier: "priority" })).charged).toBe(cost("2"));
      expect((await request({})).charged).toBe(cost("2"));
      reported = "flex";
      expect((await request({ service_tier: "flex" })).charged).toBe(cost("0.5"));
      reported = "default";
      expect((await request({ service_tier: "priority" })).charged).toBe(cost("1"));
      expect((await request({ service_tier: "flex" })).charged).toBe(cost("1"));
    });

    test("without a report the dearer of the requested and the standard tier is charged", async () => {
      expect((await request({ service_tier: "priority" })).charged).toBe(cost("2"));
      expect((await request({ service_tier: "flex" })).charged).toBe(cost("1"));
      expect((await request({})).charged).toBe(cost("1"));
    });

    test("the hold covers the requested tier, and a cheaper one is held at the standard price", async () => {
      reported = "default";
      // Names of the same length: the hold covers one token for each byte of the body.
      const standard = (await request({ service_tier: "standard" })).held;
      expect((await request({ service_tier: "priority" })).held).toBe(standard * 2n);
      const automatic = (await request({ service_tier: "auto" })).held;
      expect((await request({ service_tier: "flex" })).held).toBe(automatic);
      expect(automatic).toBeLessThan(standard);
    });

    test("a model without prices of tiers costs the same in all of them", async () => {
      reported = "priority";
      expect((await request({ service_tier: "priority" }, "untiered")).charged).toBe(cost("1"));
    });
  });
});

test("a stream that breaks off is charged in the requested tier", async () => {
  isWhole = false;
  const chat = { model: "native", stream: true, messages: [{ role: "user", content: "Hello" }] };
  const standard = (await send("/v1/chat/completions", chat)).charged;
  expect(standard).toBeGreaterThan(0n);
  const priority = (await send("/v1/chat/completions", { ...chat, service_tier: "priority" })).charged;
  expect(priority).toBe(standard * 2n);
});

test("a tier that the translation drops is not charged", async () => {
  const body = { model: "translated", input: "Hello", store: false, service_tier: "priority" };
  const sent = await gateway.call("/v1/responses", body);
  expect(sent.headers.get("x-gateway-dropped")).toContain("service_tier");
  await sent.text();
  const row = await gateway.records.row(sent.headers.get("x-request-id") ?? "");
  expect(row.chargedNano).toBe(cost("1"));
});

test("a translated response is charged by the tier that its upstream reports", async () => {
  reported = "priority";
  for (const stream of [false, true]) {
    const { charged } = await send("/v1/responses", {
      model: "translated",
      input: "Hello",
      stream,
      store: false,
    });
    expect(charged).toBe(cost("2"));
  }
});

test.each([
  // Names of the same length: the hold covers one token for each byte of the body.
  ["SERVICE_TIER_PRIORITY", "SERVICE_TIER_STANDARD"],
  ["service_tier_priority", "service_tier_standard"],
  ["Priority", "Standard"],
])("%s is the tier priority, and %s the standard one", async (dear, usual) => {
  const priority = await send("/v1/responses", { ...RESPONSE, service_tier: dear });
  const standard = await send("/v1/responses", { ...RESPONSE, service_tier: usual });
  expect([priority.charged, standard.charged]).toEqual([cost("2"), cost("1")]);
  expect(priority.held).toBe(standard.held * 2n);
  reported = dear;
  expect((await send("/v1/responses", RESPONSE)).charged).toBe(cost("2"));
});

test("an unknown tier is held, and charged without a report, at the dearest price", async () => {
  const standard = await send("/v1/responses", { ...RESPONSE, service_tier: "default" });
  const unknown = await send("/v1/responses", { ...RESPONSE, service_tier: "express" });
  expect([unknown.charged, unknown.held]).toEqual([cost("2"), standard.held * 2n]);
  reported = "express";
  expect((await send("/v1/responses", { ...RESPONSE, service_tier: "express" })).charged).toBe(cost("1"));
});

test("the tier may be named once only: upstreams differ in which one they use", async () => {
  const body = `{"model":"native","messages":[],"service_tier":"flex","service_tier":"priority"}`;
  const refused = await gateway.call("/v1/chat/completions", body);
  expect([refused.status, await refused.json()]).toMatchObject([
    400,
    { error: { code: "duplicate_parameter" } },
  ]);
});

test("the books are in order", () => gateway.records.expectReconciled());
