import type { Call } from "./endpoint.ts";
import { invalid, missing, notJson } from "./errors.ts";
import { intField, parseJson, stringField } from "./json-fields.ts";
import { jsonReply, type Reply, toldUsage, usageJson } from "./reply.ts";
import { hashOf } from "./text.ts";
import type { TokenRule } from "./tokens.ts";

const DIMENSIONS = 1536;
const DIMENSIONS_MAX = 4096;
const INPUTS_MAX = 2048;
const CACHED_MAX = 512;

/** Written vectors by what made them: a benchmark asks for the same few over and over. */
const written = new Map<string, string>();

export function embeddings(call: Call): Reply {
  const { fields } = call;
  if (!fields.has("input")) return missing("input");
  const input = parseJson(fields.get("input") ?? "");
  if (input === undefined) return notJson();
  const texts = textsOf(input, call.tokens);
  if (texts === null) return invalid("input", "'$.input' is invalid. Please check the API reference.");
  if (texts.length > INPUTS_MAX) return invalid("input", `'$.input' has more than ${INPUTS_MAX} entries.`);
  const format = stringField(fields, "encoding_format") ?? "float";
  if (format !== "float" && format !== "base64") {
    return invalid(
      "encoding_format",
      `Invalid value: '${format}'. Supported values are: 'float' and 'base64'.`,
    );
  }
  const dimensions = fields.has("dimensions") ? intField(fields, "dimensions") : DIMENSIONS;
  if (dimensions === null || dimensions < 1 || dimensions > DIMENSIONS_MAX) {
    return invalid("dimensions", `Invalid value for 'dimensions': expected 1 to ${DIMENSIONS_MAX}.`);
  }

  const data = texts.map(
    (text, index) =>
      `{"object":"embedding","index":${index},"embedding":${writtenVector(text.key, dimensions, format, call.seed)}}`,
  );
  const tokens = texts.reduce((sum, text) => sum + text.tokens, 0);
  const usage = { input: tokens, cached: 0, output: 0, reasoning: 0 };
  const told = toldUsage(usage, call.fault);
  const toldText =
    told === null ? "" : usageJson(`,"usage":{"prompt_tokens":${told.input},"total_tokens":${told.input}}`);
  return jsonReply(
    `{"object":"list","data":[${data.join(",")}],"model":${JSON.stringify(call.behaviour.responseModel)}${toldText}}`,
    usage,
  );
}

interface EmbeddedText {
  key: string;
  tokens: number;
}

/** Strings or token numbers, one or many. */
function textsOf(input: unknown, tokens: TokenRule): EmbeddedText[] | null {
  const ofString = (text: string): EmbeddedText => ({ key: text, tokens: tokens.ofTexts([text]) });
  if (typeof input === "string") return input === "" ? null : [ofString(input)];
  if (!Array.isArray(input) || input.length === 0) return null;
  if (input.every((one) => typeof one === "string" && one !== "")) return input.map(ofString);
  if (input.every(isToken)) return [ofTokens(input)];
  if (input.every((one) => Array.isArray(one) && one.length > 0 && one.every(isToken))) {
    return input.map(ofTokens);
  }
  return null;
}

function isToken(value: unknown): value is number {
  return Number.isInteger(value);
}

function ofTokens(tokens: readonly number[]): EmbeddedText {
  return { key: `tokens:${tokens.join(",")}`, tokens: tokens.length };
}

function writtenVector(text: string, dimensions: number, format: "float" | "base64", seed: number): string {
  const key = `${seed}/${dimensions}/${format}/${text}`;
  const known = text.length <= 1_000 ? written.get(key) : undefined;
  if (known !== undefined) return known;
  const vector = unitVector(hashOf(seed, text), dimensions);
  const json =
    format === "base64"
      ? `"${Buffer.from(vector.buffer).toString("base64")}"`
      : JSON.stringify(Array.from(vector));
  if (text.length <= 1_000) {
    if (written.size >= CACHED_MAX) written.clear();
    written.set(key, json);
  }
  return json;
}

function unitVector(hash: number, dimensions: number): Float32Array<ArrayBuffer> {
  const vector = new Float32Array(dimensions);
  let state = hash === 0 ? 1 : hash;
  let squares = 0;
  for (let i = 0; i < dimensions; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    const value = state / 0x80000000;
    vector[i] = value;
    squares += value * value;
  }
  const length = Math.sqrt(squares);
  for (let i = 0; i < dimensions; i++) vector[i] = (vector[i] ?? 0) / length;
  return vector;
}
