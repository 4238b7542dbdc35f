/** Searches of responses whose usage does not report them: counted in every form, and billed by the call. */

import { describe, expect, test } from "bun:test";
import { computeTariffCosts, makeTariff } from "../money/tariff.ts";
import type { Dialect } from "../records/interfaces.ts";
import { openChatReader } from "./chat/chat-stream.ts";
import { lookUpCodec } from "./codecs.ts";
import { lookUpEndpoint } from "./endpoints.ts";
import { openGeminiReader } from "./gemini/gemini-stream.ts";
import { NO_TOOL_NAMES } from "./hub/codec.test-support.ts";
import { openResponsesReader } from "./responses/responses-stream.ts";
import type { EndpointName } from "./shared/endpoint.ts";
import type { StreamReader } from "./shared/stream.ts";
import type { Audience } from "./shared/upstream-error.ts";
import type { TokenUsage } from "./shared/usage.ts";
import { readWholeResponse } from "./whole-response.ts";

/** How a response of each interface is read, whole and as a stream, passed through and translated. */
const RESPONSES_JSON = {
  id: "r",
  status: "completed",
  output: [
    { type: "web_search_call", action: { type: "search", query: "a" } },
    { type: "web_search_call", action: { type: "open_page", url: "https://a.example" } },
    { type: "web_search_call", status: "completed" },
    { type: "message", content: [{ type: "output_text", text: "web_search_call" }] },
  ],
  usage: { input_tokens: 100, output_tokens: 10, total_tokens: 110 },
};
const GEMINI_JSON = {
  responseId: "r",
  candidates: [
    {
      content: { parts: [{ text: "found" }] },
      finishReason: "STOP",
      groundingMetadata: { webSearchQueries: ["a", "b"] },
    },
  ],
  usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 10, totalTokenCount: 110 },
};

const CHAT_JSON = {
  id: "c",
  model: "gpt-4o-search-preview-2025-03-11",
  choices: [{ index: 0, message: { role: "assistant", content: "found" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 },
};

const AUDIENCE: Audience = { publicModel: "m", upstreamModel: "u", account: null, mentions: () => false };

describe("searches that are not part of the reported usage", () => {
  const readers: readonly [string, object, (json: object) => TokenUsage | null][] = [
    ["a whole response", RESPONSES_JSON, (json) => readWholeUsage(json, "responses")],
    ["a whole response that is translated", RESPONSES_JSON, (json) => readTranslated("responses", json)],
    [
      "a streamed response",
      RESPONSES_JSON,
      (response) => readStream(openResponsesReader(READER), { type: "response.completed", response }),
    ],
    [
      "a streamed response that is translated",
      RESPONSES_JSON,
      (response) => readHubUsage("responses", { type: "response.completed", response }),
    ],
    ["whole content of Gemini", GEMINI_JSON, (json) => readWholeUsage(json, "gemini.generate_content")],
    ["whole content of Gemini that is translated", GEMINI_JSON, (json) => readTranslated("gemini", json)],
    ["streamed content of Gemini", GEMINI_JSON, (json) => readStream(openGeminiReader(READER), json)],
    ["streamed content of Gemini that is translated", GEMINI_JSON, (json) => readHubUsage("gemini", json)],
  ];
  const READER = { publicModel: "m", depthMax: 32, choices: 1, nowMs: () => 0 };

  function readWholeUsage(json: object, endpoint: EndpointName): TokenUsage | null {
    const bytes = Buffer.from(JSON.stringify(json));
    const result = readWholeResponse(
      { bytes, start: 0, end: bytes.length },
      lookUpEndpoint(endpoint),
      AUDIENCE,
      32,
    );
    return result.kind === "response" ? result.usage : null;
  }
  function readTranslated(dialect: Dialect, json: object): TokenUsage | null {
    return lookUpCodec(dialect).readResponse({ ...json }, NO_TOOL_NAMES)?.usage ?? null;
  }
  function readStream(reader: StreamReader, json: object): TokenUsage | null {
    const bytes = Buffer.from(`data: ${JSON.stringify(json)}\n\n`);
    reader.read(bytes, 0, bytes.length - 2);
    return reader.usage;
  }
  function readHubUsage(dialect: Dialect, json: object): TokenUsage | null {
    const events = lookUpCodec(dialect).openStreamReader(NO_TOOL_NAMES).read(JSON.stringify(json), null);
    return events.findLast((event) => event.type === "usage")?.usage ?? null;
  }

  test.each(readers)("are counted in %s", (_, json, read) => {
    expect(read(json)).toMatchObject({ inputTokens: 100, outputTokens: 10, webSearches: 2 });
    const { output: __, candidates: ___, ...without } = { output: [], candidates: [], ...json };
    expect(read(without)?.webSearches ?? 0).toBe(0);
  });

  const chatReaders: readonly [string, (json: object) => TokenUsage | null][] = [
    ["a whole chat completion", (json) => readWholeUsage(json, "chat.completions")],
    ["a whole chat completion that is translated", (json) => readTranslated("chat", json)],
    [
      "a streamed chat completion",
      (json) => readStream(openChatReader({ ...READER, hidesUsage: false }), json),
    ],
    ["a streamed chat completion that is translated", (json) => readHubUsage("chat", json)],
  ];

  test.each(chatReaders)("are counted once for a search model in %s, or as it reports them", (_, read) => {
    expect(read(CHAT_JSON)).toMatchObject({ inputTokens: 100, webSearches: 1 });
    expect(read({ ...CHAT_JSON, model: "gpt-4o" })?.webSearches).toBe(0);
    const openrouter = { ...CHAT_JSON.usage, server_tool_use: { web_search_requests: 3 } };
    expect(read({ ...CHAT_JSON, model: "a/b", usage: openrouter })?.webSearches).toBe(3);
    const perplexity = { ...CHAT_JSON.usage, num_search_queries: 2 };
    expect(read({ ...CHAT_JSON, model: "sonar", usage: perplexity })?.webSearches).toBe(2);
  });

  test.each(readers.slice(4))(
    "count once for models that Google bills by the prompt, in %s",
    (_, json, read) => {
      expect(read({ ...json, modelVersion: "gemini-2.5-flash" })?.webSearches).toBe(1);
      expect(read({ ...json, modelVersion: "gemini-3-pro-preview" })?.webSearches).toBe(2);
    },
  );

  test("are billed by the call", () => {
    const tariff = makeTariff({ input: "1", output: "2", per_call: { web_search: "0.01" } });
    const usage = readWholeUsage(RESPONSES_JSON, "responses");
    if (usage === null) throw new Error("no usage");
    const { costNano } = computeTariffCosts(tariff, { ...usage, images: 0 }, { imageKind: null, tier: null });
    // 100 × $1 + 10 × $2 per million, and 2 × $0.01
    expect(costNano).toBe(20_120_000n);
  });
});
