/**
 * Counts the input tokens of requests. A long body is counted in a thread, so that it does not block other requests. The
 * thread loads the tokenizer once.
 */

import { copyInTurns } from "../../base/next-turn.ts";
import { partBytes } from "../../base/parts.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import { ThreadPool, type ThreadPoolLimits } from "../threads/thread-pool.ts";
import { countInputHere, countTexts } from "./count-request.ts";

/** The job of the thread. */
export interface CountJob {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly output: Endpoint["output"];
}

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
  readonly #pool: ThreadPool<CountJob, number>;

  constructor({ limits, monotonicMs }: InputCounterOptions) {
    this.#inlineBytesMax = limits.inlineBytesMax;
    // One thread: each loads a tokenizer, and counts are needed rarely.
    const jobBytesMax = [Number.POSITIVE_INFINITY];
    this.#pool = new ThreadPool({ jobBytesMax, limits, startWorker, monotonicMs });
  }

  /** Counts without earlier turns that the upstream stores. Rejects with a `JobLimitError` if it takes too long. */
  countRequest({ request: { inputText }, output, owner }: CountableRequest): Promise<number> {
    return inputText.kind === "json"
      ? this.countBody({ body: partBytes(inputText.body), output, owner })
      : countTexts(inputText.texts);
  }

  /** The same for a JSON body. */
  countBody({ body, output, owner }: CountableBody): Promise<number> {
    if (body.length <= this.#inlineBytesMax) return countInputHere(body, output);
    return this.#pool.run({
      owner,
      bytes: body.length,
      async open() {
        // A copy, because the body may still be in transmission to an upstream.
        const bytes = new Uint8Array(body.length);
        await copyInTurns(bytes, 0, body);
        return { job: { bytes, output }, transfer: [bytes.buffer] };
      },
    });
  }

  close(): void {
    this.#pool.close();
  }
}

function startWorker(): Worker {
  return new Worker(new URL("./count-worker.ts", import.meta.url).href);
}
