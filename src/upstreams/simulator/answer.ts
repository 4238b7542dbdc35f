import { conversationIn, toolToCall } from "./conversation.ts";
import { intField, isRecord, type JsonFields, parseJson, stringField } from "./json-fields.ts";
import type { Behaviour } from "./model-name.ts";
import { sampleOf } from "./sample.ts";
import {
  answerAfterTool,
  answerTo,
  cutToBytes,
  longEnough,
  reasoningAbout,
  sized,
  tokensOfBytes,
} from "./text.ts";

export interface Usage {
  input: number;
  cached: number;
  output: number;
  reasoning: number;
}

export interface ToolCall {
  name: string;
  arguments: string;
}

/** One thing said, before it takes the shape of an interface. */
export interface Choice {
  reasoning: string;
  text: string;
  call: ToolCall | null;
  /** The token limit came first. */
  cut: boolean;
}

export interface Answer {
  choices: readonly [Choice, ...Choice[]];
  usage: Usage;
}

/** Prompt-cache keys seen before, so that the second call of a session finds its prompt cached. */
export interface PromptCache {
  seen(model: string, key: string): boolean;
}

const CACHE_KEYS_MAX = 10_000;
const CHOICES_MAX = 8;

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

/** What stands in the prompt, in the fields of either interface. */
const PROMPT_FIELDS = ["messages", "input", "instructions", "tools", "functions"] as const;

export function inputTokensOf(fields: JsonFields): number {
  let chars = 0;
  for (const name of PROMPT_FIELDS) {
    const slice = fields.get(name);
    if (slice !== undefined && slice !== "null") chars += slice.length;
  }
  return tokensOfBytes(chars);
}

/** Null when the prompt is not JSON. */
export function planAnswer(
  fields: JsonFields,
  promptField: "messages" | "input",
  behaviour: Behaviour,
  seed: number,
  cache: PromptCache,
  earlierTokens: number,
): Answer | null {
  const callsTools = behaviour.callsTools && fields.has("tools");
  const conversation = conversationIn(fields.get(promptField), callsTools);
  if (conversation === null) return null;
  const { question, toolOutput } = conversation;

  const tool = callsTools && toolOutput === null ? toolToCall(fields) : null;
  const call =
    tool === null
      ? null
      : { name: tool.name, arguments: JSON.stringify(sampleOf(tool.parameters ?? {}, "", question)) };
  const schema = call === null ? structuredSchema(fields) : undefined;
  const outputTokensMax =
    intField(fields, "max_output_tokens") ??
    intField(fields, "max_completion_tokens") ??
    intField(fields, "max_tokens");

  const choiceFor = (variant: number): Choice => {
    const reasoning = behaviour.reasons ? reasoningAbout(question) : "";
    if (call !== null) return { reasoning, text: "", call, cut: false };
    if (schema !== undefined) {
      const text = JSON.stringify(sampleOf(schema, "", question));
      return limited({ reasoning, text, call: null, cut: false }, outputTokensMax);
    }
    let text = toolOutput === null ? answerTo(question, seed, variant) : answerAfterTool(toolOutput);
    if (behaviour.bytes !== null) text = sized(text, behaviour.bytes);
    else if (behaviour.events !== null) text = longEnough(text, behaviour.events);
    return limited({ reasoning, text, call: null, cut: false }, outputTokensMax);
  };

  const first = choiceFor(0);
  const rest: Choice[] = [];
  const wanted = Math.min(intField(fields, "n") ?? 1, CHOICES_MAX);
  for (let variant = 1; variant < wanted; variant++) rest.push(choiceFor(variant));

  const input = inputTokensOf(fields) + earlierTokens;
  const cacheKey = stringField(fields, "prompt_cache_key");
  const isCached = cacheKey !== null && cache.seen(behaviour.model, cacheKey);
  let outputBytes = 0;
  let reasoningBytes = 0;
  for (const choice of [first, ...rest]) {
    if (choice.reasoning !== "") reasoningBytes += Buffer.byteLength(choice.reasoning);
    outputBytes += Buffer.byteLength(choice.text);
    if (choice.call !== null) outputBytes += Buffer.byteLength(choice.call.name + choice.call.arguments);
  }
  const usage: Usage = {
    input,
    cached: isCached ? Math.max(1, Math.floor(input * 0.75)) : 0,
    // Rounded once over all of it, so that counting the events of a stream comes to the same figure.
    output: tokensOfBytes(outputBytes + reasoningBytes),
    reasoning: tokensOfBytes(reasoningBytes),
  };
  return { choices: [first, ...rest], usage };
}

function limited(choice: Choice, outputTokensMax: number | null): Choice {
  if (outputTokensMax === null) return choice;
  const reasoning = cutToBytes(choice.reasoning, outputTokensMax * 4);
  const left = outputTokensMax - tokensOfBytes(Buffer.byteLength(reasoning));
  const text = cutToBytes(choice.text, left * 4);
  const cut = reasoning.length < choice.reasoning.length || text.length < choice.text.length;
  return { ...choice, reasoning, text, cut };
}

/** The schema of a structured answer; undefined when plain text was asked for. */
function structuredSchema(fields: JsonFields): unknown {
  const slice = fields.get("response_format") ?? fields.get("text");
  if (slice === undefined || !slice.includes("json_")) return undefined;
  const value = parseJson(slice);
  if (!isRecord(value)) return undefined;
  const format = isRecord(value.format) ? value.format : value;
  if (format.type === "json_object") return { type: "object", properties: { answer: { type: "string" } } };
  if (format.type !== "json_schema") return undefined;
  return isRecord(format.json_schema) ? format.json_schema.schema : format.schema;
}
