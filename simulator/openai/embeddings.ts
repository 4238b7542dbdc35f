/** The Embeddings interface of the simulator. */

import type { Call } from "../endpoint.ts";
import { invalid, missing, notJson } from "../errors.ts";
import { intField, parseJson, stringField } from "../json-fields.ts";
import { computeHash } from "../model/text.ts";
import type { TokenRule } from "../model/tokens.ts";
import { jsonReply, type Reply, reportUsage, usageJson } from "../reply.ts";

const DIMENSIONS = 1536;
const DIMENSIONS_MAX = 4096;
const INPUTS_MAX = 2048;
const CACHED_MAX = 512;

/** Cache of encoded vectors: a benchmark requests the same few repeatedly. */
const encodedVectors = new Map<string, string>();

export function embeddings(call: Call): Reply {
  const { fields } = call;
  if (!fields.has("input")) return missing("input");
  const input = parseJson(fields.get("input") ?? "");
  if (input === undefined) return notJson();
  const texts = readTexts(input, call.tokens);
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
      `{"object":"embedding","index":${index},"embedding":${encodeVector(text.key, dimensions, format, call.seed)}}`,
  );
  const tokens = texts.reduce((sum, text) => sum + text.tokens, 0);
  const usage = { input: tokens, cached: 0, output: 0, reasoning: 0 };
  const reportedUsage = reportUsage(usage, call.fault);
  const usageText =
    reportedUsage === null
      ? ""
      : usageJson(`,"usage":{"prompt_tokens":${reportedUsage.input},"total_tokens":${reportedUsage.input}}`);
  return jsonReply(
    `{"object":"list","data":[${data.join(",")}],"model":${JSON.stringify(call.behaviour.responseModel)}${usageText}}`,
    usage,
  );
}

interface EmbeddedText {
  key: string;
  tokens: number;
}

/** Strings or token numbers, one or many. */
function readTexts(input: unknown, tokens: TokenRule): EmbeddedText[] | null {
  const embedString = (text: string): EmbeddedText => ({ key: text, tokens: tokens.ofTexts([text]) });
  if (typeof input === "string") return input === "" ? null : [embedString(input)];
  if (!Array.isArray(input) || input.length === 0) return null;
  if (input.every((one) => typeof one === "string" && one !== "")) return input.map(embedString);
  if (input.every(isToken)) return [embedTokens(input)];
  if (input.every((one) => Array.isArray(one) && one.length > 0 && one.every(isToken))) {
    return input.map(embedTokens);
  }
  return null;
}

function isToken(value: unknown): value is number {
  return Number.isInteger(value);
}

function embedTokens(tokens: readonly number[]): EmbeddedText {
  return { key: `tokens:${tokens.join(",")}`, tokens: tokens.length };
}

function encodeVector(text: string, dimensions: number, format: "float" | "base64", seed: number): string {
  const key = `${seed}/${dimensions}/${format}/${text}`;
  const cached = text.length <= 1_000 ? encodedVectors.get(key) : undefined;
  if (cached !== undefined) return cached;
  const vector = unitVector(computeHash(seed, text), dimensions);
  const json =
    format === "base64"
      ? `"${Buffer.from(vector.buffer).toString("base64")}"`
      : JSON.stringify(Array.from(vector));
  if (text.length <= 1_000) {
    if (encodedVectors.size >= CACHED_MAX) encodedVectors.clear();
    encodedVectors.set(key, json);
  }
  return json;
}

/** The same hash always produces the same vector, of length 1. */
export function unitVector(hash: number, dimensions: number): Float32Array<ArrayBuffer> {
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
