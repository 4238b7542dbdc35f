/** Responses with embeddings: reads OpenAI's or Google's, and writes the one that the client expects. */

import type { Part } from "../../base/parts.ts";
import { type ByteRange, firstElements } from "../../json/array.ts";
import { parseJson } from "../../json/parse.ts";
import { scanObject, wantedFields } from "../../json/scan.ts";
import { readGeminiUsage } from "../gemini/gemini-usage.ts";
import { type Json, readArray, readNumber, readObject, readObjects } from "../hub/json-values.ts";
import { parseUsageMember } from "../shared/event-bounds.ts";
import { readUsage, type TokenUsage } from "../shared/usage.ts";
import { encodeVector } from "./vectors.ts";

interface EmbeddingsResponse {
  /** In the order of the texts. */
  readonly vectors: readonly (readonly number[])[];
  readonly usage: TokenUsage | null;
}

/** Returns null if the JSON is not a response with this many vectors. */
export function readOpenaiVectors(json: Json, count: number): EmbeddingsResponse | null {
  const vectors: (readonly number[])[] = [];
  for (const [position, entry] of readObjects(json.data).entries()) {
    const vector = readVector(entry.embedding);
    if (vector === null) return null;
    vectors[readNumber(entry.index) ?? position] = vector;
  }
  return isComplete(vectors, count) ? { vectors, usage: readUsage(json.usage) } : null;
}

/** A response of Google's, as positions: its vectors are long, so they are parsed one after the other. */
interface GeminiBatch {
  /** In the order of the texts. */
  readonly vectors: readonly ByteRange[];
  readonly usage: TokenUsage | null;
  /** The upstream reports an error in a successful response. */
  readonly error: ByteRange | null;
}

const BATCH = wantedFields(["embeddings", "usageMetadata", "error"]);

/** Returns null if the JSON is neither a response with this many vectors nor an error. */
export function scanGeminiBatch(
  { bytes, start, end }: Part,
  count: number,
  depthMax: number,
): GeminiBatch | null {
  const scan = scanObject(bytes, start, end, BATCH, { depthMax });
  if (!scan.ok) return null;
  const { embeddings, usageMetadata, error } = scan.fields;
  if (error?.kind === "object") return { vectors: [], usage: null, error };
  if (embeddings?.kind !== "array") return null;
  const vectors = firstElements(bytes, embeddings, count + 1);
  if (vectors.length !== count) return null;
  const usage = usageMetadata === undefined ? null : readGeminiUsage(parseUsageMember(bytes, usageMetadata));
  return { vectors, usage, error: null };
}

export function readGeminiVector(bytes: Uint8Array, { start, end }: ByteRange): readonly number[] | null {
  const vector = readVector(readObject(parseJson(bytes, start, end))?.values);
  return vector === null || vector.length === 0 ? null : vector;
}

function readVector(value: unknown): readonly number[] | null {
  // Some upstreams send Base64 although numbers were requested.
  if (typeof value === "string") return decodeVector(value);
  const numbers = readArray(value);
  return numbers.every((one) => typeof one === "number") ? numbers : null;
}

function decodeVector(text: string): number[] | null {
  const bytes = Buffer.from(text, "base64");
  if (bytes.length % Float32Array.BYTES_PER_ELEMENT !== 0) return null;
  return Array.from({ length: bytes.length / Float32Array.BYTES_PER_ELEMENT }, (_, at) =>
    bytes.readFloatLE(at * Float32Array.BYTES_PER_ELEMENT),
  );
}

function isComplete(vectors: readonly (readonly number[] | undefined)[], count: number): boolean {
  return vectors.length === count && vectors.every((vector) => vector !== undefined && vector.length > 0);
}

/** OpenAI's vectors have the length 1. Google's have not if they were shortened. */
export function normalize(vector: readonly number[]): number[] {
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  return length === 0 ? [...vector] : vector.map((value) => value / length);
}

/** One element of `data`, as JSON. */
export function writeOpenaiEntry(vector: readonly number[], index: number, wantsBase64: boolean): string {
  const embedding = wantsBase64 ? encodeVector(vector) : vector;
  return JSON.stringify({ object: "embedding", index, embedding });
}

/** What follows the elements of `data`. */
export function writeOpenaiTail(publicModel: string, tokens: number): string {
  const usage = { prompt_tokens: tokens, total_tokens: tokens };
  return `],${JSON.stringify({ model: publicModel, usage }).slice(1)}`;
}

export function writeGeminiVectors(
  { vectors, usage }: EmbeddingsResponse,
  shape: "one" | "batch",
): Record<string, unknown> {
  const embeddings = vectors.map((values) => ({ values }));
  return {
    ...(shape === "batch" ? { embeddings } : { embedding: embeddings[0] }),
    ...(usage === null
      ? {}
      : { usageMetadata: { promptTokenCount: usage.inputTokens, totalTokenCount: usage.inputTokens } }),
  };
}
