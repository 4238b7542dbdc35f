/** Reads a Responses request into the form between dialects. */

import type { ReadOptions } from "../hub/dialect-codec.ts";
import type { HubReasoning, HubRequest, HubSettings } from "../hub/hub-request.ts";
import { type Json, readArray, readNumber, readObject, readString } from "../hub/json-values.ts";
import { unsupportedField } from "../hub/unsupported-field.ts";
import { readEffort, readOpenaiFormat, readOpenaiSettings } from "../openai/openai-settings.ts";
import { ResponsesItemReader } from "./responses-item-reader.ts";
import {
  joinTools,
  readResponsesToolChoice,
  readResponsesTools,
  restoreNamespaces,
} from "./responses-tools.ts";

const READ_FIELDS: ReadonlySet<string> = new Set([
  "model",
  "input",
  "instructions",
  "stream",
  "stream_options",
  "store",
  "background",
  "previous_response_id",
  "conversation",
  "prompt",
  "include",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "reasoning",
  "text",
  "max_output_tokens",
  "temperature",
  "top_p",
  "top_logprobs",
  "truncation",
  "service_tier",
  "metadata",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
  "safety_identifier",
  "user",
  // Codex describes itself here. No upstream of another dialect reads it.
  "client_metadata",
]);

export function readResponsesRequest(json: Json, { publicModel, stream }: ReadOptions): HubRequest {
  rejectStoredState(json);
  const reader = new ResponsesItemReader();
  const instructions = readString(json.instructions);
  if (instructions !== null && instructions !== "")
    reader.instructions.push({ kind: "text", text: instructions, cacheHint: null });
  reader.read(json.input);
  const unread = Object.keys(json).filter((name) => !READ_FIELDS.has(name) && json[name] !== null);
  if (json.truncation === "auto") unread.push("truncation");
  unread.push(...findUnknownReasoning(json.reasoning));
  const tools = joinTools(readResponsesTools(json.tools, "tools"), reader.tools);
  return {
    dialect: "responses",
    publicModel,
    stream,
    instructions: reader.instructions,
    items: restoreNamespaces(reader.items, tools),
    tools,
    toolChoice: readResponsesToolChoice(json.tool_choice),
    settings: readSettings(json),
    unread: [...unread, ...reader.unread],
    original: json,
  };
}

/** State that exists at one vendor only, and work that continues without the client. */
function rejectStoredState(json: Json): void {
  if (json.background === true) throw unsupportedField("background", "Send the request without it.");
  if (json.conversation != null)
    throw unsupportedField("conversation", "Send the conversation as input, or use `previous_response_id`.");
  if (json.prompt != null) throw unsupportedField("prompt", "Send the prompt as `instructions` and `input`.");
}

function readSettings(json: Json): HubSettings {
  const text = readObject(json.text);
  const format = readObject(text?.format) ?? {};
  const include = readArray(json.include);
  return {
    ...readOpenaiSettings(json),
    outputTokensMax: readNumber(json.max_output_tokens),
    topK: null,
    stop: null,
    seed: null,
    presencePenalty: null,
    frequencyPenalty: null,
    logprobs: readNumber(json.top_logprobs),
    choices: 1,
    reasoning: readReasoning(readObject(json.reasoning)),
    format: readOpenaiFormat(format.type, format),
    verbosity: readString(text?.verbosity),
    wantsEncryptedReasoning: include.includes("reasoning.encrypted_content"),
  };
}

function readReasoning(reasoning: Json | null): HubReasoning | null {
  if (reasoning === null) return null;
  const effort = readEffort(reasoning.effort);
  const summary = readString(reasoning.summary) ?? readString(reasoning.generate_summary);
  if (effort === null && summary === null) return null;
  return { effort, budgetTokens: null, isShown: summary !== null && summary !== "none" };
}

const REASONING_FIELDS: ReadonlySet<string> = new Set(["effort", "summary", "generate_summary"]);

function findUnknownReasoning(reasoning: unknown): string[] {
  const json = readObject(reasoning) ?? {};
  return Object.keys(json)
    .filter((name) => !REASONING_FIELDS.has(name) && json[name] != null)
    .map((name) => `reasoning.${name}`);
}
