/** Streams of upstreams as they may come: interleaved, with empty and unknown parts, and with wrong finish reasons. */

import fc from "fast-check";
import { lookUpCodec } from "../codecs.ts";
import { NO_TOOL_NAMES } from "./codec.test-support.ts";
import type { Dialect } from "./hub-request.ts";
import type { HubEvent } from "./hub-response.ts";

/** Deltas of a chat upstream in any order: parallel calls are interleaved with text and with each other. */
const chatDelta = fc.oneof(
  fc.record({ content: fc.string() }),
  fc.record({ reasoning_content: fc.string() }),
  fc.record({ refusal: fc.constantFrom("", "no") }),
  fc.constant({
    annotations: [{ type: "url_citation", url_citation: { url: "https://a.example", start_index: 2 } }],
  }),
  fc
    .record({
      index: fc.nat(2),
      id: fc.constantFrom(undefined, "", "call_1"),
      name: fc.constantFrom(undefined, "", "look_up"),
      text: fc.constantFrom("", "{", "}", '{"a":', "1}"),
    })
    .map(({ index, id, name, text }) => ({
      tool_calls: [{ index, id, function: { name, arguments: text } }],
    })),
);

const chatChunks = fc
  .tuple(fc.array(chatDelta, { maxLength: 12 }), fc.constantFrom("stop", "length", "tool_calls", null))
  .map(([deltas, finish]) => {
    const chunk = (choice: object) => ({ id: "c", created: 1, choices: [choice] });
    return [...deltas.map((delta) => chunk({ delta })), chunk({ delta: {}, finish_reason: finish })];
  });

const geminiPart = fc.oneof(
  fc.record({ text: fc.constantFrom("", "Hello", "ä€") }),
  fc.record({ text: fc.constantFrom("", "Hm."), thought: fc.constant(true) }),
  fc.record({ thoughtSignature: fc.constant("c2ln") }),
  fc.record({ executableCode: fc.constant({ code: "1" }) }),
  fc.record(
    {
      functionCall: fc.record(
        {
          id: fc.constantFrom("", "id_1"),
          name: fc.constantFrom("look_up", "other"),
          args: fc.constant({ a: 1 }),
        },
        { requiredKeys: ["name"] },
      ),
      thoughtSignature: fc.constant("c2ln"),
    },
    { requiredKeys: ["functionCall"] },
  ),
);

const GROUNDING = {
  webSearchQueries: ["a", "b"],
  groundingChunks: [{ web: { uri: "https://a.example", title: "A" } }, {}],
  groundingSupports: [{ segment: { endIndex: 3 }, groundingChunkIndices: [0, 1, 7] }],
};

const geminiChunks = fc
  .tuple(
    fc.array(fc.array(geminiPart, { maxLength: 3 }), { maxLength: 8 }),
    fc.constantFrom("STOP", "MAX_TOKENS", "SAFETY"),
  )
  .map(([chunks, finishReason]) => [
    ...chunks.map((parts) => ({ responseId: "r", candidates: [{ content: { parts } }] })),
    {
      responseId: "r",
      candidates: [{ content: {}, finishReason, groundingMetadata: GROUNDING }],
      usageMetadata: { promptTokenCount: 3, totalTokenCount: 5 },
    },
  ]);

const messagesBlock = fc.oneof(
  fc.array(fc.constantFrom("", "Hello", "ä€"), { maxLength: 3 }).map((texts) => ({
    start: { type: "text", text: "" },
    deltas: [
      ...texts.map((text): object => ({ type: "text_delta", text })),
      { type: "citations_delta", citation: { type: "char_location" } },
      {
        type: "citations_delta",
        citation: { type: "web_search_result_location", url: "https://a.example" },
      },
    ],
  })),
  fc.boolean().map((isSigned) => ({
    start: { type: "thinking", thinking: "", signature: "" },
    deltas: [
      { type: "thinking_delta", thinking: "Hm." },
      ...(isSigned ? [{ type: "signature_delta", signature: "c2ln" }] : []),
    ] as object[],
  })),
  fc.constant({ start: { type: "redacted_thinking", data: "c2ln" }, deltas: [] as object[] }),
  fc.constant({
    start: { type: "server_tool_use", id: "s", name: "web_search", input: {} },
    deltas: [{ type: "input_json_delta", partial_json: "{}" }] as object[],
  }),
  fc.constant({
    start: { type: "web_search_tool_result", tool_use_id: "s", content: [{ url: "https://a.example" }] },
    deltas: [] as object[],
  }),
  fc.array(fc.constantFrom("", "{", '"a":1}'), { maxLength: 3 }).map((pieces) => ({
    start: { type: "tool_use", id: "toolu_1", name: "look_up", input: {} },
    deltas: pieces.map((partial_json): object => ({ type: "input_json_delta", partial_json })),
  })),
);

const messagesEvents = fc
  .tuple(
    fc.array(messagesBlock, { maxLength: 6 }),
    fc.constantFrom("end_turn", "max_tokens", "tool_use", "refusal", "a_new_reason"),
  )
  .map(([blocks, stop_reason]) => [
    { type: "message_start", message: { id: "msg_1", usage: { input_tokens: 3, output_tokens: 1 } } },
    ...blocks.flatMap(({ start, deltas }, index): object[] => [
      { type: "content_block_start", index, content_block: start },
      { type: "ping" },
      ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
      { type: "content_block_stop", index },
    ]),
    { type: "message_delta", delta: { stop_reason }, usage: { input_tokens: null, output_tokens: 7 } },
    { type: "message_stop" },
  ]);

function read(dialect: Dialect, events: readonly object[]): HubEvent[] {
  const reader = lookUpCodec(dialect).openStreamReader(NO_TOOL_NAMES);
  return [...events.flatMap((event) => reader.read(JSON.stringify(event), null)), ...reader.close()];
}

/** The events between dialects of any upstream. Streams that are faults of the upstream end before `end`. */
export const UPSTREAM_STREAMS: readonly [string, fc.Arbitrary<HubEvent[]>][] = [
  ["Chat Completions", chatChunks.map((chunks) => read("chat", chunks))],
  ["Messages", messagesEvents.map((events) => read("messages", events))],
  ["Gemini", geminiChunks.map((chunks) => read("gemini", chunks))],
];
