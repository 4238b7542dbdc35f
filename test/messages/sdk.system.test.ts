/** Anthropic's SDK, in its current and in an older version, on an Anthropic account. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import type { RunningGateway } from "../support/running-gateway.ts";
import { type AnthropicSdk, openSdk, SDK_PACKAGES, type SdkVersion } from "./anthropic-sdk.ts";
import { HELLO, startMessagesGateway } from "./messages-gateway.ts";

const MODELS = {
  "claude-fast": "sim-fast",
  "claude-thinker": "sim-reason",
  "claude-tools": "sim-tools",
  "claude-parallel": "sim-tools-parallel",
  "claude-broken": "fault/error-in-stream",
  "claude-busy": "fault/529",
  "claude-full": "fault/context",
  "claude-uncounted": "fault/404",
  "claude-slow": "sim-fast@events=200,interval=20ms",
};
const WEATHER = {
  name: "get_weather",
  description: "Tells the weather",
  input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

let gateway: RunningGateway;

/** The promises of the SDK are not promises to the test runner. */
async function catchFailure(result: PromiseLike<unknown>): Promise<unknown> {
  try {
    await result;
  } catch (error) {
    return error;
  }
  throw new Error("expected a failure");
}

beforeAll(async () => {
  gateway = await startMessagesGateway({ models: MODELS });
});

afterAll(() => gateway.stop());

describe.each(Object.keys(SDK_PACKAGES) as SdkVersion[])("the SDK %s", (version) => {
  let client: AnthropicSdk;

  beforeAll(async () => {
    client = await openSdk(version, gateway.url);
  });

  const ask = (model: string, more: object = {}) => ({ model, max_tokens: 2_000, messages: HELLO, ...more });

  test("creates a message", async () => {
    expect(await client.messages.create(ask("claude-fast"))).toMatchObject({
      type: "message",
      role: "assistant",
      model: "claude-fast",
      content: [{ type: "text", text: expect.stringContaining("Hello there") }],
      stop_reason: "end_turn",
      usage: { input_tokens: expect.any(Number), output_tokens: expect.any(Number) },
    });
  });

  test("streams a message and accepts every event", async () => {
    const stream = client.messages.stream(ask("claude-fast"));
    const types: string[] = [];
    for await (const { type } of stream) types.push(type);
    expect(types[0]).toBe("message_start");
    expect(types.at(-1)).toBe("message_stop");
    const whole = await client.messages.create(ask("claude-fast"));
    const { content, model, stop_reason: stop } = whole as Record<string, unknown>;
    expect(await stream.finalMessage()).toMatchObject({ content, model, stop_reason: stop });
  });

  test("runs a tool and sends its result back", async () => {
    const first = await client.messages.stream(ask("claude-tools", { tools: [WEATHER] })).finalMessage();
    const { content } = first as { content: { type: string; id: string }[] };
    expect(first).toMatchObject({
      stop_reason: "tool_use",
      content: [{ type: "tool_use", name: "get_weather" }],
    });
    const results = [{ type: "tool_result", tool_use_id: content[0]?.id, content: "sunny" }];
    const messages = [...HELLO, { role: "assistant", content }, { role: "user", content: results }];
    expect(await client.messages.create(ask("claude-tools", { tools: [WEATHER], messages }))).toMatchObject({
      stop_reason: "end_turn",
      content: [{ type: "text", text: expect.stringContaining("sunny") }],
    });
  });

  test("sends thinking back with the signature that the upstream issued", async () => {
    const thinking = { type: "enabled", budget_tokens: 1_024 };
    const params = ask("claude-thinker", { thinking });
    const first = await client.messages.stream(params).finalMessage();
    const { content } = first as { content: object[] };
    // The matcher writes into what it compares.
    expect(structuredClone(content)).toMatchObject([
      { type: "thinking", signature: expect.any(String) },
      { type: "text" },
    ]);
    const messages = [...HELLO, { role: "assistant", content }, { role: "user", content: "And now?" }];
    expect(await client.messages.create({ ...params, messages })).toMatchObject({ stop_reason: "end_turn" });
    const forged = content.map((block) =>
      "thinking" in block ? { ...block, signature: "Zm9yZ2Vk" } : block,
    );
    const replay = [...HELLO, { role: "assistant", content: forged }, { role: "user", content: "And now?" }];
    // The upstream rejects the signature of another account, so the request is repeated without the block.
    const { ledger } = gateway.simulator;
    const before = ledger.totals().requests;
    expect(await client.messages.create({ ...params, messages: replay })).toMatchObject({
      stop_reason: "end_turn",
    });
    expect(ledger.totals().requests).toBe(before + 2);
  });

  test("counts tokens without a request being recorded", async () => {
    const before = (await gateway.usageRows()).length;
    const { input_tokens: tokens } = await client.messages.countTokens({
      model: "claude-fast",
      messages: HELLO,
    });
    expect(tokens).toBeGreaterThan(0);
    expect(await gateway.usageRows()).toHaveLength(before);
  });

  test("lists the models, in pages too", async () => {
    for (const limit of [1_000, 2]) {
      const ids: string[] = [];
      for await (const { id } of client.models.list({ limit })) ids.push(id);
      expect(ids).toEqual(Object.keys(MODELS));
    }
  });

  test("gets errors in its own form", async () => {
    const fail = (model: string) => client.messages.create(ask(model));
    expect(await catchFailure(fail("nothing"))).toMatchObject({
      status: 404,
      error: {
        type: "error",
        error: { type: "not_found_error" },
        request_id: expect.stringMatching(/^req_/),
      },
      requestID: expect.stringMatching(/^req_/),
    });
    expect(await catchFailure(fail("claude-full"))).toMatchObject({
      status: 400,
      error: { error: { message: "prompt is too long: 9000 tokens > 8192 maximum" } },
    });
    const stranger = await openSdk(version, gateway.url, { apiKey: "gwk_wrong" });
    expect(await catchFailure(stranger.messages.create(ask("claude-fast")))).toMatchObject({
      status: 401,
      error: { error: { type: "authentication_error" } },
    });
  });

  test("gets an error event if the stream breaks after content", async () => {
    const stream = client.messages.stream(ask("claude-broken"));
    expect(await catchFailure(stream.finalMessage())).toMatchObject({
      error: { error: { type: "api_error" } },
    });
  });
});

test("only a model without capacity is answered with 529", async () => {
  const client = await openSdk("1.x", gateway.url);
  const params = { model: "claude-busy", max_tokens: 10, messages: HELLO };
  expect(await catchFailure(client.messages.create(params))).toMatchObject({
    status: 529,
    error: { error: { type: "overloaded_error" } },
  });
});

test("an upstream that cannot count tokens is not held against its account or its model", async () => {
  const client = await openSdk("1.x", gateway.url);
  const count = () => client.messages.countTokens({ model: "claude-uncounted", messages: HELLO });
  // Claude Code counts dozens of times within a second.
  const counts = await Promise.all(Array.from({ length: 20 }, count));
  expect(counts.every(({ input_tokens: tokens }) => tokens > 0)).toBe(true);
  const before = gateway.simulator.ledger.totals().requests;
  await count();
  // The account is still asked: neither it nor the model is suspended.
  expect(gateway.simulator.ledger.totals().requests).toBe(before + 1);
  const params = { model: "claude-fast", max_tokens: 10, messages: HELLO };
  expect(await client.messages.create(params)).toMatchObject({ type: "message" });
});

test("a client that disconnects ends the request upstream", async () => {
  const client = await openSdk("1.x", gateway.url);
  const stream = client.messages.stream({ model: "claude-slow", max_tokens: 2_000, messages: HELLO });
  for await (const { type } of stream) if (type === "content_block_delta") break;
  stream.abort();
  await eventually(() => gateway.simulator.ledger.last()?.abortedByClient);
});
