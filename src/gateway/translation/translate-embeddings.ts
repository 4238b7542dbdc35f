/**
 * Translates requests and responses of embeddings between OpenAI's and Google's API. It depends on its arguments alone,
 * so that it runs in a thread as well as here.
 */

import type { Part } from "../../base/parts.ts";
import { isObject, parseJson } from "../../json/parse.ts";
import { parseBody } from "../../json/parse-body.ts";
import {
  readGeminiEmbeddings,
  readOpenaiEmbeddings,
  writeGeminiEmbeddings,
  writeOpenaiEmbeddings,
} from "../../protocols/embeddings/embeddings-request.ts";
import {
  normalize,
  readGeminiVector,
  readOpenaiVectors,
  scanGeminiBatch,
  writeGeminiVectors,
  writeOpenaiEntry,
} from "../../protocols/embeddings/embeddings-response.ts";
import { NO_FACTS } from "../../protocols/shared/response-facts.ts";
import { readFailure, readUpstreamError, type UpstreamError } from "../../protocols/shared/upstream-error.ts";
import type { TokenUsage } from "../../protocols/shared/usage.ts";
import { invalidJsonError } from "./translate-request.ts";
import type { ResponseTranslation } from "./translate-response.ts";

export interface EmbeddingsTerms {
  readonly to: "openai" | "google";
  readonly upstreamModel: string;
}

export interface EmbeddingsTranslation {
  readonly path: string;
  readonly dropped: readonly string[];
  /** One for OpenAI's API. */
  readonly batches: readonly { readonly body: Uint8Array<ArrayBuffer>; readonly count: number }[];
  readonly isShortened: boolean;
  readonly textCount: number;
  readonly textChars: number;
  /** Empty if they are too long to be counted. */
  readonly texts: readonly string[];
}

/** Counting this much takes a millisecond or two. More is estimated. */
const COUNTED_CHARS_MAX = 32 * 1024;

/** Throws the error for the client. */
export function translateEmbeddings(
  body: Part,
  { to, upstreamModel }: EmbeddingsTerms,
): EmbeddingsTranslation {
  const json = parseBody(body);
  if (!isObject(json)) throw invalidJsonError();
  const request = to === "openai" ? readGeminiEmbeddings(json) : readOpenaiEmbeddings(json);
  const textChars = request.texts.reduce((sum, text) => sum + text.length, 0);
  const common = {
    isShortened: request.dimensions !== null,
    textCount: request.texts.length,
    textChars,
    texts: textChars > COUNTED_CHARS_MAX ? [] : request.texts,
  };
  if (to === "openai") {
    const { path, body: written, dropped } = writeOpenaiEmbeddings(request, upstreamModel);
    return { path, dropped, batches: [{ body: writeJson(written), count: request.texts.length }], ...common };
  }
  const { path, dropped, batches } = writeGeminiEmbeddings(request, upstreamModel);
  return {
    path,
    dropped,
    batches: batches.map(({ body: written, count }) => ({ body: writeJson(written), count })),
    ...common,
  };
}

function writeJson(value: unknown): Uint8Array<ArrayBuffer> {
  return Buffer.from(JSON.stringify(value));
}

export interface VectorTerms {
  readonly textCount: number;
  readonly shape: "one" | "batch";
}

/** Translates OpenAI's vectors for a client of Google's API. */
export function translateVectors(
  { bytes, start, end }: Part,
  { textCount, shape }: VectorTerms,
): ResponseTranslation {
  const json = parseJson(bytes, start, end);
  if (!isObject(json)) return { kind: "malformed" };
  const error = json.error == null ? null : readUpstreamError(json);
  if (error !== null) return { kind: "error", error };
  const response = readOpenaiVectors(json, textCount);
  if (response === null) return { kind: "malformed" };
  return {
    kind: "response",
    body: writeJson(writeGeminiVectors(response, shape)),
    usage: response.usage,
    isEmptyExpected: false,
    status: null,
    turnHead: null,
    facts: NO_FACTS,
  };
}

export interface BatchTerms {
  /** How many texts the batch has, and the index of the first one. */
  readonly count: number;
  readonly firstIndex: number;
  /** The vectors have fewer dimensions than the model's own, so they must be normalized. */
  readonly isShortened: boolean;
  readonly wantsBase64: boolean;
  readonly depthMax: number;
}

export type BatchReading =
  /** `entries` are entries of the client's response, as JSON. */
  | { readonly kind: "batch"; readonly entries: Uint8Array<ArrayBuffer>; readonly usage: TokenUsage | null }
  | { readonly kind: "error"; readonly error: UpstreamError }
  | { readonly kind: "malformed"; readonly reason: string };

/** Translates a batch of Google's vectors for a client of OpenAI's API. */
export function readBatch(part: Part, terms: BatchTerms): BatchReading {
  const { count, firstIndex, isShortened, wantsBase64, depthMax } = terms;
  const batch = scanGeminiBatch(part, count, depthMax);
  if (batch === null) return { kind: "malformed", reason: "the response has not one vector for each text" };
  if (batch.error !== null) return { kind: "error", error: readFailure(part) };
  const entries: string[] = [];
  for (const [offset, range] of batch.vectors.entries()) {
    const vector = readGeminiVector(part.bytes, range);
    if (vector === null) return { kind: "malformed", reason: "a vector is not a list of numbers" };
    const written = isShortened ? normalize(vector) : vector;
    entries.push(writeOpenaiEntry(written, firstIndex + offset, wantsBase64));
  }
  return { kind: "batch", entries: Buffer.from(entries.join(",")), usage: batch.usage };
}
