/** OpenAI's clients on Google's accounts, and Google's clients on OpenAI's accounts. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import OpenAI from "openai";
import { callGemini, methodPath, readEvents } from "../gemini/gemini-gateway.ts";
import { runGenai } from "../gemini/google-clients.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

const MODELS = {
  fast: "sim-fast",
  thinker: "sim-reason",
  agent: "sim-tools-reason",
  cut: "fault/incomplete",
  blocked: "fault/blocked",
};
const NAMES = Object.keys(MODELS).join(", ");
const keyFor = (group: string) => `${group}-${TEST_KEY}`;

/** A group for each interface that its only account has. */
const FILE = `
models:
${Object.keys(MODELS)
  .map((id) => `  - { id: ${id}, interfaces: [chat, responses, gemini] }`)
  .join("\n")}
accounts:
  - { name: google, kind: gemini, base_url: "\${SIMULATOR_ORIGIN}", private_network: true, models: ${JSON.stringify(MODELS)} }
  - { name: chat-only, kind: openai, base_url: "\${SIMULATOR_URL}", private_network: true, interfaces: [chat], models: ${JSON.stringify(MODELS)} }
  - { name: responses-only, kind: openai, base_url: "\${SIMULATOR_URL}", private_network: true, interfaces: [responses], models: ${JSON.stringify(MODELS)} }
groups:
  - { name: on-google, models: [${NAMES}], accounts: [google] }
  - { name: on-chat, models: [${NAMES}], accounts: [chat-only] }
  - { name: on-responses, models: [${NAMES}], accounts: [responses-only] }
users: [{ email: dev@example.com, role: user }]
keys:
  - { name: google, user: dev@example.com, group: on-google, secret: ${keyFor("google")} }
  - { name: chat, user: dev@example.com, group: on-chat, secret: ${keyFor("chat")} }
  - { name: responses, user: dev@example.com, group: on-responses, secret: ${keyFor("responses")} }
`;

let gateway: RunningGateway;
beforeAll(async () => {
  gateway = await startTestGateway({ file: FILE });
});
afterAll(() => gateway.stop());

const openai = () => new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: keyFor("google"), maxRetries: 0 });
const latestPath = () => gateway.simulator.ledger.last()?.path;

const weather = {
  name: "get_weather",
  description: "Tells the weather",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};
const question = { role: "user" as const, content: "What is the weather in Bern?" };

describe("a Chat client on Google's account", () => {
  test("receives a whole response, with thoughts counted as output", async () => {
    const completion = await openai().chat.completions.create({ model: "thinker", messages: [question] });
    expect(completion.choices[0]).toMatchObject({
      finish_reason: "stop",
      message: { content: expect.stringContaining("weather in Bern") },
    });
    expect(completion.usage?.completion_tokens_details?.reasoning_tokens).toBeGreaterThan(0);
    expect(latestPath()).toBe("/v1beta/models/sim-reason:generateContent");
  });

  test("receives a stream that ends with the usage", async () => {
    const stream = await openai().chat.completions.create({
      model: "fast",
      messages: [question],
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = "";
    let tokens = 0;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? "";
      tokens = chunk.usage?.total_tokens ?? tokens;
    }
    expect(text).toContain("weather in Bern");
    expect(tokens).toBeGreaterThan(0);
  });

  test("runs a tool loop, although it cannot carry the signature of the call", async () => {
    const tools = [{ type: "function" as const, function: weather }];
    const first = await openai().chat.completions.create({ model: "agent", messages: [question], tools });
    const message = first.choices[0]?.message;
    expect(first.choices[0]?.finish_reason).toBe("tool_calls");
    const [call] = message?.tool_calls ?? [];
    if (message === undefined || call === undefined) throw new Error("no call");
    const second = await openai().chat.completions.create({
      model: "agent",
      messages: [question, message, { role: "tool", tool_call_id: call.id, content: "sunny" }],
      tools,
    });
    expect(second.choices[0]?.message.content).toContain("sunny");
  });

  test("receives the reason why a response ended", async () => {
    const cut = await openai().chat.completions.create({ model: "cut", messages: [question] });
    expect(cut.choices[0]?.finish_reason).toBe("length");
    const blocked = await openai().chat.completions.create({ model: "blocked", messages: [question] });
    expect(blocked.choices[0]?.finish_reason).toBe("content_filter");
    const stream = await openai().chat.completions.create({
      model: "blocked",
      messages: [question],
      stream: true,
    });
    const reasons: unknown[] = [];
    for await (const chunk of stream) reasons.push(chunk.choices[0]?.finish_reason);
    expect(reasons).toContain("content_filter");
  });

  test("names the fields that the account cannot express", async () => {
    const response = await gateway.call(
      "/v1/chat/completions",
      { model: "fast", messages: [question], parallel_tool_calls: false, logprobs: true },
      { headers: { authorization: `Bearer ${keyFor("google")}` } },
    );
    expect(response.status).toBe(200);
    expect(
      response.headers
        .get("x-gateway-dropped")
        ?.split(",")
        .map((name) => name.trim()),
    ).toEqual(["parallel_tool_calls", "logprobs"]);
  });

  test("is refused an image that the gateway would have to fetch", async () => {
    const image_url = { url: "https://example.com/cat.png" };
    const content = [{ type: "image_url" as const, image_url }];
    const refusal = await openai()
      .chat.completions.create({ model: "fast", messages: [{ role: "user", content }] })
      .catch((error: unknown) => error);
    expect(refusal).toMatchObject({ status: 400, param: "image_url" });
  });
});

describe("a Responses client on Google's account", () => {
  test("sends the signature of a call back in encrypted reasoning", async () => {
    const tools = [{ type: "function" as const, strict: false, ...weather }];
    const options = {
      model: "agent",
      tools,
      store: false,
      include: ["reasoning.encrypted_content" as const],
    };
    const first = await openai().responses.create({ ...options, input: [question] });
    const reasoning = first.output.find((item) => item.type === "reasoning");
    expect(reasoning?.encrypted_content).toStartWith("gws1.");
    const call = first.output.find((item) => item.type === "function_call");
    if (call === undefined) throw new Error("no call");
    const output = { type: "function_call_output" as const, call_id: call.call_id, output: "sunny" };
    const input = [question, ...first.output, output] as OpenAI.Responses.ResponseInput;
    const second = await openai().responses.create({ ...options, input });
    expect(second.output_text).toContain("sunny");
    const sent = new TextDecoder().decode(
      gateway.simulator.ledger.findBody(gateway.simulator.ledger.last()?.id ?? "") ?? new Uint8Array(),
    );
    expect(sent).not.toContain("skip_thought_signature_validator");
  });
});

test.each(["chat", "responses"])(
  "@google/genai receives structured output of an account with %s only",
  async (dialect) => {
    const [result] = await runGenai(gateway.url, [{ run: "json", model: "fast" }], keyFor(dialect));
    expect(JSON.parse(result?.text ?? "")).toHaveProperty("word");
  },
);

test("a conversation continues on Google's account with the signature of another vendor", async () => {
  const tools = [
    {
      functionDeclarations: [{ ...weather, parameters: undefined, parametersJsonSchema: weather.parameters }],
    },
  ];
  const contents = [{ role: "user", parts: [{ text: "What is the weather in Bern?" }] }];
  const first = await callGemini(
    gateway,
    methodPath("agent", "generateContent"),
    { contents, tools },
    { key: keyFor("responses") },
  );
  const answer = (await first.json()) as {
    candidates: { content: { parts: { functionCall?: { name: string } }[] } }[];
  };
  const content = answer.candidates[0]?.content;
  const name = content?.parts.find(({ functionCall }) => functionCall)?.functionCall?.name;
  const response = { role: "user", parts: [{ functionResponse: { name, response: { output: "sunny" } } }] };
  const second = await callGemini(
    gateway,
    `${methodPath("agent", "streamGenerateContent")}?alt=sse`,
    { contents: [...contents, content, response], tools },
    { key: keyFor("google") },
  );
  const text = await second.text();
  expect(second.status).toBe(200);
  expect(JSON.stringify(readEvents(text))).toContain("sunny");
});
