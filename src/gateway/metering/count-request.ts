/** Tokens of a whole request or answer, for rows whose upstream told none. */

import { isObject, parseJson } from "../../json/parse.ts";
import type { EndpointName } from "../../protocols/shared/request.ts";
import { readWholeResponseTexts } from "../../protocols/shared/response-text.ts";
import type { CountedOutput } from "./counted-output.ts";
import { MEDIA_TOKENS } from "./media.ts";
import { safeCut } from "./safe-cut.ts";
import { loadTokenizer } from "./tokenizer.ts";

/** What OpenAI adds to each message (its frame and its role) and to the whole. */
const MESSAGE_TOKENS = 4;
const REPLY_TOKENS = 3;
/** Encrypted reasoning: base64 of something that once was text. */
const SEALED_CHARS_PER_TOKEN = 6;

/** Not what the model reads, but how it is wrapped. */
const WRAPPING: ReadonlySet<string> = new Set([
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
]);
const MEDIA: ReadonlySet<string> = new Set([
  "image_url",
  "input_audio",
  "file_data",
  "file_id",
  "file_url",
  "video_url",
]);
/** Given to the model as JSON, or in a form of about that length. */
const SCHEMAS = ["tools", "functions", "response_format", "text"] as const;

/** A request can hold megabytes, and a megabyte takes some 50 ms: others have their turn in between. */
const CHARS_PER_TURN = 8 * 1024;

/** What there is to count, and what has a fixed count. */
interface Found {
  texts: string[];
  tokens: number;
}

/** Texts that do not follow on each other. */
export async function countTexts(texts: readonly string[]): Promise<number> {
  if (texts.length === 0) return 0;
  const tokenizer = await loadTokenizer();
  let tokens = 0;
  let chars = 0;
  for (const text of texts) {
    for (let from = 0; from < text.length; ) {
      const end = from + CHARS_PER_TURN;
      const to = end < text.length ? safeCut(text, from, end) : text.length;
      tokens += tokenizer.count(text.slice(from, to));
      chars += to - from;
      from = to;
      if (chars < CHARS_PER_TURN) continue;
      chars = 0;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  return tokens;
}

/** Output of a whole answer; pictures and vectors have none. */
export async function countAnswer(body: Uint8Array): Promise<CountedOutput> {
  const { said, reasoned } = readWholeResponseTexts(parseJson(body));
  const reasoningTokens = await countTexts(reasoned);
  return { outputTokens: reasoningTokens + (await countTexts(said)), reasoningTokens };
}

/** Input of a JSON request; earlier turns that the upstream keeps are not in it. Blocks while it parses the body. */
export async function countInputHere(body: Uint8Array, endpoint: EndpointName): Promise<number> {
  const json = parseJson(body);
  const found: Found = { texts: [], tokens: 0 };
  if (isObject(json)) gather(json, endpoint, found);
  return found.tokens + (await countTexts(found.texts));
}

function gather(json: Record<string, unknown>, endpoint: EndpointName, found: Found): void {
  switch (endpoint) {
    case "embeddings":
      gatherEmbedded(json.input, found);
      return;
    case "images.generations":
    case "images.edits":
      gatherValue(json.prompt, found);
      if (Array.isArray(json.images)) found.tokens += json.images.length * MEDIA_TOKENS;
      return;
    default:
      gatherConversation(json, found);
  }
}

function gatherConversation(json: Record<string, unknown>, found: Found): void {
  found.tokens += REPLY_TOKENS;
  for (const turns of [json.messages, json.input, json.instructions]) {
    for (const turn of Array.isArray(turns) ? turns : typeof turns === "string" ? [turns] : []) {
      found.tokens += MESSAGE_TOKENS;
      gatherValue(turn, found);
    }
  }
  for (const name of SCHEMAS) {
    const schema = json[name];
    if (Array.isArray(schema) || (isObject(schema) && holdsSchema(schema))) {
      found.texts.push(JSON.stringify(schema));
    }
  }
}

/** A format without a schema (`text`, `json_object`) is an option, and the model is not shown it. */
function holdsSchema(format: Record<string, unknown>): boolean {
  return "json_schema" in format || (isObject(format.format) && "schema" in format.format);
}

/** Every string in it that is read as text; media by the piece. */
function gatherValue(value: unknown, found: Found): void {
  if (typeof value === "string") found.texts.push(value);
  if (Array.isArray(value)) for (const one of value) gatherValue(one, found);
  if (!isObject(value)) return;
  for (const [key, member] of Object.entries(value)) {
    if (WRAPPING.has(key) || member === null) continue;
    if (MEDIA.has(key)) found.tokens += MEDIA_TOKENS;
    else if (key === "encrypted_content" && typeof member === "string") {
      found.tokens += Math.ceil(member.length / SEALED_CHARS_PER_TOKEN);
    } else gatherValue(member, found);
  }
}

/** Texts, or tokens that the client made itself. */
function gatherEmbedded(input: unknown, found: Found): void {
  if (typeof input === "string") found.texts.push(input);
  if (typeof input === "number") found.tokens++;
  if (Array.isArray(input)) for (const one of input) gatherEmbedded(one, found);
}
