/** Searches and citations of an Anthropic account for clients of other APIs, and signatures of Google's texts. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

type Json = Record<string, unknown>;

const INTERFACES = ["chat", "responses", "messages", "gemini"];
const URL_CITED = "https://example.com/simulator";
const HEADERS = { authorization: `Bearer ${TEST_KEY}` };

let gateway: RunningGateway;

beforeAll(async () => {
  const base_url = ["$", "{SIMULATOR_URL}"].join("");
  const origin = ["$", "{SIMULATOR_ORIGIN}"].join("");
  const account = { credential: "credential", private_network: true };
  gateway = await startTestGateway({
    file: JSON.stringify({
      models: [
        {
          id: "finder",
          interfaces: INTERFACES,
          price: { input: "1", output: "1", per_call: { web_search: "0.01" } },
        },
        { id: "thinker", interfaces: INTERFACES },
        { id: "plain", interfaces: INTERFACES },
      ],
      accounts: [
        { ...account, name: "anthropic", kind: "anthropic", base_url, models: { finder: "sim-search" } },
        { ...account, name: "google", kind: "gemini", base_url: origin, models: { thinker: "sim-reason" } },
        {
          ...account,
          name: "chat",
          kind: "openai",
          base_url,
          interfaces: ["chat"],
          models: { plain: "sim-fast" },
        },
      ],
      groups: [
        {
          name: "default",
          interfaces: INTERFACES,
          models: ["finder", "thinker", "plain"],
          accounts: ["anthropic", "google", "chat"],
        },
      ],
      users: [{ email: "dev@example.com", role: "user" }],
      keys: [{ name: "test", user: "dev@example.com", group: "default", secret: TEST_KEY }],
    }),
  });
});

afterAll(() => gateway.stop());

async function send(path: string, body: Json): Promise<{ text: string; headers: Headers }> {
  const response = await gateway.call(path, body, { headers: HEADERS });
  const text = await response.text();
  expect([response.status, text]).toEqual([200, text]);
  return { text, headers: response.headers };
}

async function readReport(headers: Headers): Promise<Json> {
  const path = `/v1/requests/${headers.get("x-request-id")}`;
  const response = await gateway.call(path, undefined, { headers: HEADERS });
  return (await response.json()) as Json;
}

const question = [{ role: "user", content: "What is new?" }];
const contents = [{ role: "user", parts: [{ text: "What is new?" }] }];
const gemini = (method: string) => `/v1beta/models/finder:${method}`;

const CLIENTS: readonly [name: string, path: string, body: Json, citation: string, dropped: string[]][] = [
  [
    "Chat",
    "/v1/chat/completions",
    { model: "finder", messages: question, web_search_options: {} },
    `"url":"${URL_CITED}"`,
    ["web_search_call"],
  ],
  [
    "streaming Chat",
    "/v1/chat/completions",
    { model: "finder", messages: question, web_search_options: {}, stream: true },
    `"url":"${URL_CITED}"`,
    ["web_search_call"],
  ],
  [
    "Responses",
    "/v1/responses",
    { model: "finder", input: "What is new?", tools: [{ type: "web_search" }] },
    `"type":"url_citation"`,
    [],
  ],
  [
    "streaming Responses",
    "/v1/responses",
    { model: "finder", input: "What is new?", tools: [{ type: "web_search" }], stream: true },
    "response.output_text.annotation.added",
    [],
  ],
  [
    "Gemini",
    gemini("generateContent"),
    { contents, tools: [{ googleSearch: {} }] },
    `"uri":"${URL_CITED}"`,
    [],
  ],
  [
    "streaming Gemini",
    `${gemini("streamGenerateContent")}?alt=sse`,
    { contents, tools: [{ googleSearch: {} }] },
    `"uri":"${URL_CITED}"`,
    [],
  ],
];

describe("a search on an Anthropic account", () => {
  test.each(CLIENTS)("gives a %s client its citations, and its losses are in the report", async (...row) => {
    const [, path, body, citation, dropped] = row;
    const { text, headers } = await send(path, body);
    expect(text).toContain(citation);
    expect(await readReport(headers)).toMatchObject({
      usage: { web_searches: 1 },
      attempts: [{ translated_to: "messages", dropped }],
    });
    const isWhole = !text.startsWith("event:") && !text.startsWith("data:");
    if (isWhole)
      expect(headers.get("x-gateway-dropped")).toBe(dropped.length === 0 ? null : dropped.join(","));
  });

  test("continues with the citations in the history", async () => {
    const body = { model: "finder", tools: [{ type: "web_search" }], store: false };
    const { text } = await send("/v1/responses", { ...body, input: question });
    const { output } = JSON.parse(text) as { output: Json[] };
    const next = await send("/v1/responses", { ...body, input: [...question, ...output, ...question] });
    expect(next.headers.get("x-gateway-dropped")).toBe("annotations,input[1].web_search_call");
  });
});

describe("a signed text of Google", () => {
  const body = {
    model: "thinker",
    include: ["reasoning.encrypted_content"],
    reasoning: { effort: "medium" },
    store: false,
  };
  const readSignatures = () => {
    const entry = gateway.simulator.ledger.last();
    const sent = Buffer.from(gateway.simulator.ledger.findBody(entry?.id ?? "") ?? []).toString();
    return sent.match(/"thoughtSignature":"[^"]+"/g) ?? [];
  };

  test.each([false, true])("is sent back with its signature (stream: %p)", async (stream) => {
    const { text } = await send("/v1/responses", { ...body, input: question, stream });
    const events = text.match(/^data: \{"type":"response.completed".*$/m)?.[0];
    const response = stream ? JSON.parse(events?.slice("data: ".length) ?? "{}").response : JSON.parse(text);
    await send("/v1/responses", { ...body, input: [...question, ...response.output, ...question] });
    expect(readSignatures()).toHaveLength(1);
  });

  test("is sent back from a stored conversation, and is not shown to a client that has no use for it", async () => {
    const { include: _, store: __, reasoning: ___, ...plain } = body;
    const { text } = await send("/v1/responses", { ...plain, input: question });
    const { id, output } = JSON.parse(text) as { id: string; output: Json[] };
    expect(output.map(({ type }) => type)).toEqual(["message"]);
    await send("/v1/responses", { ...plain, previous_response_id: id, input: question });
    expect(readSignatures()).toHaveLength(1);
  });

  test.each([false, true])("does not end a message with thinking (stream: %p)", async (stream) => {
    const message = { model: "thinker", max_tokens: 1_000, messages: question, stream };
    const { text } = await send("/v1/messages", message);
    const blocks = stream
      ? [...text.matchAll(/"content_block":\{"type":"(\w+)"/g)].map(([, type]) => type)
      : (JSON.parse(text) as { content: Json[] }).content.map(({ type }) => type);
    expect(blocks.at(-1)).toBe("text");
  });
});

test("the count of tokens for a model of another vendor approaches what its upstream reports", async () => {
  const messages = [{ role: "user", content: "The quick brown fox jumps over the lazy dog. ".repeat(60) }];
  const { text } = await send("/v1/messages", { model: "plain", max_tokens: 100, messages });
  const { usage } = JSON.parse(text) as { usage: { input_tokens: number } };
  const counted = await send("/v1/messages/count_tokens", { model: "plain", messages });
  const { input_tokens } = JSON.parse(counted.text) as { input_tokens: number };
  expect(Math.abs(input_tokens - usage.input_tokens)).toBeLessThanOrEqual(usage.input_tokens * 0.02);
});
