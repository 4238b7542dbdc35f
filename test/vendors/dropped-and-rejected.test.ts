/** What vendors lack is written in another way, dropped and named, or rejected by the gateway itself. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  chatCompletion,
  type Json,
  startVendorGateway,
  VENDOR_MODEL,
  type VendorGateway,
} from "./vendor-gateway.ts";

/** OpenAI's Responses API: it rejects an empty input, tiers of other vendors and audio. */
function respondResponses({ input, service_tier: tier }: Json): Response {
  const isEmpty = Array.isArray(input) && input.length === 0;
  const isUnknownTier = tier !== undefined && !["auto", "default", "flex", "priority"].includes(String(tier));
  if (isEmpty || isUnknownTier || JSON.stringify(input).includes("input_audio"))
    return Response.json(
      { error: { message: "Invalid value.", type: "invalid_request_error" } },
      { status: 400 },
    );
  const content = [{ type: "output_text", text: "Hello", annotations: [] }];
  return Response.json({
    id: "resp_1",
    object: "response",
    created_at: 1,
    status: "completed",
    model: "upstream-model",
    output: [{ id: "msg_1", type: "message", role: "assistant", status: "completed", content }],
    usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
  });
}

describe("an account with Responses", () => {
  let gateway: VendorGateway;
  const sent = () => gateway.received[0]?.at(-1)?.body ?? {};
  const chat = (body: object) => gateway.call("/v1/chat/completions", { model: VENDOR_MODEL, ...body });
  const messages = [{ role: "user", content: "Hi" }];

  beforeAll(async () => {
    const account = { kind: "openai", vendor: "openai", interfaces: ["responses"] };
    gateway = await startVendorGateway([{ account, respond: ({ body }) => respondResponses(body) }]);
  });
  afterAll(() => gateway.stop());

  test("receives a chat request of a system message alone as a message", async () => {
    expect((await chat({ messages: [{ role: "system", content: "Say hello." }] })).status).toBe(200);
    expect(sent().instructions).toBeUndefined();
    expect(sent().input).toMatchObject([{ role: "developer", content: [{ text: "Say hello." }] }]);
  });

  test.each([
    ["on_demand", "default", null],
    ["performance", undefined, "service_tier"],
    ["flex", "flex", null],
  ])("receives Groq's tier %s as %s", async (service_tier, written, dropped) => {
    const response = await chat({ messages, service_tier });
    expect([response.status, sent().service_tier, response.headers.get("x-gateway-dropped")]).toEqual([
      200,
      written,
      dropped,
    ]);
  });

  test("receives no audio: the gateway rejects it and names the field", async () => {
    const before = gateway.received[0]?.length;
    const audio = { type: "input_audio", input_audio: { data: "aGk=", format: "wav" } };
    const response = await chat({ messages: [{ role: "user", content: [audio] }] });
    expect([response.status, await response.json()]).toMatchObject([
      400,
      { error: { code: "unsupported_parameter", param: "input_audio" } },
    ]);
    expect(gateway.received[0]).toHaveLength(before ?? 0);
  });

  test("names the user of a Messages client and the log probabilities of a Gemini client as dropped", async () => {
    const metadata = { user_id: "user_1" };
    const message = await gateway.call("/v1/messages", {
      model: VENDOR_MODEL,
      max_tokens: 9,
      messages,
      metadata,
    });
    expect(message.headers.get("x-gateway-dropped")).toBe("metadata.user_id");
    const contents = [{ role: "user", parts: [{ text: "Hi" }] }];
    const generationConfig = { responseLogprobs: true };
    const gemini = await gateway.call(`/v1beta/models/${VENDOR_MODEL}:generateContent`, {
      contents,
      generationConfig,
    });
    expect(gemini.headers.get("x-gateway-dropped")).toBe("responseLogprobs");
  });
});

describe("a tool that only its vendor runs is dropped and named, and rejected if the client requires it", () => {
  let gateway: VendorGateway;

  beforeAll(async () => {
    const account = { kind: "openai", interfaces: ["chat"] };
    gateway = await startVendorGateway([{ account, respond: () => chatCompletion({ content: "Hello" }) }]);
  });
  afterAll(() => gateway.stop());

  const contents = [{ role: "user", parts: [{ text: "Hi" }] }];
  const tools = [{ type: "code_interpreter", container: { type: "auto" } }];
  const anthropicTools = [{ type: "code_execution_20250825", name: "code_execution" }];
  const message = { model: VENDOR_MODEL, max_tokens: 9, messages: [{ role: "user", content: "Hi" }] };

  test.each([
    ["/v1/responses", { model: VENDOR_MODEL, input: "Hi", tools }, "tools[0].code_interpreter"],
    ["/v1/messages", { ...message, tools: anthropicTools }, "tools[0].code_execution_20250825"],
    [
      `/v1beta/models/${VENDOR_MODEL}:generateContent`,
      { contents, tools: [{ codeExecution: {} }] },
      "tools[0].codeExecution",
    ],
  ])("%s", async (path, body, dropped) => {
    const response = await gateway.call(path, body);
    expect([response.status, response.headers.get("x-gateway-dropped")]).toEqual([200, dropped]);
  });

  test.each([
    ["/v1/responses", { model: VENDOR_MODEL, input: "Hi", tools, tool_choice: { type: "code_interpreter" } }],
    [
      "/v1/messages",
      { ...message, tools: anthropicTools, tool_choice: { type: "tool", name: "code_execution" } },
    ],
  ])("%s, required", async (path, body) => {
    const response = await gateway.call(path, body);
    expect([response.status, await response.json()]).toMatchObject([
      400,
      { error: { code: "unsupported_parameter" } },
    ]);
  });
});

test("an account with Messages has no key of the prompt cache and no context of reasoning, which are named", async () => {
  const content = [{ type: "text", text: "Hello" }];
  const usage = { input_tokens: 1, output_tokens: 1 };
  const respond = () =>
    Response.json({
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "m",
      content,
      stop_reason: "end_turn",
      usage,
    });
  const gateway = await startVendorGateway([{ account: { kind: "anthropic" }, respond }]);
  const body = {
    model: VENDOR_MODEL,
    input: "Hi",
    prompt_cache_key: "k",
    reasoning: { context: "all_turns" },
  };
  const response = await gateway.call("/v1/responses", body);
  expect([response.status, response.headers.get("x-gateway-dropped")?.split(/, ?/).toSorted()]).toEqual([
    200,
    ["prompt_cache_key", "reasoning.context"],
  ]);
  await gateway.stop();
});

describe("Groq reports the output that it could not read as a call", () => {
  const failed_generation = '<function=look{"city": "Oslo"</function>';
  const error = {
    message:
      "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.",
    type: "invalid_request_error",
    code: "tool_use_failed",
    failed_generation,
  };

  test("in an error that keeps its code and the output", async () => {
    const account = { kind: "openai", vendor: "groq" };
    const gateway = await startVendorGateway([
      { account, respond: () => Response.json({ error }, { status: 400 }) },
    ]);
    const messages = [{ role: "user", content: "Look" }];
    const response = await gateway.call("/v1/chat/completions", { model: VENDOR_MODEL, messages });
    expect([response.status, await response.json()]).toMatchObject([
      400,
      { error: { code: "tool_use_failed", failed_generation, type: "invalid_request_error" } },
    ]);
    await gateway.stop();
  });

  test("in the event that ends a stream", async () => {
    const chunk = {
      id: "c",
      object: "chat.completion.chunk",
      choices: [{ index: 0, delta: { content: "I" }, finish_reason: null }],
    };
    const respond = () =>
      new Response(`data: ${JSON.stringify(chunk)}\n\ndata: ${JSON.stringify({ error })}\n\n`, {
        headers: { "content-type": "text/event-stream" },
      });
    const gateway = await startVendorGateway([{ account: { kind: "openai", vendor: "groq" }, respond }]);
    const messages = [{ role: "user", content: "Look" }];
    const response = await gateway.call("/v1/chat/completions", {
      model: VENDOR_MODEL,
      messages,
      stream: true,
    });
    const last = (await response.text()).match(/data: (\{.*)/g)?.at(-1) ?? "";
    expect(JSON.parse(last.slice("data: ".length))).toMatchObject({
      error: { code: "tool_use_failed", failed_generation },
    });
    await gateway.stop();
  });
});
