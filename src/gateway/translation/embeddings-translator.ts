/** Translates a request for embeddings between OpenAI's and Google's API, for accounts that have the other one. */

import { ApiError } from "../../errors.ts";
import { isObject, parseJson } from "../../json/parse.ts";
import { type Part, wholePart } from "../../net/wire/parts.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import {
  type EmbeddingsRequest,
  readGeminiEmbeddings,
  readOpenaiEmbeddings,
  writeGeminiEmbeddings,
  writeOpenaiEmbeddings,
} from "../../protocols/embedding-codecs/embeddings-request.ts";
import {
  normalize,
  readGeminiVectors,
  readOpenaiVectors,
  writeGeminiVectors,
  writeOpenaiVectors,
} from "../../protocols/embedding-codecs/embeddings-response.ts";
import { type Endpoint, isGeminiEndpoint, type ModelRequest } from "../../protocols/shared/request.ts";
import { readUpstreamError } from "../../protocols/shared/upstream-error.ts";
import type { WholeResponseResult } from "../../protocols/shared/whole-response.ts";
import { countTexts } from "../metering/count-request.ts";
import { tokenizerIfLoaded } from "../metering/tokenizer.ts";
import { type LongStrings, NO_LONG_STRINGS, parseLongBody, putLongStrings } from "./long-strings.ts";
import type { TranslatedAttempt, Translator } from "./translated-attempt.ts";

/** What the translation needs of a request. */
export interface EmbeddingsSource {
  readonly endpoint: Endpoint;
  readonly request: ModelRequest;
}

/** Counting this much takes a millisecond or two. More is estimated. */
const COUNTED_CHARS_MAX = 32 * 1024;
const CHARS_PER_TOKEN = 4;

export class EmbeddingsTranslator implements Translator {
  readonly #source: EmbeddingsSource;
  readonly #randomBytes: (count: number) => Uint8Array;
  #request: EmbeddingsRequest | null = null;
  #longStrings: LongStrings = NO_LONG_STRINGS;

  constructor(source: EmbeddingsSource, randomBytes: (count: number) => Uint8Array) {
    this.#source = source;
    this.#randomBytes = randomBytes;
  }

  async translate({ upstreamModel }: AccountRoute): Promise<TranslatedAttempt> {
    this.#request ??= await this.#readRequest();
    const request = this.#request;
    const isGoogleClient = isGeminiEndpoint(this.#source.endpoint);
    const written = isGoogleClient
      ? writeOpenaiEmbeddings(request, upstreamModel)
      : writeGeminiEmbeddings(request, upstreamModel);
    // Google often reports no usage, and OpenAI's clients expect it.
    const inputTokens = isGoogleClient ? 0 : await this.#countTokens(request);
    return {
      dialect: isGoogleClient ? "chat" : "gemini",
      path: written.path,
      body: putLongStrings(JSON.stringify(written.body), this.#longStrings),
      headerLines: "",
      dropped: written.dropped,
      openReader() {
        throw new Error("embeddings are not streamed");
      },
      readWhole: (body) => this.#readWhole(body, request, inputTokens),
    };
  }

  /** Embeddings have no opaque state. */
  dropState(): boolean {
    return false;
  }

  async #readRequest(): Promise<EmbeddingsRequest> {
    const { endpoint, request } = this.#source;
    if (request.inputText.kind !== "json") throw new Error("a form cannot be translated");
    const { json, strings } = await parseLongBody(request.inputText.body, this.#randomBytes);
    this.#longStrings = strings;
    if (!isObject(json)) {
      const error = await request.body.findJsonError();
      throw error ?? new ApiError("invalid_json", "The request body is not valid JSON. Send valid JSON.");
    }
    return isGeminiEndpoint(endpoint) ? readGeminiEmbeddings(json) : readOpenaiEmbeddings(json);
  }

  async #countTokens({ texts }: EmbeddingsRequest): Promise<number> {
    let chars = 0;
    for (const text of texts) chars += text.length;
    for (const string of this.#longStrings.values()) chars += string.length;
    // Loading the tokenizer takes a second, for which no request waits.
    const isCounted = chars <= COUNTED_CHARS_MAX && tokenizerIfLoaded() !== null;
    return isCounted ? countTexts(texts) : Math.ceil(chars / CHARS_PER_TOKEN);
  }

  #readWhole(
    { bytes, start, end }: Part,
    { texts, dimensions }: EmbeddingsRequest,
    inputTokens: number,
  ): WholeResponseResult {
    const { endpoint, request } = this.#source;
    const json = parseJson(bytes, start, end);
    if (!isObject(json)) return { kind: "malformed" };
    const error = json.error == null ? null : readUpstreamError(json);
    if (error !== null) return { kind: "error", error };
    const isGoogleClient = isGeminiEndpoint(endpoint);
    const response = (isGoogleClient ? readOpenaiVectors : readGeminiVectors)(json, texts.length);
    if (response === null) return { kind: "malformed" };
    const { publicModel, wantsBase64 } = request;
    const isShortened = !isGoogleClient && dimensions !== null;
    const vectors = isShortened ? response.vectors.map(normalize) : response.vectors;
    const written = isGoogleClient
      ? writeGeminiVectors(response, endpoint.name === "gemini.embed_content" ? "one" : "batch")
      : writeOpenaiVectors({ ...response, vectors }, { publicModel, wantsBase64, inputTokens });
    return {
      kind: "answer",
      body: wholePart(Buffer.from(JSON.stringify(written))),
      usage: response.usage,
      images: 0,
      imageKind: null,
      responseId: null,
      status: null,
      hasExpectedContent: true,
    };
  }
}
