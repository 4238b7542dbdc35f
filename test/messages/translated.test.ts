/** Messages clients on accounts with another interface, and clients of other interfaces on an Anthropic account. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import OpenAI from "openai";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { type AnthropicSdk, openSdk } from "./anthropic-sdk.ts";
import { openClaudeCode } from "./claude-code.ts";
import { HELLO } from "./messages-gateway.ts";

const UPSTREAMS = ["chat", "responses", "messages"] as const;
type Upstream = (typeof UPSTREAMS)[number];
const MODELS = { fast: "sim-fast", tools: "sim-tools", reason: "sim-reason", full: "fault/context" };
const WEATHER = {
  name: "get_weather",
  description: "Tells the weather",
  input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

let gateway: RunningGateway;

/** One account for each interface; the name of a model names the interface of its account: `chat-fast`. */
function file(): string {
  const url = ["$", "{SIMULATOR_URL}"].join("");
  const models = UPSTREAMS.flatMap((upstream) => Object.keys(MODELS).map((name) => `${upstream}-${name}`));
  return JSON.stringify({
    models: models.map((id) => ({ id, interfaces: ["chat", "responses", "messages"] })),
    accounts: UPSTREAMS.map((upstream) => ({
      name: upstream,
      kind: upstream === "messages" ? "anthropic" : "openai",
      base_url: url,
      credential: "sk-upstream",
      private_network: true,
      interfaces: [upstream],
      models: Object.fromEntries(
        Object.entries(MODELS).map(([name, model]) => [`${upstream}-${name}`, model]),
      ),
    })),
    groups: [{ name: "default", models, accounts: UPSTREAMS }],
    users: [{ email: "dev@example.com", role: "user" }],
    keys: [{ name: "test", user: "dev@example.com", group: "default", secret: TEST_KEY }],
  });
}

beforeAll(async () => {
  gateway = await startTestGateway({ file: file() });
});

afterAll(() => gateway.stop());

async function failureOf(result: PromiseLike<unknown>): Promise<unknown> {
  try {
    await result;
  } catch (error) {
    return error;
  }
  throw new Error("expected a failure");
}

describe.each(UPSTREAMS)("Anthropic's SDK on an account with %s", (upstream: Upstream) => {
  let client: AnthropicSdk;

  beforeAll(async () => {
    client = await openSdk("1.x", gateway.url);
  });

  const ask = (model: string, more: object = {}) => ({
    model: `${upstream}-${model}`,
    max_tokens: 4_000,
    messages: HELLO,
    ...more,
  });

  test("gets the same message whole and as a stream", async () => {
    const whole = await client.messages.create(ask("fast"));
    const { content } = whole as { content: unknown };
    expect(structuredClone(whole)).toMatchObject({
      type: "message",
      model: `${upstream}-fast`,
      content: [{ type: "text", text: expect.stringContaining("Hello there") }],
      stop_reason: "end_turn",
    });
    const streamed = await client.messages.stream(ask("fast")).finalMessage();
    expect(streamed).toMatchObject({ content, stop_reason: "end_turn" });
  });

  test("runs a tool: the stop reason is tool_use, and the result is read", async () => {
    const first = await client.messages.stream(ask("tools", { tools: [WEATHER] })).finalMessage();
    const { content } = first as { content: { type: string; id: string }[] };
    const call = content.find(({ type }) => type === "tool_use");
    expect(first).toMatchObject({ stop_reason: "tool_use" });
    const results = [{ type: "tool_result", tool_use_id: call?.id, content: "sunny" }];
    const messages = [...HELLO, { role: "assistant", content }, { role: "user", content: results }];
    const second = await client.messages.create(ask("tools", { tools: [WEATHER], messages }));
    expect(second).toMatchObject({ stop_reason: "end_turn" });
    expect(JSON.stringify(second)).toContain("sunny");
  });

  test("continues a conversation with thinking", async () => {
    const thinking = { type: "adaptive" };
    const first = await client.messages.stream(ask("reason", { thinking })).finalMessage();
    const { content } = first as { content: { type: string }[] };
    expect(content.map(({ type }) => type)).toEqual(["thinking", "text"]);
    const messages = [...HELLO, { role: "assistant", content }, { role: "user", content: "And now?" }];
    expect(await client.messages.create(ask("reason", { thinking, messages }))).toMatchObject({
      stop_reason: "end_turn",
    });
  });

  test("learns that the context is full, in the words that clients read", async () => {
    expect(await failureOf(client.messages.create(ask("full")))).toMatchObject({
      status: 400,
      error: { error: { message: "prompt is too long: 9000 tokens > 8192 maximum" } },
    });
  });

  test("counts tokens", async () => {
    const { input_tokens: tokens } = await client.messages.countTokens({
      model: `${upstream}-fast`,
      messages: HELLO,
    });
    expect(tokens).toBeGreaterThan(0);
  });
});

describe.each(["chat", "responses"] as const)("Claude Code on an account with %s", (upstream) => {
  test("runs a tool and answers with its result", async () => {
    const home = openClaudeCode({ url: gateway.url, model: `${upstream}-tools` });
    try {
      const path = JSON.stringify({ file_path: join(home.workspace, "notes.txt") });
      const answer = await home.ask(`Please call Read ${path}`, ["--allowedTools", "Read"]);
      expect(answer).toMatchObject({ exitCode: 0, isError: false, turns: 2 });
      expect(answer.text).toContain("The code word is periwinkle.");
    } finally {
      home.remove();
    }
  });
});

describe("OpenAI's SDK on an Anthropic account", () => {
  const client = () => new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: TEST_KEY, maxRetries: 0 });
  const tools = [
    {
      type: "function" as const,
      function: { name: "get_weather", parameters: WEATHER.input_schema },
    },
  ];

  test("creates a chat completion, whole and as a stream", async () => {
    const messages = [{ role: "user" as const, content: "Hello there" }];
    const whole = await client().chat.completions.create({ model: "messages-fast", messages });
    expect(whole.choices[0]?.message.content).toContain("Hello there");
    const stream = await client().chat.completions.create({ model: "messages-fast", messages, stream: true });
    let text = "";
    for await (const { choices } of stream) text += choices[0]?.delta.content ?? "";
    expect(text).toBe(whole.choices[0]?.message.content ?? "");
  });

  test("runs a tool in a chat", async () => {
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "Hello there" }];
    const { choices } = await client().chat.completions.create({ model: "messages-tools", messages, tools });
    const message = choices[0]?.message;
    expect(choices[0]?.finish_reason).toBe("tool_calls");
    if (message === undefined) throw new Error("no message");
    messages.push(message, {
      role: "tool",
      tool_call_id: message.tool_calls?.[0]?.id ?? "",
      content: "sunny",
    });
    const second = await client().chat.completions.create({ model: "messages-tools", messages, tools });
    expect(second.choices[0]?.message.content).toContain("sunny");
  });

  test("creates a response with reasoning and continues from it", async () => {
    const first = await client().responses.create({
      model: "messages-reason",
      input: "Hello there",
      reasoning: { effort: "high", summary: "auto" },
    });
    expect(first.output.map(({ type }) => type)).toEqual(["reasoning", "message"]);
    const second = await client().responses.create({
      model: "messages-reason",
      input: "And now?",
      previous_response_id: first.id,
      reasoning: { effort: "high", summary: "auto" },
    });
    expect(second.output_text).toContain("And now?");
  });

  test("caches the prompt, although its client cannot ask for it", async () => {
    const system = "You are a careful assistant. ".repeat(40);
    const messages = [
      { role: "system" as const, content: system },
      { role: "user" as const, content: "Hello there" },
    ];
    const create = () => client().chat.completions.create({ model: "messages-fast", messages });
    await create();
    const { usage } = await create();
    expect(usage?.prompt_tokens_details?.cached_tokens).toBeGreaterThan(100);
    expect(usage?.prompt_tokens).toBeGreaterThanOrEqual(usage?.prompt_tokens_details?.cached_tokens ?? 0);
  });
});
