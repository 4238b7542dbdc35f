/** The Chat Completions interface of the simulator. */

import type { Call } from "../endpoint.ts";
import { errorBody, missing } from "../errors.ts";
import { echoed, isTrue } from "../json-fields.ts";
import { computeLogProbabilities } from "../model/log-probabilities.ts";
import { CALLS_MAX, type Choice, planOutput, type ToolCall, type Usage } from "../model/model-output.ts";
import { splitText } from "../model/text.ts";
import {
  eventsReply,
  type Frame,
  frame,
  jsonReply,
  outputFrame,
  type Reply,
  reportUsage,
  usageJson,
} from "../reply.ts";

/** Text, reasoning, and name and arguments of each call. */
const LANES_PER_CHOICE = 2 + 2 * CALLS_MAX;
const NO_CHOICE: Choice = { reasoning: "", text: "", calls: [], cut: false, topLogprobs: null };

export function chatCompletion(call: Call): Reply {
  const { fields, fault } = call;
  if (!fields.has("messages")) return missing("messages");
  const response = planOutput(call, "messages", 0);
  if ("kind" in response) return response;
  const choices = fault?.name === "empty" ? [NO_CHOICE] : response.choices;
  const reportedUsage = reportUsage(response.usage, fault);
  if (isTrue(fields, "stream")) {
    return eventsReply(chunks(call, choices, reportedUsage), response.usage);
  }
  if (fault?.name === "failed") return { kind: "rejection", status: 500, body: FAILED, headers: {} };
  return jsonReply(completion(call, choices, reportedUsage), response.usage);
}

function completion(call: Call, choices: readonly Choice[], reportedUsage: Usage | null): string {
  const items = choices.map((choice, index) => {
    const reasoning =
      choice.reasoning === "" ? "" : `,"reasoning_content":${JSON.stringify(choice.reasoning)}`;
    const content = choice.calls.length > 0 && choice.text === "" ? "null" : JSON.stringify(choice.text);
    const list = choice.calls.map((tool) => formatToolCall(call, tool)).join(",");
    const calls = list === "" ? "" : `,"tool_calls":[${list}]`;
    return `{"index":${index},"message":{"role":"assistant","content":${content},"refusal":null${reasoning}${calls},"annotations":[]},"logprobs":${formatLogprobs(call, choice)},"finish_reason":"${finishReason(call, choice)}"}`;
  });
  const usage = reportedUsage === null ? "" : `,"usage":${chatUsage(reportedUsage)}`;
  return `{"id":"${call.newId("chatcmpl-")}","object":"chat.completion","created":${call.createdAt},"model":${JSON.stringify(call.behaviour.responseModel)},"choices":[${items.join(",")}]${usage},"service_tier":"default","system_fingerprint":"fp_simulator"}`;
}

/** The same tokens as in a stream, where each piece has its own log probabilities. */
function formatLogprobs({ behaviour }: Call, { text, topLogprobs }: Choice): string {
  if (topLogprobs === null) return "null";
  const pieces = [...splitText(text, behaviour.events)];
  const content = pieces.flatMap((piece) => computeLogProbabilities(piece, topLogprobs));
  return JSON.stringify({ content, refusal: null });
}

function formatToolCall(call: Call, tool: ToolCall): string {
  return `{"id":"${call.newId("call_")}","type":"function","function":{"name":${JSON.stringify(tool.name)},"arguments":${JSON.stringify(tool.arguments)}}}`;
}

function finishReason(call: Call, choice: Choice): string {
  if (call.fault?.name === "filtered") return "content_filter";
  if (choice.cut || call.fault?.name === "incomplete") return "length";
  return choice.calls.length === 0 ? "stop" : "tool_calls";
}

function chatUsage(usage: Usage): string {
  return usageJson(
    `{"prompt_tokens":${usage.input},"completion_tokens":${usage.output},"total_tokens":${usage.input + usage.output},"prompt_tokens_details":{"cached_tokens":${usage.cached},"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":${usage.reasoning},"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`,
  );
}

function* chunks(call: Call, choices: readonly Choice[], reportedUsage: Usage | null): Generator<Frame> {
  const { fault, behaviour } = call;
  const wantsUsage = /"include_usage"\s*:\s*true/.test(echoed(call.fields, "stream_options", ""));
  const head = `{"id":"${call.newId("chatcmpl-")}","object":"chat.completion.chunk","created":${call.createdAt},"model":${JSON.stringify(behaviour.responseModel)},"service_tier":"default","system_fingerprint":"fp_simulator","choices":[`;
  const tail = wantsUsage ? `],"usage":null}` : "]}";
  const chunk: WriteChunk = (index, { delta, finish = null, logprobs = "null" }) =>
    `${head}{"index":${index},"delta":${delta},"logprobs":${logprobs},"finish_reason":${finish === null ? "null" : `"${finish}"`}}${tail}`;
  const output = (index: number, text: string, topLogprobs: number | null): Frame => {
    const logprobs = pieceLogprobs(text, topLogprobs);
    const data = chunk(index, { delta: `{"content":${JSON.stringify(text)}}`, logprobs });
    return outputFrame(null, data, text, index * LANES_PER_CHOICE, true);
  };
  const reasoningChunk = (index: number, text: string): Frame => {
    const data = chunk(index, { delta: `{"reasoning_content":${JSON.stringify(text)}}` });
    return outputFrame(null, data, text, index * LANES_PER_CHOICE + 1, false);
  };

  if (fault?.name === "capacity-in-stream") {
    yield frame(null, OVERLOADED);
    return;
  }
  for (const index of choices.keys()) {
    yield frame(null, chunk(index, { delta: `{"role":"assistant","content":"","refusal":null}` }));
  }
  for (const [index, choice] of choices.entries()) {
    for (const piece of splitText(choice.reasoning, null)) yield reasoningChunk(index, piece);
    for (const piece of splitText(choice.text, behaviour.events)) {
      yield output(index, piece, choice.topLogprobs);
    }
    for (const [at, tool] of choice.calls.entries()) yield* toolCallChunks(call, { index, at }, tool, chunk);
  }
  for (const [index, choice] of choices.entries()) {
    yield frame(null, chunk(index, { delta: "{}", finish: finishReason(call, choice) }));
  }
  if (wantsUsage && reportedUsage !== null)
    yield frame(null, `${head}],"usage":${chatUsage(reportedUsage)}}`);
  if (fault?.name === "failed") {
    yield frame(null, FAILED);
    return;
  }
  if (fault?.name !== "no-done") yield frame(null, "[DONE]");
}

/** The fields of one choice of a chunk: `delta` and `logprobs` are JSON. */
interface ChunkFields {
  delta: string;
  finish?: string;
  logprobs?: string;
}

type WriteChunk = (index: number, fields: ChunkFields) => string;

function pieceLogprobs(piece: string, topLogprobs: number | null): string {
  if (topLogprobs === null) return "null";
  return JSON.stringify({ content: computeLogProbabilities(piece, topLogprobs), refusal: null });
}

const OVERLOADED = errorBody({
  message: "The engine is currently overloaded, please try again later.",
  type: "server_error",
  code: "server_is_overloaded",
});

const FAILED = errorBody({
  message: "The server had an error while processing your request. Sorry about that!",
  type: "server_error",
  code: "server_error",
});

function* toolCallChunks(
  call: Call,
  { index, at }: { readonly index: number; readonly at: number },
  tool: ToolCall,
  chunk: WriteChunk,
): Generator<Frame> {
  const name = JSON.stringify(tool.name);
  const opening = `{"tool_calls":[{"index":${at},"id":"${call.newId("call_")}","type":"function","function":{"name":${name},"arguments":""}}]}`;
  const lane = index * LANES_PER_CHOICE + 2 + 2 * at;
  yield outputFrame(null, chunk(index, { delta: opening }), tool.name, lane, false);
  for (const piece of splitText(tool.arguments, null)) {
    const delta = `{"tool_calls":[{"index":${at},"function":{"arguments":${JSON.stringify(piece)}}}]}`;
    yield outputFrame(null, chunk(index, { delta }), piece, lane + 1, false);
  }
}
