/** Plans the response of a simulated model: its choices, tool calls and usage. */

import { invalid, notJson, type Rejection, unknownParameter } from "../errors.ts";
import { echoed, intField, isRecord, type JsonFields, parseJson, stringField } from "../json-fields.ts";
import { type Conversation, readConversation } from "./conversation.ts";
import { hiddenTokens, withHidden } from "./hidden-reasoning.ts";
import { readLogProbabilities } from "./log-probabilities.ts";
import type { Behaviour } from "./model-name.ts";
import { readRequestedCalls } from "./requested-call.ts";
import { buildSample } from "./sample.ts";
import { cutAtStop, readStopSequences } from "./stop-sequences.ts";
import { longEnough, outputAfterTool, reasoningAbout, respondTo, sized } from "./text.ts";
import type { TokenRule } from "./tokens.ts";
import { planToolCall, type ToolPlan } from "./tool-choice.ts";

export interface Usage {
  input: number;
  cached: number;
  output: number;
  reasoning: number;
  /** The part of the reasoning that no event shows. It is produced before the first event. */
  hidden?: number;
}

export interface ToolCall {
  name: string;
  arguments: string;
}

/** One choice, before it takes the shape of an interface. */
export interface Choice {
  reasoning: string;
  text: string;
  /** Several for a model that calls tools in parallel. A text may stand before them. */
  calls: readonly ToolCall[];
  /** The text was cut at the token limit. */
  cut: boolean;
  /** Number of alternatives per token of the text; null without log probabilities. */
  topLogprobs: number | null;
}

export interface ModelOutput {
  choices: readonly [Choice, ...Choice[]];
  usage: Usage;
}

/** Remembers prompt-cache keys, so that the second call of a session has a cached prompt. */
export interface PromptCache {
  seen(model: string, key: string): boolean;
}

const CACHE_KEYS_MAX = 10_000;
const CHOICES_MAX = 8;
export const CALLS_MAX = 8;
/** The text that a model with `text` in its name produces before it calls a tool. */
const BEFORE_CALLS = "I will look that up.";

export function createPromptCache(): PromptCache {
  const keys = new Set<string>();
  return {
    seen(model, key) {
      const id = `${model}\n${key}`;
      if (keys.has(id)) return true;
      if (keys.size >= CACHE_KEYS_MAX) keys.clear();
      keys.add(id);
      return false;
    },
  };
}

/** The parts of a call that its response depends on. */
interface OutputInput {
  fields: JsonFields;
  behaviour: Behaviour;
  seed: number;
  promptCache: PromptCache;
  tokens: TokenRule;
}

/** `earlierTokens` is the length of the continued conversation. */
export function planOutput(
  call: OutputInput,
  promptField: "messages" | "input",
  earlierTokens: number,
): ModelOutput | Rejection {
  const { fields, behaviour, tokens } = call;
  const options = readOptions(call, promptField);
  if ("kind" in options) return options;
  const { toolPlan, outputTokensMax, stops, topLogprobs } = options;
  const conversation = readConversation(fields.get(promptField), toolPlan.tool !== null);
  if (conversation === null) return notJson();
  const choiceFor = choices(call, conversation, toolPlan);
  const limitedChoice = (variant: number) => {
    const choice = choiceFor(variant);
    if (choice.calls.length > 0) return choice;
    const text = stops.length === 0 ? choice.text : cutAtStop(choice.text, stops);
    const shownTokensMax = outputTokensMax && Math.max(0, outputTokensMax - behaviour.hiddenTokens);
    return applyLimit({ ...choice, text, topLogprobs }, shownTokensMax, tokens);
  };
  const first = limitedChoice(0);
  const rest: Choice[] = [];
  const choiceCount = Math.min(intField(fields, "n") ?? 1, CHOICES_MAX);
  for (let variant = 1; variant < choiceCount; variant++) rest.push(limitedChoice(variant));
  const input = tokens.ofPrompt(fields) + earlierTokens + fileTokens(fields.get(promptField), behaviour);
  const shown = computeUsage(call, input, [first, ...rest]);
  const hidden = hiddenTokens(behaviour, outputTokensMax, 1 + rest.length);
  return { choices: [first, ...rest], usage: withHidden(shown, hidden) };
}

interface OutputOptions {
  toolPlan: ToolPlan;
  outputTokensMax: number | null;
  stops: readonly string[];
  topLogprobs: number | null;
}

/** Options that cannot be honoured are rejected, not ignored. */
function readOptions(
  { fields, behaviour }: OutputInput,
  promptField: "messages" | "input",
): OutputOptions | Rejection {
  const isChat = promptField === "messages";
  const outputTokensMax = outputBound(fields);
  if (outputTokensMax !== null && typeof outputTokensMax !== "number") return outputTokensMax;
  if (!isChat && fields.has("stop")) return unknownParameter("stop");
  const stops = isChat ? readStopSequences(fields) : [];
  if ("kind" in stops) return stops;
  const topLogprobs = readLogProbabilities(fields, isChat ? "chat" : "responses");
  if (topLogprobs !== null && typeof topLogprobs !== "number") return topLogprobs;
  if (topLogprobs !== null && (behaviour.bytes ?? 0) > LOGPROBS_BYTES_MAX) {
    return invalid("logprobs", `Answers above ${LOGPROBS_BYTES_MAX} bytes have no log probabilities.`);
  }
  // The default for a model that calls no tools by itself: its tools need not be parsed.
  const ignoresTools = !behaviour.callsTools && echoed(fields, "tool_choice", AUTO) === AUTO;
  const planned = ignoresTools ? NO_TOOL : planToolCall(fields);
  if ("kind" in planned) return planned;
  const toolPlan = planned.isForced || behaviour.callsTools ? planned : NO_TOOL;
  return { toolPlan, outputTokensMax, stops, topLogprobs };
}

const AUTO = '"auto"';
const NO_TOOL: ToolPlan = { tool: null, isForced: false, offered: [] };
const LOGPROBS_BYTES_MAX = 256 * 1024;

const PLAIN = { calls: [], cut: false, topLogprobs: null };

const FILE_PART = /"type"\s*:\s*"(?:input_file|file)"/g;

/** The tokens for reading the files of a prompt, which no caller can count beforehand. */
function fileTokens(prompt: string | undefined, behaviour: Behaviour): number {
  if (behaviour.fileTokens === 0 || prompt === undefined) return 0;
  return (prompt.match(FILE_PART)?.length ?? 0) * behaviour.fileTokens;
}

/** The content of each choice, before any length limit. */
function choices(
  { fields, behaviour, seed }: OutputInput,
  { question, toolOutput, toolOutputs }: Conversation,
  toolPlan: ToolPlan,
): (variant: number) => Choice {
  const reasoning = behaviour.reasons ? reasoningAbout(question) : "";
  const wanted =
    behaviour.model.includes("parallel") && fields.get("parallel_tool_calls") !== "false" ? 2 : 1;
  const isCalling = toolPlan.isForced || toolOutputs < behaviour.steps * wanted;
  const calls = isCalling ? planCalls(toolPlan, question, wanted) : [];
  if (calls.length > 0) {
    const text = behaviour.model.includes("text") ? BEFORE_CALLS : "";
    return () => ({ ...PLAIN, reasoning, text, calls });
  }
  const schema = structuredSchema(fields);
  return (variant) => {
    if (schema !== undefined) {
      return { ...PLAIN, reasoning, text: JSON.stringify(buildSample(schema, "", question)) };
    }
    let text = toolOutput === null ? respondTo(question, seed, variant) : outputAfterTool(toolOutput);
    if (behaviour.bytes !== null) text = sized(text, behaviour.bytes);
    else if (behaviour.events !== null) text = longEnough(text, behaviour.events);
    return { ...PLAIN, reasoning, text };
  };
}

/** The calls that the prompt contains, else the first tools with sample arguments. */
function planCalls({ tool, isForced, offered }: ToolPlan, question: string, wanted: number): ToolCall[] {
  if (tool === null) return [];
  const requested = readRequestedCalls(question).filter(({ name }) =>
    offered.some((one) => one.name === name),
  );
  if (!isForced && requested.length > 0)
    return requested.slice(0, CALLS_MAX).map(({ name, input }) => ({ name, arguments: input }));
  const chosen = isForced ? [tool] : [tool, ...offered.filter((one) => one !== tool)].slice(0, wanted);
  return chosen.map(({ name, parameters }) => {
    // An empty schema allows any value, but arguments must be an object.
    const isDescribed = isRecord(parameters) && Object.keys(parameters).length > 0;
    return { name, arguments: isDescribed ? JSON.stringify(buildSample(parameters, "", question)) : "{}" };
  });
}

function computeUsage(
  { fields, behaviour, promptCache, tokens }: OutputInput,
  input: number,
  all: Choice[],
): Usage {
  const cacheKey = stringField(fields, "prompt_cache_key");
  const isCached = cacheKey !== null && promptCache.seen(behaviour.model, cacheKey);
  const outputTexts: string[] = [];
  const reasoningTexts: string[] = [];
  for (const choice of all) {
    if (choice.reasoning !== "") reasoningTexts.push(choice.reasoning);
    if (choice.text !== "") outputTexts.push(choice.text);
    for (const call of choice.calls) outputTexts.push(call.name, call.arguments);
  }
  return {
    input,
    cached: isCached ? Math.max(1, Math.floor(input * 0.75)) : 0,
    output: tokens.ofTexts([...reasoningTexts, ...outputTexts]),
    reasoning: tokens.ofTexts(reasoningTexts),
  };
}

const BOUNDS = ["max_output_tokens", "max_completion_tokens", "max_tokens"] as const;
/** Local servers and their clients use this value for "no limit". */
const NO_BOUND = -1;

/** Returns null when the request has no limit. */
function outputBound(fields: JsonFields): number | Rejection | null {
  for (const name of BOUNDS) {
    const bound = intField(fields, name);
    if (bound === null) continue;
    if (bound === NO_BOUND) return null;
    return bound > 0 ? bound : invalid(name, `Invalid '${name}': expected 1 or more, but got ${bound}.`);
  }
  return null;
}

function applyLimit(choice: Choice, outputTokensMax: number | null, tokens: TokenRule): Choice {
  if (outputTokensMax === null) return choice;
  const reasoning = tokens.cut(choice.reasoning, outputTokensMax);
  const text = tokens.cut(choice.text, outputTokensMax - tokens.ofTexts([reasoning]));
  const cut = reasoning.length < choice.reasoning.length || text.length < choice.text.length;
  return { ...choice, reasoning, text, cut };
}

/** The schema of a structured response; undefined for plain text. */
function structuredSchema(fields: JsonFields): unknown {
  const slice = fields.get("response_format") ?? fields.get("text");
  if (slice === undefined || !slice.includes("json_")) return undefined;
  const value = parseJson(slice);
  if (!isRecord(value)) return undefined;
  const format = isRecord(value.format) ? value.format : value;
  if (format.type === "json_object") return { type: "object", properties: { response: { type: "string" } } };
  if (format.type !== "json_schema") return undefined;
  return isRecord(format.json_schema) ? format.json_schema.schema : format.schema;
}
