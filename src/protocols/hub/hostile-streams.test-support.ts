/** Streams that no vendor sends: events in any order, twice, without their members, and of the wrong type. */

import fc from "fast-check";

const index = fc.constantFrom(undefined, 0, 1, 2, -1, 1.5, "0", null, 1e9);
const id = fc.constantFrom(undefined, "", "call_1", "call_2", 7, null);
const name = fc.constantFrom(undefined, "", "look_up", "other", 7);
const text = fc.constantFrom(undefined, "", "Hello", "ä€\ud83d", "{", '{"a":', "1}", '{"a":1}', 7, null, []);
const noise = fc.constantFrom<unknown>(null, [], 7, "text", {}, { type: "unknown" }, { error: null });
const usage = fc.constantFrom<unknown>(
  undefined,
  null,
  {},
  { input_tokens: 9, output_tokens: 5, prompt_tokens: 9, completion_tokens: 5 },
  { input_tokens: 3, output_tokens: 1, promptTokenCount: 3, candidatesTokenCount: 1 },
  { input_tokens: -1, output_tokens: "5", promptTokenCount: 1e300 },
);

const annotations = fc.constantFrom<unknown>(
  undefined,
  null,
  [7, {}, { type: "file_citation" }],
  [{ type: "url_citation", url: "https://a.example", start_index: -5, end_index: 1e9 }],
  [{ type: "url_citation", url_citation: { url: "https://a.example", start_index: "x" } }],
);

const block = fc.oneof(
  fc.record({
    type: fc.constantFrom("server_tool_use", "web_search_tool_result", "text"),
    id,
    name: fc.constantFrom("web_search", "web_fetch", 7),
    tool_use_id: id,
    content: fc.constantFrom<unknown>(undefined, null, { error_code: "x" }, [7, { url: "u" }]),
    citations: fc.constantFrom<unknown>(undefined, null, [7], [{ url: "https://a.example" }]),
  }),
  fc.record({ type: fc.constantFrom("text", "thinking", "redacted_thinking", "server_tool_use"), text }),
  fc.record({ type: fc.constant("redacted_thinking"), data: text }),
  fc.record({ type: fc.constant("tool_use"), id, name, input: fc.constantFrom({}, null, "x") }),
  noise,
);
const blockDelta = fc.oneof(
  fc.record({ type: fc.constant("text_delta"), text }),
  fc.record({ type: fc.constant("thinking_delta"), thinking: text }),
  fc.record({ type: fc.constant("signature_delta"), signature: text }),
  fc.record({ type: fc.constant("input_json_delta"), partial_json: text }),
  fc.record({
    type: fc.constant("citations_delta"),
    citation: fc.constantFrom<unknown>(null, {}, { url: "https://a.example", title: 7 }),
  }),
  noise,
);
const messagesEvent = fc.oneof(
  fc.record({ type: fc.constant("message_start"), message: fc.oneof(fc.record({ id, usage }), noise) }),
  fc.record({ type: fc.constant("content_block_start"), index, content_block: block }),
  fc.record({ type: fc.constant("content_block_delta"), index, delta: blockDelta }),
  fc.record({ type: fc.constant("content_block_stop"), index }),
  fc.record({
    type: fc.constant("message_delta"),
    delta: fc.record({ stop_reason: fc.constantFrom("end_turn", "max_tokens", "tool_use", null, 7) }),
    usage,
  }),
  fc.record({ type: fc.constant("message_stop") }),
  noise,
);

const call = fc.oneof(
  fc.record({
    index,
    id,
    function: fc.oneof(fc.record({ name, arguments: fc.oneof(text, fc.constant({ a: 1 })) }), noise),
  }),
  fc.record({ index, id, custom: fc.record({ name, input: text }) }),
  noise,
);
const chatDelta = fc.oneof(
  fc.record({ content: fc.oneof(text, fc.constant([{ text: "part" }, 7])) }),
  fc.record({ reasoning_content: text, refusal: text }),
  fc.record({ content: text, annotations }),
  fc.record({ tool_calls: fc.oneof(fc.array(call, { maxLength: 3 }), noise) }),
  fc.record({ function_call: fc.record({ name, arguments: text }) }),
  noise,
);
const chatChunk = fc.oneof(
  fc.record({
    id,
    choices: fc.array(
      fc.record({
        delta: chatDelta,
        finish_reason: fc.constantFrom(null, null, null, "stop", "length", "tool_calls", "odd", 7),
      }),
      { maxLength: 2 },
    ),
    usage,
  }),
  noise,
);

const outputItem = fc.oneof(
  fc.record({
    type: fc.constantFrom("function_call", "custom_tool_call"),
    call_id: id,
    name,
    arguments: text,
    input: text,
    status: fc.constantFrom("completed", "incomplete"),
  }),
  fc.record({
    type: fc.constant("message"),
    content: fc.array(fc.record({ type: fc.constant("output_text"), text, annotations }), { maxLength: 2 }),
  }),
  fc.record({
    type: fc.constantFrom("web_search_call", "file_search_call"),
    action: fc.constantFrom<unknown>(undefined, null, 7, { query: 7 }, { query: "q", sources: [7] }),
  }),
  fc.record({
    type: fc.constant("reasoning"),
    summary: fc.array(fc.record({ text })),
    encrypted_content: text,
  }),
  noise,
);
const place = { output_index: index, content_index: index, summary_index: index };
const responsesEvent = fc.oneof(
  fc.record({ type: fc.constantFrom("response.created", "response.in_progress"), response: noise }),
  fc.record({
    type: fc.constantFrom("response.output_item.added", "response.output_item.done"),
    item: outputItem,
    ...place,
  }),
  fc.record({
    type: fc.constantFrom(
      "response.output_text.delta",
      "response.refusal.delta",
      "response.reasoning_text.delta",
      "response.reasoning_summary_text.delta",
      "response.function_call_arguments.delta",
      "response.custom_tool_call_input.delta",
    ),
    delta: text,
    ...place,
  }),
  fc.record({
    type: fc.constantFrom("response.completed", "response.incomplete"),
    response: fc.oneof(fc.record({ output: fc.array(outputItem, { maxLength: 2 }), usage }), noise),
  }),
  noise,
);

const geminiPart = fc.oneof(
  fc.record({ text, thought: fc.boolean(), thoughtSignature: text }),
  fc.record({
    functionCall: fc.oneof(
      fc.record({ id, name, args: fc.constantFrom<unknown>(undefined, null, {}, { a: 1 }, [1], "x") }),
      noise,
    ),
    thoughtSignature: text,
  }),
  noise,
);
const geminiChunk = fc.oneof(
  fc.record({
    responseId: id,
    candidates: fc.oneof(
      fc.array(
        fc.record({
          content: fc.oneof(fc.record({ parts: fc.array(geminiPart, { maxLength: 3 }) }), noise),
          finishReason: fc.constantFrom(undefined, undefined, "STOP", "MAX_TOKENS", "SAFETY", "OTHER", 7),
          groundingMetadata: fc.constantFrom<unknown>(
            undefined,
            7,
            { webSearchQueries: [7, "q"], groundingChunks: [null, { web: { uri: "u" } }] },
            {
              groundingChunks: [{ web: { uri: "u" } }],
              groundingSupports: [
                { groundingChunkIndices: [0, "x"], segment: { startIndex: 9, endIndex: -1 } },
              ],
            },
          ),
        }),
        { maxLength: 2 },
      ),
      noise,
    ),
    usageMetadata: usage,
    promptFeedback: fc.constantFrom(undefined, undefined, {}, { blockReason: "SAFETY" }),
  }),
  noise,
);

/** Each stream ends with events that complete it, if the reader still listens. */
export const HOSTILE_EVENTS = {
  messages: ending(messagesEvent, [
    { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 7 } },
    { type: "message_stop" },
  ]),
  chat: ending(chatChunk, [{ choices: [{ delta: {}, finish_reason: "stop" }] }]),
  responses: ending(responsesEvent, [{ type: "response.completed", response: { status: "completed" } }]),
  gemini: ending(geminiChunk, [
    { candidates: [{ content: { parts: [{ text: "!" }] }, finishReason: "STOP" }] },
  ]),
} as const;

function ending(event: fc.Arbitrary<unknown>, tail: readonly object[]): fc.Arbitrary<readonly unknown[]> {
  return fc.array(event, { maxLength: 14 }).map((events) => [...events, ...tail]);
}
