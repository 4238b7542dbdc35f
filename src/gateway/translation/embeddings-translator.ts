/**
 * Translates a request for embeddings between OpenAI's and Google's API, for accounts that have the other one. Long
 * requests and responses are translated in threads.
 */

import type { MaybePromise } from "../../base/maybe-promise.ts";
import { type Part, wholePart } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import { checkParsedValues } from "../../protocols/shared/list-bounds.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import type { WholeResponseResult } from "../../protocols/whole-response.ts";
import type { InputCounter } from "../metering/count-input.ts";
import { countTexts } from "../metering/count-request.ts";
import { tokenizerIfLoaded } from "../metering/tokenizer.ts";
import { noteBatches, type Trace } from "../request/trace.ts";
import { EmbeddingBatches } from "./embedding-batches.ts";
import {
  type BatchReading,
  type BatchTerms,
  type EmbeddingsTerms,
  type EmbeddingsTranslation,
  readBatch,
  translateEmbeddings,
  translateVectors,
  type VectorTerms,
} from "./translate-embeddings.ts";
import { NO_HEADERS, type TranslatedAttempt, type Translator } from "./translated-attempt.ts";
import type { TranslationThreads } from "./translation-threads.ts";

interface EmbeddingsServices {
  readonly threads: TranslationThreads;
  readonly inputCounter: InputCounter;
}

interface EmbeddingsSource {
  readonly endpoint: Endpoint;
  readonly request: ModelRequest;
  readonly trace: Pick<Trace, "batches">;
  readonly caller: { readonly key: { readonly id: string; readonly userId: string | null } };
}

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
  readonly #threads: TranslationThreads;
  readonly #counter: InputCounter;
  /** Kept for all attempts, so that a batch that has succeeded is not sent again. */
  #batches: { readonly upstreamModel: string; readonly batches: EmbeddingBatches } | null = null;

  constructor(source: EmbeddingsSource, services: EmbeddingsServices) {
    this.#source = source;
    this.#threads = services.threads;
    this.#counter = services.inputCounter;
  }

  async translate({ upstreamModel }: AccountRoute): Promise<TranslatedAttempt> {
    const isFromGemini = this.#source.endpoint.api.hasModelInPath;
    const translation = await this.#translate({ to: isFromGemini ? "openai" : "google", upstreamModel });
    return isFromGemini ? this.#toOpenai(translation) : await this.#toGoogle(translation, upstreamModel);
  }

  #toOpenai({ path, dropped, batches, textCount }: EmbeddingsTranslation): TranslatedAttempt {
    const shape = this.#source.endpoint.responseMember === "embedding" ? "one" : "batch";
    return {
      dialect: "chat",
      path,
      body: batches.flatMap(({ body }) => wholePart(body)),
      ...UNSTREAMED,
      dropped,
      sendBatches: null,
      readWhole: (whole) => this.#readVectors(whole, { textCount, shape }),
    };
  }

  async #toGoogle(translation: EmbeddingsTranslation, upstreamModel: string): Promise<TranslatedAttempt> {
    const { path, dropped, isShortened } = translation;
    // Vectors of one model are the same on every account.
    if (this.#batches?.upstreamModel !== upstreamModel) {
      const { publicModel, wantsBase64 } = this.#source.request;
      const batches = new EmbeddingBatches(
        translation.batches.map(({ body, count }) => ({ body: wholePart(body), count })),
        {
          publicModel,
          wantsBase64,
          isShortened,
          // Google often reports no usage, and OpenAI's clients expect it.
          inputTokens: await countTokens(translation),
          jsonDepthMax: JSON_DEPTH_MAX,
          read: (body, batch) => this.#readBatch(body, batch),
          countBody: (body) => this.#counter.countBody({ body, output: "vector", owner: this.#owner }),
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

  /** Embeddings have no opaque state. */
  dropState(): boolean {
    return false;
  }

  get #owner(): string {
    const { key } = this.#source.caller;
    return key.userId ?? key.id;
  }

  async #translate(terms: EmbeddingsTerms): Promise<EmbeddingsTranslation> {
    const { request } = this.#source;
    const { inputText } = request;
    if (inputText.kind !== "json") throw new Error("a form cannot be translated");
    checkParsedValues(inputText);
    const { body } = inputText;
    const isLong = body.end - body.start > this.#threads.limits.requestBytesMin;
    try {
      return isLong
        ? await this.#threads.translateEmbeddings({ owner: this.#owner, body, terms })
        : translateEmbeddings(body, terms);
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== "invalid_json") throw error;
      throw (await request.body.findJsonError()) ?? error;
    }
  }

  #readBatch(body: Part, terms: BatchTerms): MaybePromise<BatchReading> {
    return this.#isLong(body)
      ? this.#threads.readBatch({ owner: this.#owner, body, terms })
      : readBatch(body, terms);
  }

  #isLong({ start, end }: Part): boolean {
    return end - start > this.#threads.limits.responseBytesMin;
  }

  async #readVectors(body: Part, terms: VectorTerms): Promise<WholeResponseResult> {
    const translation = this.#isLong(body)
      ? await this.#threads.translateVectors({ owner: this.#owner, body, terms })
      : translateVectors(body, terms);
    if (translation.kind !== "response") return translation;
    return {
      kind: "response",
      body: wholePart(translation.body),
      usage: translation.usage,
      images: 0,
      imageKind: null,
      responseId: null,
      status: null,
      hasExpectedContent: true,
    };
  }
}

async function countTokens({ texts, textChars }: EmbeddingsTranslation): Promise<number> {
  // Loading the tokenizer takes a second, for which no request waits.
  const isCounted = texts.length > 0 && tokenizerIfLoaded() !== null;
  return isCounted ? countTexts(texts) : Math.ceil(textChars / CHARS_PER_TOKEN);
}
