import { type Choice, planAnswer, type ToolCall, type Usage } from "./answer.ts";
import type { Call } from "./endpoint.ts";
import { errorBody, missing } from "./errors.ts";
import { echoed, isTrue } from "./json-fields.ts";
import {
  eventsReply,
  type Frame,
  frame,
  jsonReply,
  type Reply,
  saying,
  toldUsage,
  usageJson,
} from "./reply.ts";
import { piecesOf } from "./text.ts";

/** Text, reasoning, a tool's name and its arguments. */
const LANES_PER_CHOICE = 4;
const NO_CHOICE: Choice = { reasoning: "", text: "", call: null, cut: false };

export function chatCompletion(call: Call): Reply {
  const { fields, fault } = call;
  if (!fields.has("messages")) return missing("messages");
  const answer = planAnswer(call, "messages", 0);
  if ("kind" in answer) return answer;
  const choices = fault?.name === "empty" ? [NO_CHOICE] : answer.choices;
  const told = toldUsage(answer.usage, fault);
  if (isTrue(fields, "stream")) {
    return eventsReply(chunks(call, choices, told), answer.usage);
  }
  if (fault?.name === "failed") return { kind: "refusal", status: 500, body: FAILED, headers: {} };
  return jsonReply(completion(call, choices, told), answer.usage);
}

function completion(call: Call, choices: readonly Choice[], told: Usage | null): string {
  const list = choices.map((choice, index) => {
    const reasoning =
      choice.reasoning === "" ? "" : `,"reasoning_content":${JSON.stringify(choice.reasoning)}`;
    const content = choice.call === null ? JSON.stringify(choice.text) : "null";
    const calls = choice.call === null ? "" : `,"tool_calls":[${toolCallOf(call, choice.call)}]`;
    return `{"index":${index},"message":{"role":"assistant","content":${content},"refusal":null${reasoning}${calls},"annotations":[]},"logprobs":null,"finish_reason":"${finishReason(call, choice)}"}`;
  });
  const usage = told === null ? "" : `,"usage":${chatUsage(told)}`;
  return `{"id":"${call.newId("chatcmpl-")}","object":"chat.completion","created":${call.createdAt},"model":${JSON.stringify(call.behaviour.responseModel)},"choices":[${list.join(",")}]${usage},"service_tier":"default","system_fingerprint":"fp_simulator"}`;
}

function toolCallOf(call: Call, tool: ToolCall): string {
  return `{"id":"${call.newId("call_")}","type":"function","function":{"name":${JSON.stringify(tool.name)},"arguments":${JSON.stringify(tool.arguments)}}}`;
}

function finishReason(call: Call, choice: Choice): string {
  if (choice.cut || call.fault?.name === "incomplete") return "length";
  return choice.call === null ? "stop" : "tool_calls";
}

function chatUsage(usage: Usage): string {
  return usageJson(
    `{"prompt_tokens":${usage.input},"completion_tokens":${usage.output},"total_tokens":${usage.input + usage.output},"prompt_tokens_details":{"cached_tokens":${usage.cached},"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":${usage.reasoning},"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`,
  );
}

function* chunks(call: Call, choices: readonly Choice[], told: Usage | null): Generator<Frame> {
  const { fault, behaviour } = call;
  const wantsUsage = /"include_usage"\s*:\s*true/.test(echoed(call.fields, "stream_options", ""));
  const head = `{"id":"${call.newId("chatcmpl-")}","object":"chat.completion.chunk","created":${call.createdAt},"model":${JSON.stringify(behaviour.responseModel)},"service_tier":"default","system_fingerprint":"fp_simulator","choices":[`;
  const tail = wantsUsage ? `],"usage":null}` : "]}";
  const chunk = (index: number, delta: string, finish: string | null): string =>
    `${head}{"index":${index},"delta":${delta},"logprobs":null,"finish_reason":${finish === null ? "null" : `"${finish}"`}}${tail}`;
  const output = (index: number, key: string, text: string): Frame => {
    const isText = key === "content";
    const data = chunk(index, `{"${key}":${JSON.stringify(text)}}`, null);
    return saying(null, data, text, index * LANES_PER_CHOICE + (isText ? 0 : 1), isText);
  };

  if (fault?.name === "capacity-in-stream") {
    yield frame(null, OVERLOADED);
    return;
  }
  for (const index of choices.keys()) {
    yield frame(null, chunk(index, `{"role":"assistant","content":"","refusal":null}`, null));
  }
  for (const [index, choice] of choices.entries()) {
    for (const piece of piecesOf(choice.reasoning, null)) yield output(index, "reasoning_content", piece);
    for (const piece of piecesOf(choice.text, behaviour.events)) yield output(index, "content", piece);
    if (choice.call !== null) yield* toolCallChunks(call, index, choice.call, chunk);
  }
  for (const [index, choice] of choices.entries()) {
    yield frame(null, chunk(index, "{}", finishReason(call, choice)));
  }
  if (wantsUsage && told !== null) yield frame(null, `${head}],"usage":${chatUsage(told)}}`);
  if (fault?.name === "failed") {
    yield frame(null, FAILED);
    return;
  }
  if (fault?.name !== "no-done") yield frame(null, "[DONE]");
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
  index: number,
  tool: ToolCall,
  chunk: (index: number, delta: string, finish: string | null) => string,
): Generator<Frame> {
  const name = JSON.stringify(tool.name);
  const opening = `{"tool_calls":[{"index":0,"id":"${call.newId("call_")}","type":"function","function":{"name":${name},"arguments":""}}]}`;
  const lane = index * LANES_PER_CHOICE + 2;
  yield saying(null, chunk(index, opening, null), tool.name, lane, false);
  for (const piece of piecesOf(tool.arguments, null)) {
    const delta = `{"tool_calls":[{"index":0,"function":{"arguments":${JSON.stringify(piece)}}}]}`;
    yield saying(null, chunk(index, delta, null), piece, lane + 1, false);
  }
}
