/** Faults that other gateways had in the counts of tokens between dialects. */

import { describe, expect, test } from "bun:test";
import { lookUpCodec } from "../codecs.ts";
import { MESSAGES_CODEC } from "../messages/messages-codec.ts";
import { clientTarget, hubRequest, NO_TOOL_NAMES } from "./codec.test-support.ts";
import type { Dialect } from "./hub-request.ts";
import type { HubEvent } from "./hub-response.ts";

type Json = Record<string, unknown>;

function readStream(events: readonly object[]): HubEvent[] {
  const reader = MESSAGES_CODEC.openStreamReader(NO_TOOL_NAMES);
  return [...events.flatMap((event) => reader.read(JSON.stringify(event), null)), ...reader.close()];
}

describe("usage", () => {
  const usage = {
    input_tokens: 10,
    cache_read_input_tokens: 60,
    cache_creation_input_tokens: 30,
    output_tokens: 5,
  };
  const response = { id: "m", content: [{ type: "text", text: "hi" }], stop_reason: "end_turn", usage };

  function translate(dialect: Dialect, from: Dialect = "messages", json: Json = response): Json {
    const read = lookUpCodec(from).readResponse(json, NO_TOOL_NAMES);
    if (read === null) throw new Error("not read");
    return lookUpCodec(dialect).writeResponse(read, clientTarget(hubRequest(dialect))) as Json;
  }

  test("the input of Chat and Responses includes the cache, once", () => {
    expect(translate("chat").usage).toMatchObject({
      prompt_tokens: 100,
      total_tokens: 105,
      prompt_tokens_details: { cached_tokens: 60 },
    });
    expect(translate("responses").usage).toMatchObject({ input_tokens: 100, total_tokens: 105 });
    expect(translate("gemini").usageMetadata).toMatchObject({
      promptTokenCount: 100,
      cachedContentTokenCount: 60,
    });
  });

  test("the input of Messages excludes the cache, and reads and writes stay apart", () => {
    const chat = {
      choices: [{ message: { content: "hi" }, finish_reason: "stop" }],
      usage: {
        prompt_tokens: 100,
        completion_tokens: 5,
        prompt_tokens_details: { cached_tokens: 60, cache_write_tokens: 30 },
      },
    };
    expect(translate("messages", "chat", chat).usage).toMatchObject(usage);
  });

  test("a write without its lifetime is one of five minutes", () => {
    const read = MESSAGES_CODEC.readResponse(response, NO_TOOL_NAMES);
    expect(read?.usage).toMatchObject({ cacheWriteTokens: 30, cacheWrite1hTokens: 0 });
    const zero = { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 };
    const older = { ...response, usage: { ...usage, cache_creation: zero } };
    expect(MESSAGES_CODEC.readResponse(older, NO_TOOL_NAMES)?.usage).toMatchObject({ cacheWriteTokens: 30 });
  });

  test("later counts of a stream correct earlier ones, and null keeps them", () => {
    const events = readStream([
      { type: "message_start", message: { usage: { input_tokens: 1, cache_read_input_tokens: 60 } } },
      { type: "message_delta", delta: { stop_reason: "refusal" }, usage: { ...usage, input_tokens: null } },
      { type: "message_stop" },
    ]);
    const reports = events.flatMap((event) => (event.type === "usage" ? [event.usage] : []));
    expect(reports.at(-1)).toMatchObject({ inputTokens: 91, cachedTokens: 60, outputTokens: 5 });
    // A refusal is a response of the model, not a fault of the account.
    expect(events.at(-1)).toMatchObject({ type: "end", stop: "filtered" });
  });

  test.each<[Dialect, readonly object[], object]>([
    [
      "messages",
      [
        { type: "message_start", message: { usage: { input_tokens: 9, output_tokens: 1 } } },
        { type: "content_block_start", index: 0, content_block: { type: "text", text: "Hello" } },
      ],
      { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 5 } },
    ],
    [
      "gemini",
      [
        {
          candidates: [{ content: { parts: [{ text: "Hello" }] } }],
          usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 1, totalTokenCount: 10 },
        },
      ],
      {
        candidates: [{ content: {}, finishReason: "STOP" }],
        usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 5, totalTokenCount: 14 },
      },
    ],
    [
      "chat",
      [
        {
          choices: [{ delta: { content: "Hello" } }],
          usage: { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10 },
        },
      ],
      {
        choices: [{ delta: {}, finish_reason: "stop" }],
        usage: { prompt_tokens: 9, completion_tokens: 5, total_tokens: 14 },
      },
    ],
  ])(
    "what a %s stream reports before its end is not final: a client that leaves pays for more",
    (dialect, begin, end) => {
      const reader = lookUpCodec(dialect).openStreamReader(NO_TOOL_NAMES);
      const lastReport = (events: readonly object[]) =>
        events
          .flatMap((event) => reader.read(JSON.stringify(event), null))
          .flatMap((event) => (event.type === "usage" ? [event.usage] : []))
          .at(-1);
      expect(lastReport(begin)).toMatchObject({ inputTokens: 9, outputTokens: 1, isEarly: true });
      expect(lastReport([end])).toMatchObject({ inputTokens: 9, outputTokens: 5, isEarly: false });
    },
  );
});
