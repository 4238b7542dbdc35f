/** OpenAI's SDK on an Anthropic account: what the matrix of clients does not cover. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import OpenAI from "openai";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

const MODELS = {
  "messages-fast": "sim-fast",
  "messages-tools": "sim-tools",
  "messages-reason": "sim-reason",
  "messages-current": "sim-claude-opus-4-8",
  "messages-older": "sim-claude-sonnet-4-5",
};
const PARAMETERS = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };

let gateway: RunningGateway;

function file(): string {
  const url = ["$", "{SIMULATOR_URL}"].join("");
  const models = Object.keys(MODELS);
  return JSON.stringify({
    models: models.map((id) => ({ id, interfaces: ["chat", "responses"] })),
    accounts: [
      {
        name: "anthropic",
        kind: "anthropic",
        base_url: url,
        credential: "sk",
        private_network: true,
        models: MODELS,
      },
    ],
    groups: [{ name: "default", models, accounts: ["anthropic"] }],
    users: [{ email: "dev@example.com", role: "user" }],
    keys: [{ name: "test", user: "dev@example.com", group: "default", secret: TEST_KEY }],
  });
}

beforeAll(async () => {
  gateway = await startTestGateway({ file: file() });
});

afterAll(() => gateway.stop());

describe("OpenAI's SDK on an Anthropic account", () => {
  const client = () => new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: TEST_KEY, maxRetries: 0 });
  const tools = [
    {
      type: "function" as const,
      function: { name: "get_weather", parameters: PARAMETERS },
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

  test.each([
    ["messages-current", "2026-10-21"],
    ["messages-older", "2023-06-01"],
  ])("sends a request for %s in the version %s of the API", async (model, version) => {
    const messages = [{ role: "user" as const, content: "Hello there" }];
    await client().chat.completions.create({ model, messages });
    expect(gateway.simulator.ledger.last()?.headers["anthropic-version"]).toBe(version);
  });

  test("caches the prompt, although its client cannot request that", async () => {
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
