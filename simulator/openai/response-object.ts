/** The response object of the Responses interface. */

import type { Call } from "../endpoint.ts";
import { echoed, isTrue, type JsonFields } from "../json-fields.ts";
import { computeLogProbabilities } from "../model/log-probabilities.ts";
import type { Choice, Usage } from "../model/model-output.ts";
import { splitText } from "../model/text.ts";
import { reportUsage, usageJson } from "../reply.ts";
import { echoReasoning, echoText, echoToolChoice, echoTools } from "./echoed-options.ts";

export type ResponseStatus = "queued" | "in_progress" | "completed" | "incomplete" | "failed" | "cancelled";

/** Everything needed to write the response object, complete or in progress, now or when it is retrieved. */
export interface PlannedResponse {
  id: string;
  createdAt: number;
  /** Everything between `metadata` and `truncation`, which does not change while the response grows. */
  constantPart: string;
  background: boolean;
  items: readonly OutputItem[];
  end: "completed" | "incomplete" | "failed";
  /** Why it is incomplete: the content filter, or the output limit. */
  isFiltered: boolean;
  usage: Usage;
  reportedUsage: Usage | null;
  input: string;
}

export type OutputItem =
  | { kind: "reasoning"; id: string; text: string; encrypted: string | null }
  | {
      kind: "message";
      id: string;
      text: string;
      cut: boolean;
      /** Number of deltas, and of alternatives per token: log probabilities are those of the deltas. */
      events: number | null;
      topLogprobs: number | null;
    }
  | { kind: "search"; id: string }
  | { kind: "call"; id: string; callId: string; name: string; arguments: string };

export function planResponse(call: Call, choice: Choice, usage: Usage): PlannedResponse {
  const { fields, fault } = call;
  const isFiltered = fault?.name === "filtered";
  const cut = choice.cut || isFiltered || fault?.name === "incomplete";
  return {
    id: call.newId("resp_"),
    createdAt: call.createdAt,
    constantPart: constantPart(fields, call.behaviour.responseModel),
    background: isTrue(fields, "background"),
    items: fault?.name === "empty" ? [] : planItems(call, choice, cut),
    end: fault?.name === "failed" ? "failed" : cut ? "incomplete" : "completed",
    isFiltered,
    usage,
    reportedUsage: reportUsage(usage, fault),
    input: fields.get("input") ?? "[]",
  };
}

function planItems(call: Call, choice: Choice, cut: boolean): OutputItem[] {
  const items: OutputItem[] = [];
  if (choice.reasoning !== "") {
    const isWanted = echoed(call.fields, "include", "").includes("reasoning.encrypted_content");
    const encrypted = isWanted ? sealText(call.seed, choice.reasoning) : null;
    items.push({ kind: "reasoning", id: call.newId("rs_"), text: choice.reasoning, encrypted });
  }
  if (echoed(call.fields, "tools", "").includes('"web_search"')) {
    for (let i = 0; i < (call.behaviour.searches ?? 0); i++)
      items.push({ kind: "search", id: call.newId("ws_") });
  }
  if (choice.calls.length === 0 || choice.text !== "") {
    const { text, topLogprobs } = choice;
    const { events } = call.behaviour;
    items.push({ kind: "message", id: call.newId("msg_"), text, cut, events, topLogprobs });
  }
  for (const tool of choice.calls)
    items.push({ kind: "call", id: call.newId("fc_"), callId: call.newId("call_"), ...tool });
  return items;
}

function constantPart(fields: JsonFields, responseModel: string): string {
  return `"instructions":${echoed(fields, "instructions", "null")},"max_output_tokens":${echoed(fields, "max_output_tokens", "null")},"max_tool_calls":${echoed(fields, "max_tool_calls", "null")},"metadata":${echoed(fields, "metadata", "{}")},"model":${JSON.stringify(responseModel)},"parallel_tool_calls":${echoed(fields, "parallel_tool_calls", "true")},"presence_penalty":${echoed(fields, "presence_penalty", "0")},"frequency_penalty":${echoed(fields, "frequency_penalty", "0")},"previous_response_id":${echoed(fields, "previous_response_id", "null")},"prompt_cache_key":${echoed(fields, "prompt_cache_key", "null")},"reasoning":${echoReasoning(fields)},"safety_identifier":${echoed(fields, "safety_identifier", "null")},"service_tier":"default","store":${echoed(fields, "store", "true")},"temperature":${echoed(fields, "temperature", "1")},"text":${echoText(fields)},"tool_choice":${echoToolChoice(fields)},"tools":${echoTools(fields)},"top_logprobs":${echoed(fields, "top_logprobs", "0")},"top_p":${echoed(fields, "top_p", "1")},"truncation":${echoed(fields, "truncation", '"disabled"')},"user":${echoed(fields, "user", "null")}`;
}

export function responseObject(planned: PlannedResponse, status: ResponseStatus): string {
  const ended = status === "completed" || status === "incomplete" || status === "failed";
  const output = ended ? planned.items.map((item) => itemObject(item, true)).join(",") : "";
  const usage = ended && planned.reportedUsage !== null ? responsesUsage(planned.reportedUsage) : "null";
  const error =
    status === "failed"
      ? '{"code":"server_error","message":"The server had an error while processing your request. Sorry about that!"}'
      : "null";
  return writeObject(planned, status, output, usage, error);
}

/** A response that failed before any output. */
export function failedResponse(planned: PlannedResponse, code: string, message: string): string {
  return writeObject(planned, "failed", "", "null", JSON.stringify({ code, message }));
}

function writeObject(
  planned: PlannedResponse,
  status: ResponseStatus,
  output: string,
  usage: string,
  error: string,
): string {
  const completedAt = status === "completed" ? planned.createdAt : "null";
  const reason = planned.isFiltered ? "content_filter" : "max_output_tokens";
  const incomplete = status === "incomplete" ? `{"reason":"${reason}"}` : "null";
  return `{"id":"${planned.id}","object":"response","created_at":${planned.createdAt},"status":"${status}","background":${planned.background},"completed_at":${completedAt},"error":${error},"incomplete_details":${incomplete},${planned.constantPart},"output":[${output}],"usage":${usage}}`;
}

export function itemObject(item: OutputItem, done: boolean): string {
  switch (item.kind) {
    case "reasoning": {
      const summary = done ? `{"type":"summary_text","text":${JSON.stringify(item.text)}}` : "";
      const sealed = item.encrypted === null ? "" : `,"encrypted_content":"${item.encrypted}"`;
      return `{"id":"${item.id}","type":"reasoning","summary":[${summary}],"status":"${done ? "completed" : "in_progress"}"${done ? sealed : ""}}`;
    }
    case "message": {
      const status = done ? (item.cut ? "incomplete" : "completed") : "in_progress";
      const part = done ? textPart(item.text, messageLogprobs(item)) : "";
      return `{"id":"${item.id}","type":"message","status":"${status}","content":[${part}],"role":"assistant"}`;
    }
    case "search":
      return `{"id":"${item.id}","type":"web_search_call","status":"${done ? "completed" : "in_progress"}","action":{"type":"search","query":"simulator"}}`;
    case "call": {
      const callArguments = done ? JSON.stringify(item.arguments) : '""';
      return `{"id":"${item.id}","type":"function_call","status":"${done ? "completed" : "in_progress"}","arguments":${callArguments},"call_id":"${item.callId}","name":${JSON.stringify(item.name)}}`;
    }
  }
}

export function textPart(text: string, logprobs: string): string {
  return `{"type":"output_text","annotations":[],"logprobs":${logprobs},"text":${JSON.stringify(text)}}`;
}

type MessageItem = Extract<OutputItem, { kind: "message" }>;

/** Log probabilities of the whole text as JSON: those of its deltas in order. */
export function messageLogprobs({ text, events, topLogprobs }: MessageItem): string {
  if (topLogprobs === null) return "[]";
  const pieces = [...splitText(text, events)];
  return JSON.stringify(pieces.flatMap((piece) => computeLogProbabilities(piece, topLogprobs)));
}

/** Bound to the seed, as encrypted content is to an organization. */
export function sealText(seed: number, text: string): string {
  return `${sealPrefix(seed)}${Buffer.from(text).toString("base64url")}`;
}

export function isSealedHere(seed: number, content: unknown): boolean {
  return typeof content === "string" && content.startsWith(sealPrefix(seed));
}

function sealPrefix(seed: number): string {
  return `sim.${seed}.`;
}

export function responsesUsage(usage: Usage): string {
  return usageJson(
    `{"input_tokens":${usage.input},"input_tokens_details":{"cached_tokens":${usage.cached},"cache_write_tokens":0},"output_tokens":${usage.output},"output_tokens_details":{"reasoning_tokens":${usage.reasoning}},"total_tokens":${usage.input + usage.output}}`,
  );
}
