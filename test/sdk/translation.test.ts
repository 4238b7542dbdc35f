/** The OpenAI SDK on accounts that have only the other of OpenAI's two interfaces. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import OpenAI from "openai";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

const MODELS = { fast: "sim-fast", thinker: "sim-reason", caller: "sim-tools", cut: "fault/incomplete" };
const NAMES = Object.keys(MODELS).join(", ");
const MAPPED = Object.entries(MODELS)
  .map(([id, upstream]) => `${id}: ${upstream}`)
  .join(", ");

/** A group for each interface that its only account has. */
const FILE = `
models:
${Object.keys(MODELS)
  .map((id) => `  - { id: ${id}, interfaces: [chat, responses] }`)
  .join("\n")}
accounts:
  - { name: chat-only, kind: openai, base_url: "\${SIMULATOR_URL}", private_network: true, interfaces: [chat], models: { ${MAPPED} } }
  - { name: responses-only, kind: openai, base_url: "\${SIMULATOR_URL}", private_network: true, interfaces: [responses], models: { ${MAPPED} } }
groups:
  - { name: on-chat, interfaces: [chat, responses], models: [${NAMES}], accounts: [chat-only] }
  - { name: on-responses, interfaces: [chat, responses], models: [${NAMES}], accounts: [responses-only] }
users:
  - { email: dev@example.com, role: user }
keys:
  - { name: chat, user: dev@example.com, group: on-chat, secret: ${TEST_KEY} }
  - { name: responses, user: dev@example.com, group: on-responses, secret: responses-${TEST_KEY} }
`;

let gateway: RunningGateway;
let onChat: OpenAI;
let onResponses: OpenAI;

beforeAll(async () => {
  gateway = await startTestGateway({ file: FILE });
  onChat = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: TEST_KEY, maxRetries: 0 });
  onResponses = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: `responses-${TEST_KEY}`, maxRetries: 0 });
});

afterAll(() => gateway.stop());

const weather = {
  name: "get_weather",
  description: "Tells the weather",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

/** The body of the last request that the upstream received. */
function lastBody() {
  const { ledger } = gateway.simulator;
  return JSON.parse(Buffer.from(ledger.findBody(ledger.last()?.id ?? "") ?? []).toString());
}

async function all<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of stream) items.push(item);
  return items;
}

describe("a Responses client on an account with Chat Completions only", () => {
  test("receives a whole response", async () => {
    const response = await onChat.responses.create({
      model: "fast",
      input: "What is the capital of France?",
    });
    expect(response.output_text).toContain("capital of France");
    expect(response).toMatchObject({ object: "response", status: "completed", model: "fast" });
    expect(response.usage?.total_tokens).toBeGreaterThan(0);
    expect(gateway.simulator.ledger.last()?.path).toContain("/chat/completions");
  });

  test("receives a stream", async () => {
    const events = await all(
      await onChat.responses.create({ model: "fast", input: "What is the capital of France?", stream: true }),
    );
    expect(events[0]?.type).toBe("response.created");
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, at) => at));
    const last = events.at(-1);
    if (last?.type !== "response.completed") throw new Error(`ended with ${last?.type}`);
    expect(last.response.usage?.output_tokens).toBeGreaterThan(0);
    const deltas = events.flatMap((event) =>
      event.type === "response.output_text.delta" ? [event.delta] : [],
    );
    expect(deltas.join("")).toContain("capital of France");
  });

  test("calls a function and sends its output", async () => {
    const tools = [{ type: "function" as const, strict: false, ...weather }];
    const first = await onChat.responses.create({ model: "caller", input: "Weather in Paris?", tools });
    const call = first.output.find((item) => item.type === "function_call");
    expect(call).toMatchObject({ name: "get_weather", status: "completed" });
    const second = await onChat.responses.create({
      model: "caller",
      tools,
      input: [
        { role: "user", content: "Weather in Paris?" },
        ...(call === undefined ? [] : [call]),
        { type: "function_call_output", call_id: call?.call_id ?? "", output: "sunny" },
      ],
    });
    expect(second.output_text).not.toBe("");
  });

  test("continues from the previous response", async () => {
    const first = await onChat.responses.create({ model: "fast", input: "My name is Ada." });
    const second = await onChat.responses.create({
      model: "fast",
      input: "What is my name?",
      previous_response_id: first.id,
    });
    expect(second.previous_response_id).toBe(first.id);
    expect(lastBody().messages).toMatchObject([
      { role: "user", content: "My name is Ada." },
      { role: "assistant" },
      { role: "user", content: "What is my name?" },
    ]);
  });

  test("sends a large image unchanged, and again when the conversation continues", async () => {
    const url = `data:image/png;base64,${"iVBORw0KGgo".repeat(40_000)}`;
    const content = [
      { type: "input_text" as const, text: "What is this?" },
      { type: "input_image" as const, image_url: url, detail: "low" as const },
    ];
    const first = await onChat.responses.create({ model: "fast", input: [{ role: "user", content }] });
    expect(lastBody().messages[0].content[1].image_url.url).toBe(url);
    await onChat.responses.create({ model: "fast", input: "And now?", previous_response_id: first.id });
    expect(lastBody().messages.map(({ role }: { role: string }) => role)).toEqual([
      "user",
      "assistant",
      "user",
    ]);
    expect(lastBody().messages[0].content[1].image_url.url).toBe(url);
  });

  test("cannot continue from the response of another key", async () => {
    const first = await onChat.responses.create({ model: "fast", input: "My name is Ada." });
    const error = await onResponses.responses
      .create({ model: "fast", input: "What is my name?", previous_response_id: first.id })
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ status: 400, code: "previous_response_not_found" });
  });

  test("receives reasoning as a summary", async () => {
    const response = await onChat.responses.create({ model: "thinker", input: "Why is the sky blue?" });
    const reasoning = response.output.find((item) => item.type === "reasoning");
    expect(reasoning?.summary[0]?.text).not.toBe("");
  });

  test("receives an incomplete response when the output limit is reached", async () => {
    const response = await onChat.responses.create({ model: "cut", input: "Tell me a story." });
    expect(response).toMatchObject({
      status: "incomplete",
      incomplete_details: { reason: "max_output_tokens" },
    });
  });
});

describe("a Chat client on an account with Responses only", () => {
  const messages = [{ role: "user" as const, content: "What is the capital of France?" }];

  test("receives a whole response", async () => {
    const response = await onResponses.chat.completions.create({ model: "fast", messages });
    expect(response.choices[0]?.message.content).toContain("capital of France");
    expect(response.choices[0]?.finish_reason).toBe("stop");
    expect(response.usage?.total_tokens).toBeGreaterThan(0);
    expect(gateway.simulator.ledger.last()?.path).toContain("/responses");
  });

  test("receives a stream with the requested usage", async () => {
    const chunks = await all(
      await onResponses.chat.completions.create({
        model: "fast",
        messages,
        stream: true,
        stream_options: { include_usage: true },
      }),
    );
    const text = chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("");
    expect(text).toContain("capital of France");
    expect(chunks.at(-1)?.usage?.total_tokens).toBeGreaterThan(0);
    expect(chunks.at(-2)?.choices[0]?.finish_reason).toBe("stop");
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
  });

  test("calls a function and sends its output", async () => {
    const tools = [{ type: "function" as const, function: weather }];
    const first = await onResponses.chat.completions.create({ model: "caller", messages, tools });
    const message = first.choices[0]?.message;
    const call = message?.tool_calls?.[0];
    expect(first.choices[0]?.finish_reason).toBe("tool_calls");
    expect(call).toMatchObject({ type: "function", function: { name: "get_weather" } });
    if (message === undefined) throw new Error("no message");
    const second = await onResponses.chat.completions.create({
      model: "caller",
      tools,
      messages: [...messages, message, { role: "tool", tool_call_id: call?.id ?? "", content: "sunny" }],
    });
    expect(second.choices[0]?.message.content).not.toBe("");
  });

  test("receives 400 for several choices, which names the field", async () => {
    const error = await onResponses.chat.completions
      .create({ model: "fast", messages, n: 2 })
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ status: 400, code: "unsupported_parameter", param: "n" });
  });

  test("learns which settings were dropped", async () => {
    const { response } = await onResponses.chat.completions
      .create({ model: "fast", messages, seed: 7, stop: ["x"] })
      .withResponse();
    expect(response.headers.get("x-gateway-dropped")).toBe("stop,seed");
  });
});
