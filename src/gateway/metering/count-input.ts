/**
 * Counts the input tokens of requests, and the output of whole responses without usage. A long body is counted in a
 * thread, so that it does not block other requests. The thread loads the tokenizer once.
 */

import { copyInTurns, joinPartsInTurns } from "../../base/next-turn.ts";
import { joinParts, type Part, partBytes, partsLength } from "../../base/parts.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import { JobLimitError } from "../../threads/job-limit-error.ts";
import { ThreadPool, type ThreadPoolLimits } from "../../threads/thread-pool.ts";
import { countInputHere, countResponse, countTexts, estimateResponse } from "./count-request.ts";
import type { CountedOutput } from "./output-counter.ts";

export type CountJob =
  | { readonly kind: "input"; readonly bytes: Uint8Array<ArrayBuffer>; readonly output: Endpoint["output"] }
  | { readonly kind: "response"; readonly bytes: Uint8Array<ArrayBuffer> };

/** The tokens of an input, or those of a response. */
export type CountResult = number | CountedOutput;

export interface InputCounterLimits extends ThreadPoolLimits {
  /** A longer body is counted in a thread. */
  readonly inlineBytesMax: number;
}

export interface InputCounterOptions {
  readonly limits: InputCounterLimits;
  monotonicMs(): number;
}

/** A JSON request. */
export interface CountableBody {
  readonly body: Uint8Array;
  readonly output: Endpoint["output"];
  /** The id of the API key. */
  readonly owner: string;
}

export interface CountableRequest {
  readonly request: Pick<ModelRequest, "inputText">;
  readonly output: Endpoint["output"];
  readonly owner: string;
}

export class InputCounter {
  readonly #inlineBytesMax: number;
  readonly #pool: ThreadPool<CountJob, CountResult>;

  constructor({ limits, monotonicMs }: InputCounterOptions) {
    this.#inlineBytesMax = limits.inlineBytesMax;
    // One thread: each loads a tokenizer, and counts are needed rarely.
    const startWorker = () => new Worker(new URL("./count-worker.ts", import.meta.url).href);
    this.#pool = new ThreadPool({ limits, startWorker, monotonicMs });
  }

  /** Counts without earlier turns that the upstream stores. Rejects with a `JobLimitError` if it takes too long. */
  countRequest({ request: { inputText }, output, owner }: CountableRequest): Promise<number> {
    return inputText.kind === "json"
      ? this.countBody({ body: partBytes(inputText.body), output, owner })
      : countTexts(inputText.texts);
  }

  /** The same for a JSON body. */
  async countBody({ body, output, owner }: CountableBody): Promise<number> {
    if (body.length <= this.#inlineBytesMax) return countInputHere(body, output);
    const tokens = await this.#pool.run({
      owner,
      bytes: body.length,
      async open() {
        // A copy, because the body may still be in transmission to an upstream.
        const bytes = new Uint8Array(body.length);
        await copyInTurns(bytes, 0, body);
        return { job: { kind: "input", bytes, output }, transfer: [bytes.buffer] };
      },
    });
    if (typeof tokens !== "number") throw new Error("expected a count of input");
    return tokens;
  }

  /** The output of a whole response. It is estimated by its length if counting it takes too long. */
  async countResponse(body: readonly Part[], owner: string): Promise<CountedOutput> {
    const length = partsLength(body);
    if (length <= this.#inlineBytesMax) return countResponse(joinParts(body));
    try {
      const counted = await this.#pool.run({
        owner,
        bytes: length,
        async open() {
          const bytes = new Uint8Array((await joinPartsInTurns(body)).buffer as ArrayBuffer);
          return { job: { kind: "response", bytes }, transfer: [bytes.buffer] };
        },
      });
      if (typeof counted === "number") throw new Error("expected a count of a response");
      return counted;
    } catch (error) {
      if (!(error instanceof JobLimitError)) throw error;
      return estimateResponse(length);
    }
  }

  close(): void {
    this.#pool.close();
  }
}
