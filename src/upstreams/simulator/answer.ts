import { conversationIn, toolToCall } from "./conversation.ts";
import { intField, isRecord, type JsonFields, parseJson, stringField } from "./json-fields.ts";
import type { Behaviour } from "./model-name.ts";
import { sampleOf } from "./sample.ts";
import { answerAfterTool, answerTo, longEnough, reasoningAbout, sized } from "./text.ts";
import type { TokenRule } from "./tokens.ts";

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

/** Null when the prompt is not JSON. */
export function planAnswer(
  fields: JsonFields,
  promptField: "messages" | "input",
  behaviour: Behaviour,
  seed: number,
  cache: PromptCache,
  earlierTokens: number,
  tokens: TokenRule,
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
      return limited({ reasoning, text, call: null, cut: false }, outputTokensMax, tokens);
    }
    let text = toolOutput === null ? answerTo(question, seed, variant) : answerAfterTool(toolOutput);
    if (behaviour.bytes !== null) text = sized(text, behaviour.bytes);
    else if (behaviour.events !== null) text = longEnough(text, behaviour.events);
    return limited({ reasoning, text, call: null, cut: false }, outputTokensMax, tokens);
  };

  const first = choiceFor(0);
  const rest: Choice[] = [];
  const wanted = Math.min(intField(fields, "n") ?? 1, CHOICES_MAX);
  for (let variant = 1; variant < wanted; variant++) rest.push(choiceFor(variant));

  const input = tokens.ofPrompt(fields) + earlierTokens;
  const cacheKey = stringField(fields, "prompt_cache_key");
  const isCached = cacheKey !== null && cache.seen(behaviour.model, cacheKey);
  const said: string[] = [];
  const reasoned: string[] = [];
  for (const choice of [first, ...rest]) {
    if (choice.reasoning !== "") reasoned.push(choice.reasoning);
    if (choice.text !== "") said.push(choice.text);
    if (choice.call !== null) said.push(choice.call.name, choice.call.arguments);
  }
  const usage: Usage = {
    input,
    cached: isCached ? Math.max(1, Math.floor(input * 0.75)) : 0,
    output: tokens.ofTexts([...reasoned, ...said]),
    reasoning: tokens.ofTexts(reasoned),
  };
  return { choices: [first, ...rest], usage };
}

function limited(choice: Choice, outputTokensMax: number | null, tokens: TokenRule): Choice {
  if (outputTokensMax === null) return choice;
  const reasoning = tokens.cut(choice.reasoning, outputTokensMax);
  const text = tokens.cut(choice.text, outputTokensMax - tokens.ofTexts([reasoning]));
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
