/**
 * How the input tokens that the upstreams of a model report relate to the gateway's own count, which uses OpenAI's
 * tokenizer. Token counts for models of other vendors are corrected by this factor. It is learnt from a few translated
 * requests, because each sample costs a count.
 */

import { partBytes } from "../../base/parts.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import type { InputCounter } from "../metering/count-input.ts";
import { isTextAlone } from "../metering/input-range.ts";

type CountedRequest = Pick<
  ModelRequest,
  "publicModel" | "inputText" | "inputSize" | "inputContents" | "readsStored"
>;

interface LearntFactor {
  factor: number;
  samples: number;
  nextSampleMs: number;
}

/** No two tokenizers differ more. A report outside of it counts something else. */
const FACTOR_MIN = 0.5;
const FACTOR_MAX = 2;
const WEIGHT = 0.2;
const SAMPLE_INTERVAL_MS = 30_000;
/** Counting more would take long. */
const SAMPLE_BYTES_MAX = 64 * 1024;
/** In shorter texts the tokens between messages prevail, which each vendor counts in its own way. */
const SAMPLE_TOKENS_MIN = 100;
const MODELS_MAX = 1_000;
/** Counts of samples wait as those of one key. */
const SAMPLES = "samples";

export class TokenFactors {
  readonly #nowMs: () => number;
  readonly #counter: Pick<InputCounter, "countBody">;
  /** In order of their latest samples. */
  readonly #models = new Map<string, LearntFactor>();

  constructor(nowMs: () => number, counter: Pick<InputCounter, "countBody">) {
    this.#nowMs = nowMs;
    this.#counter = counter;
  }

  /** `tokens` is the gateway's own count. */
  correct(model: string, tokens: number): number {
    return Math.round(tokens * (this.#models.get(model)?.factor ?? 1));
  }

  /** Compares the count of a request with the report of its upstream. Resolves when the sample is learnt, or at once. */
  async learn(request: CountedRequest, output: Endpoint["output"], reportedTokens: number): Promise<void> {
    const { publicModel, inputText } = request;
    const learnt = this.#models.get(publicModel);
    const nowMs = this.#nowMs();
    if (learnt !== undefined && nowMs < learnt.nextSampleMs) return;
    if (inputText.kind !== "json" || reportedTokens < SAMPLE_TOKENS_MIN || !isTextAlone(request)) return;
    const { start, end } = inputText.body;
    if (end - start > SAMPLE_BYTES_MAX || request.inputSize().media > 0) return;
    this.#setNext(publicModel, nowMs + SAMPLE_INTERVAL_MS);
    // A copy, because the body is freed when the request ends.
    const body = Buffer.from(partBytes(inputText.body));
    const counted = await this.#counter.countBody({ body, output, owner: SAMPLES });
    if (counted >= SAMPLE_TOKENS_MIN) this.#add(publicModel, reportedTokens / counted);
  }

  #setNext(model: string, nextSampleMs: number): void {
    const { factor, samples } = this.#models.get(model) ?? { factor: 1, samples: 0 };
    this.#models.delete(model);
    this.#models.set(model, { factor, samples, nextSampleMs });
    if (this.#models.size > MODELS_MAX) this.#models.delete(this.#models.keys().next().value ?? "");
  }

  #add(model: string, sample: number): void {
    const learnt = this.#models.get(model);
    if (learnt === undefined || sample < FACTOR_MIN || sample > FACTOR_MAX) return;
    learnt.factor = learnt.samples === 0 ? sample : learnt.factor + WEIGHT * (sample - learnt.factor);
    learnt.samples++;
  }
}
