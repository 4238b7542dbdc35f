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
import { readOpenaiVectors, writeGeminiVectors } from "../../protocols/embeddings/embeddings-response.ts";
import { NO_FACTS } from "../../protocols/shared/response-facts.ts";
import { readUpstreamError } from "../../protocols/shared/upstream-error.ts";
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
