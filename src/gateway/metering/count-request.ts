/** Counts the tokens of a whole request or response, for upstreams that report no usage. */

import { wholeBytesPart } from "../../base/parts.ts";
import { isObject, parseJson } from "../../json/parse.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import { findEventFault, SCANNED_EVENT } from "../../protocols/shared/event-bounds.ts";
import {
  GEMINI_MEDIA_MEMBER_NAMES,
  MEDIA_MEMBER_NAMES,
  MEDIA_TOKENS,
} from "../../protocols/shared/media-members.ts";
import { readWholeResponseTexts } from "../../protocols/shared/response-text.ts";
import { countingTurns } from "./counting-turns.ts";
import type { CountedOutput } from "./output-counter.ts";
import { safeCut } from "./safe-cut.ts";
import { loadTokenizer } from "./tokenizer.ts";

/** The tokens that OpenAI adds to each message (its frame and role) and to the whole. */
const MESSAGE_TOKENS = 4;
const REPLY_TOKENS = 3;
/** Of a response that is too long to be parsed. */
const BYTES_PER_TOKEN = 4;
/** Encrypted reasoning is base64 of what was once text. */
const ENCRYPTED_CHARS_PER_TOKEN = 6;

/** Fields that structure the input and are not read by the model. */
const STRUCTURE_FIELDS: ReadonlySet<string> = new Set([
  "type",
  "role",
  "id",
  "status",
  "call_id",
  "tool_call_id",
  "detail",
  "format",
  "phase",
  "cache_control",
  "thought",
  "thoughtSignature",
  "media_type",
  "signature",
  "tool_use_id",
]);
const MEDIA_FIELDS: ReadonlySet<string> = new Set([...MEDIA_MEMBER_NAMES, ...GEMINI_MEDIA_MEMBER_NAMES]);
/** Fields that the model reads as JSON, or in a form of about that length. */
const SCHEMA_FIELDS = ["tools", "functions", "response_format", "text"] as const;

/** A request can have megabytes, and a megabyte takes some 50 ms, so it is counted in steps. */
const CHARS_PER_STEP = 2 * 1024;

/** The texts to count, and the tokens of parts with a fixed count. */
interface CollectedInput {
  texts: string[];
  tokens: number;
}

/** Counts texts that are independent of each other. */
export async function countTexts(texts: readonly string[]): Promise<number> {
  if (texts.length === 0) return 0;
  const tokenizer = await loadTokenizer();
  let tokens = 0;
  let index = 0;
  let from = 0;
  await countingTurns.run({
    step() {
      for (let chars = 0; chars < CHARS_PER_STEP && index < texts.length; ) {
        const text = texts[index] ?? "";
        const end = from + CHARS_PER_STEP;
        const to = end < text.length ? safeCut(text, from, end) : text.length;
        tokens += tokenizer.count(text.slice(from, to));
        // A text without characters is work too.
        chars += to - from + 1;
        if (to === text.length) index++;
        from = to === text.length ? 0 : to;
      }
      return index === texts.length;
    },
  });
  return tokens;
}

/** The output of a response that is not counted, by its bytes. */
export function estimateResponse(bytes: number): CountedOutput {
  return { outputTokens: Math.ceil(bytes / BYTES_PER_TOKEN), reasoningTokens: 0 };
}

/** The output tokens of a whole response. Images and vectors have none. Blocks while it parses the response. */
export async function countResponse(body: Uint8Array): Promise<CountedOutput> {
  // No model writes so much: the response is counted by its bytes, and charged at most its hold.
  if (findEventFault(wholeBytesPart(body), SCANNED_EVENT) !== null) return estimateResponse(body.length);
  const { outputTexts, reasoningTexts } = readWholeResponseTexts(parseJson(body));
  const reasoningTokens = await countTexts(reasoningTexts);
  return { outputTokens: reasoningTokens + (await countTexts(outputTexts)), reasoningTokens };
}

/** The input of a JSON request, without earlier turns that the upstream stores. Blocks while it parses the body. */
export async function countInputHere(body: Uint8Array, output: Endpoint["output"]): Promise<number> {
  const json = parseJson(body);
  const collected: CollectedInput = { texts: [], tokens: 0 };
  if (isObject(json)) collect(json, output, collected);
  return collected.tokens + (await countTexts(collected.texts));
}

function collect(json: Record<string, unknown>, output: Endpoint["output"], collected: CollectedInput): void {
  switch (output) {
    case "image":
      collectValue(json.prompt, collected);
      if (Array.isArray(json.images)) collected.tokens += json.images.length * MEDIA_TOKENS;
      return;
    case "vector":
      // OpenAI's API, and Google's.
      collectEmbedded(json.input, collected);
      for (const one of Array.isArray(json.requests) ? json.requests : [json]) {
        if (isObject(one)) collectValue(one.content, collected);
      }
      return;
    default:
      collectConversation(json, collected);
  }
}

function collectConversation(json: Record<string, unknown>, collected: CollectedInput): void {
  collected.tokens += REPLY_TOKENS;
  const system = json.system ?? json.systemInstruction ?? json.system_instruction;
  for (const turns of [system, json.messages, json.input, json.instructions, json.contents]) {
    for (const turn of Array.isArray(turns) ? turns : isTurn(turns) ? [turns] : []) {
      collected.tokens += MESSAGE_TOKENS;
      collectValue(turn, collected);
    }
  }
  for (const name of SCHEMA_FIELDS) {
    const schema = json[name];
    if (Array.isArray(schema) || (isObject(schema) && holdsSchema(schema))) {
      collected.texts.push(JSON.stringify(schema));
    }
  }
}

function isTurn(value: unknown): boolean {
  return typeof value === "string" || isObject(value);
}

/** A format without a schema (`text`, `json_object`) is an option that the model does not read. */
function holdsSchema(format: Record<string, unknown>): boolean {
  return "json_schema" in format || (isObject(format.format) && "schema" in format.format);
}

/** Collects every string that is read as text, and counts media by the piece. */
function collectValue(value: unknown, collected: CollectedInput): void {
  if (typeof value === "string") collected.texts.push(value);
  if (Array.isArray(value)) for (const one of value) collectValue(one, collected);
  if (!isObject(value)) return;
  for (const [key, member] of Object.entries(value)) {
    if (STRUCTURE_FIELDS.has(key) || member === null) continue;
    if (MEDIA_FIELDS.has(key) || isMediaSource(key, member)) collected.tokens += MEDIA_TOKENS;
    else if (key === "encrypted_content" && typeof member === "string") {
      collected.tokens += Math.ceil(member.length / ENCRYPTED_CHARS_PER_TOKEN);
    } else collectValue(member, collected);
  }
}

/** The image or file of a Messages block. Only a text source is text. */
function isMediaSource(key: string, member: unknown): boolean {
  return key === "source" && isObject(member) && (member.type === "base64" || member.type === "url");
}

/** Texts, or token arrays of the client. */
function collectEmbedded(input: unknown, collected: CollectedInput): void {
  if (typeof input === "string") collected.texts.push(input);
  if (typeof input === "number") collected.tokens++;
  if (Array.isArray(input)) for (const one of input) collectEmbedded(one, collected);
}
