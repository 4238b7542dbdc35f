/** A simulated message as one object, and as the events of a stream. */

import type { Usage } from "../model/model-output.ts";
import { splitText } from "../model/text.ts";
import { type Frame, frame, outputFrame, usageJson } from "../reply.ts";
import { CITATION_INDEX } from "./messages-signature.ts";
import type { MessageBlock, PlannedMessage } from "./planned-message.ts";

const LANE = { text: 0, reasoning: 1, name: 2, arguments: 3 } as const;
const OVERLOADED = { type: "overloaded_error", message: "Overloaded" };
const FAILED = { type: "api_error", message: "Internal server error" };

export function messageObject(message: PlannedMessage, blocks: readonly MessageBlock[]): string {
  const { usage, stopReason, stopSequence } = message;
  const content = blocks.map(blockObject);
  const reported = usage === null ? "" : `,"usage":${formatUsage(message, usage)}`;
  return `${opening(message)},"content":${JSON.stringify(content)},"stop_reason":"${stopReason}","stop_sequence":${JSON.stringify(stopSequence)}${reported}}`;
}

function opening({ id, call }: PlannedMessage): string {
  return `{"id":"${id}","type":"message","role":"assistant","model":${JSON.stringify(call.behaviour.responseModel)}`;
}

function blockObject(block: MessageBlock): object {
  switch (block.type) {
    case "tool_use":
    case "server_tool_use":
      return { ...block, input: JSON.parse(block.input) };
    case "web_search_tool_result":
      return searchResult(block);
    case "text": {
      const { type, text, citedUrl } = block;
      return { type, text, ...(citedUrl === undefined ? {} : { citations: [buildCitation(citedUrl)] }) };
    }
    default:
      return block;
  }
}

function buildCitation(url: string): object {
  return {
    type: "web_search_result_location",
    url,
    title: "The simulator",
    encrypted_index: CITATION_INDEX,
    cited_text: "simulator",
  };
}

function searchResult({
  type,
  tool_use_id,
  url,
}: Extract<MessageBlock, { type: "web_search_tool_result" }>): object {
  const result = {
    type: "web_search_result",
    url,
    title: "The simulator",
    encrypted_content: "c2lt",
    page_age: null,
  };
  return { type, tool_use_id, content: [result] };
}

/** `input_tokens` exclude what was read from or written to the cache. */
function formatUsage(
  { cacheUse, searches }: PlannedMessage,
  usage: Usage,
  outputTokens = usage.output,
): string {
  const { read, written5m, written1h } = cacheUse;
  // A falsified report has no cache.
  const isTrue = usage.input === cacheUse.fresh + read + written5m + written1h;
  const fresh = isTrue ? cacheUse.fresh : usage.input;
  const search = searches === 0 ? "null" : `{"web_search_requests":${searches},"web_fetch_requests":0}`;
  return usageJson(
    `{"input_tokens":${fresh},"cache_creation_input_tokens":${isTrue ? written5m + written1h : 0},"cache_read_input_tokens":${isTrue ? read : 0},"cache_creation":{"ephemeral_5m_input_tokens":${isTrue ? written5m : 0},"ephemeral_1h_input_tokens":${isTrue ? written1h : 0}},"output_tokens":${outputTokens},"output_tokens_details":{"thinking_tokens":${usage.reasoning}},"server_tool_use":${search},"service_tier":"standard"}`,
  );
}

/** The events of one message: the start, its blocks one after the other, the reason of the end, the stop. */
export function* messageEvents(message: PlannedMessage): Generator<Frame> {
  const { call, usage, stopReason, stopSequence } = message;
  const { fault } = call;
  const start = usage === null ? "" : `,"usage":${formatUsage(message, usage, 1)}`;
  yield event(
    "message_start",
    `"message":${opening(message)},"content":[],"stop_reason":null,"stop_sequence":null${start}}`,
  );
  if (fault?.name === "capacity-in-stream") {
    yield errorEvent(OVERLOADED);
    return;
  }
  for (const [index, block] of (fault?.name === "empty" ? [] : message.blocks).entries()) {
    yield* blockEvents(message, block, index);
    if (index === 0) yield event("ping", "");
  }
  const reported = usage === null ? "" : `,"usage":${formatUsage(message, usage)}`;
  const delta = {
    stop_reason: fault?.name === "empty" ? "end_turn" : stopReason,
    stop_sequence: stopSequence,
  };
  yield event("message_delta", `"delta":${JSON.stringify(delta)}${reported}`);
  if (fault?.name === "failed") {
    yield errorEvent(FAILED);
    return;
  }
  if (fault?.name !== "no-done") yield event("message_stop", "");
}

function* blockEvents({ call }: PlannedMessage, block: MessageBlock, index: number): Generator<Frame> {
  const start = (json: object, name = ""): Frame =>
    outputFrame(
      "content_block_start",
      `{"type":"content_block_start","index":${index},"content_block":${JSON.stringify(json)}}`,
      name,
      LANE.name,
      false,
    );
  const delta = (json: object, text: string, lane: number): Frame =>
    outputFrame(
      "content_block_delta",
      `{"type":"content_block_delta","index":${index},"delta":${JSON.stringify(json)}}`,
      text,
      lane,
      lane === LANE.text,
    );
  switch (block.type) {
    case "text":
      yield start({ type: "text", text: "" });
      for (const text of splitText(block.text, call.behaviour.events))
        yield delta({ type: "text_delta", text }, text, LANE.text);
      if (block.citedUrl !== undefined)
        yield delta({ type: "citations_delta", citation: buildCitation(block.citedUrl) }, "", LANE.text);
      break;
    case "thinking":
      yield start({ type: "thinking", thinking: "", signature: "" });
      for (const thinking of splitText(block.thinking, null))
        yield delta({ type: "thinking_delta", thinking }, thinking, LANE.reasoning);
      yield delta({ type: "signature_delta", signature: block.signature }, "", LANE.reasoning);
      break;
    case "tool_use":
    case "server_tool_use":
      yield start({ type: block.type, id: block.id, name: block.name, input: {} }, block.name);
      yield delta({ type: "input_json_delta", partial_json: "" }, "", LANE.arguments);
      for (const piece of splitText(block.input, null))
        yield delta({ type: "input_json_delta", partial_json: piece }, piece, LANE.arguments);
      break;
    case "redacted_thinking":
      yield start(block);
      break;
    case "web_search_tool_result":
      yield start(searchResult(block));
      break;
  }
  yield event("content_block_stop", `"index":${index}`);
}

function event(type: string, fields: string): Frame {
  return frame(type, `{"type":"${type}"${fields === "" ? "" : `,${fields}`}}`);
}

function errorEvent(error: object): Frame {
  return frame("error", JSON.stringify({ type: "error", error }));
}
