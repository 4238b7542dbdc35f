/** Responses with embeddings: reads OpenAI's or Google's, and writes the one that the client expects. */

import { encodeVector } from "../embeddings/vectors.ts";
import { type Json, readArray, readNumber, readObjects } from "../hub/json-values.ts";
import { readGeminiUsage } from "../shared/gemini-usage.ts";
import { readUsage, type TokenUsage } from "../shared/usage.ts";

export interface EmbeddingsResponse {
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

export function readGeminiVectors(json: Json, count: number): EmbeddingsResponse | null {
  const vectors = readObjects(json.embeddings).map(({ values }) => readVector(values) ?? []);
  return isComplete(vectors, count) ? { vectors, usage: readGeminiUsage(json.usageMetadata) } : null;
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

interface OpenaiOptions {
  readonly publicModel: string;
  readonly wantsBase64: boolean;
  /** Counted by the gateway, for upstreams that report no usage. */
  readonly inputTokens: number;
}

export function writeOpenaiVectors(
  { vectors, usage }: EmbeddingsResponse,
  { publicModel, wantsBase64, inputTokens }: OpenaiOptions,
): Record<string, unknown> {
  const tokens = usage?.inputTokens ?? inputTokens;
  return {
    object: "list",
    data: vectors.map((vector, index) => ({
      object: "embedding",
      index,
      embedding: wantsBase64 ? encodeVector(vector) : vector,
    })),
    model: publicModel,
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  };
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
