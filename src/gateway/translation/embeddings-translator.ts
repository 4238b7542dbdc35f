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
  readOpenaiVectors,
  writeGeminiVectors,
} from "../../protocols/embedding-codecs/embeddings-response.ts";
import { checkParsedValues } from "../../protocols/shared/list-bounds.ts";
import { type Endpoint, isGeminiEndpoint, type ModelRequest } from "../../protocols/shared/request.ts";
import { readUpstreamError } from "../../protocols/shared/upstream-error.ts";
import type { WholeResponseResult } from "../../protocols/shared/whole-response.ts";
import { countTexts } from "../metering/count-request.ts";
import { tokenizerIfLoaded } from "../metering/tokenizer.ts";
import { noteBatches, type Trace } from "../request/trace.ts";
import { EmbeddingBatches } from "./embedding-batches.ts";
import { type LongStrings, NO_LONG_STRINGS, parseLongBody, putLongStrings } from "./long-strings.ts";
import { NO_HEADERS, type TranslatedAttempt, type Translator } from "./translated-attempt.ts";

/** What the translation needs of a request. */
export interface EmbeddingsSource {
  readonly endpoint: Endpoint;
  readonly request: ModelRequest;
  readonly trace: Pick<Trace, "batches">;
}

/** Counting this much takes a millisecond or two. More is estimated. */
const COUNTED_CHARS_MAX = 32 * 1024;
const CHARS_PER_TOKEN = 4;

/** As deep as a response with embeddings may be nested. */
const JSON_DEPTH_MAX = 16;

/** What all translations of embeddings have in common. */
const UNSTREAMED = {
  headers: NO_HEADERS,
  isStateDropped: false,
  openReader(): never {
    throw new Error("embeddings are not streamed");
  },
} as const;

export class EmbeddingsTranslator implements Translator {
  readonly #source: EmbeddingsSource;
  readonly #randomBytes: (count: number) => Uint8Array;
  #request: EmbeddingsRequest | null = null;
  #longStrings: LongStrings = NO_LONG_STRINGS;
  /** Kept for all attempts, so that a batch that has succeeded is not sent again. */
  #batches: { readonly upstreamModel: string; readonly batches: EmbeddingBatches } | null = null;

  constructor(source: EmbeddingsSource, randomBytes: (count: number) => Uint8Array) {
    this.#source = source;
    this.#randomBytes = randomBytes;
  }

  async translate({ upstreamModel }: AccountRoute): Promise<TranslatedAttempt> {
    this.#request ??= await this.#readRequest();
    const request = this.#request;
    return isGeminiEndpoint(this.#source.endpoint)
      ? this.#translateToOpenai(request, upstreamModel)
      : await this.#translateToGoogle(request, upstreamModel);
  }

  #translateToOpenai(request: EmbeddingsRequest, upstreamModel: string): TranslatedAttempt {
    const { path, body, dropped } = writeOpenaiEmbeddings(request, upstreamModel);
    return {
      dialect: "chat",
      path,
      body: this.#writeBody(body),
      ...UNSTREAMED,
      dropped,
      sendBatches: null,
      readWhole: (whole) => this.#readOpenai(whole, request),
    };
  }

  async #translateToGoogle(request: EmbeddingsRequest, upstreamModel: string): Promise<TranslatedAttempt> {
    const { path, dropped, batches: written } = writeGeminiEmbeddings(request, upstreamModel);
    // Vectors of one model are the same on every account.
    if (this.#batches?.upstreamModel !== upstreamModel) {
      const { publicModel, wantsBase64 } = this.#source.request;
      const batches = new EmbeddingBatches(
        written.map(({ body, count }) => ({ body: this.#writeBody(body), count })),
        {
          publicModel,
          wantsBase64,
          isShortened: request.dimensions !== null,
          // Google often reports no usage, and OpenAI's clients expect it.
          inputTokens: await this.#countTokens(request),
          jsonDepthMax: JSON_DEPTH_MAX,
        },
      );
      this.#batches = { upstreamModel, batches };
      noteBatches(this.#source.trace, batches);
    }
    const { batches } = this.#batches;
    return {
      dialect: "gemini",
      path,
      body: [],
      ...UNSTREAMED,
      dropped,
      sendBatches: (sendBody) => batches.send(sendBody),
      readWhole: () => batches.readWhole(),
    };
  }

  #writeBody(body: Record<string, unknown>): readonly Part[] {
    return putLongStrings(JSON.stringify(body), this.#longStrings);
  }

  /** Embeddings have no opaque state. */
  dropState(): boolean {
    return false;
  }

  async #readRequest(): Promise<EmbeddingsRequest> {
    const { endpoint, request } = this.#source;
    if (request.inputText.kind !== "json") throw new Error("a form cannot be translated");
    checkParsedValues(request.inputText);
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

  #readOpenai({ bytes, start, end }: Part, { texts }: EmbeddingsRequest): WholeResponseResult {
    const json = parseJson(bytes, start, end);
    if (!isObject(json)) return { kind: "malformed" };
    const error = json.error == null ? null : readUpstreamError(json);
    if (error !== null) return { kind: "error", error };
    const response = readOpenaiVectors(json, texts.length);
    if (response === null) return { kind: "malformed" };
    const shape = this.#source.endpoint.name === "gemini.embed_content" ? "one" : "batch";
    return {
      kind: "answer",
      body: wholePart(Buffer.from(JSON.stringify(writeGeminiVectors(response, shape)))),
      usage: response.usage,
      images: 0,
      imageKind: null,
      responseId: null,
      status: null,
      hasExpectedContent: true,
    };
  }
}
