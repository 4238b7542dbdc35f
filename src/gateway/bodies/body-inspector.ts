/**
 * Checks and measures long JSON bodies in threads, so that they do not block other requests. The bytes are transferred
 * to the thread and back without a copy.
 */

import type { RequestInspection } from "../../protocols/read-request.ts";
import type { PolicyResult } from "../../protocols/request-policy/apply-rules.ts";
import type { Endpoint, EndpointName } from "../../protocols/shared/endpoint.ts";
import type { JsonRequestLimits } from "../../protocols/shared/json-request.ts";
import type { BodyRules } from "../../records/request-policy.ts";
import { ThreadPool, type ThreadPoolLimits } from "../../threads/thread-pool.ts";

export interface InspectionJob {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly endpoint: EndpointName;
  /** That the path names. */
  readonly model: string | undefined;
  readonly limits: JsonRequestLimits;
  /** The rules of a request policy that are applied first. */
  readonly rules: BodyRules | null;
}

export interface InspectedBody {
  readonly bytes: Uint8Array;
  readonly inspection: RequestInspection;
  /** Null if there were no rules. */
  readonly policy: Omit<PolicyResult, "changed"> | null;
}

export interface InspectionThreadLimits extends ThreadPoolLimits {
  readonly shortJobBytesMax: number;
}

interface BodyInspectorOptions {
  readonly jsonLimits: JsonRequestLimits;
  readonly threadLimits: InspectionThreadLimits;
  monotonicMs(): number;
}

/** A body that no other object uses. */
interface OwnBody {
  /** The array covers its whole buffer, which is detached: the result has the bytes. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly endpoint: Endpoint;
  /** Bodies of different owners take turns. */
  readonly owner: string;
  readonly rules?: BodyRules | null;
}

const LIMIT_TEXTS = {
  tooLarge: "The body is too large or too complex to be checked. Shorten it.",
  overloaded: "Too many long bodies wait to be checked. Try again in 1 s.",
};

export class BodyInspector {
  readonly #jsonLimits: JsonRequestLimits;
  readonly #pool: ThreadPool<InspectionJob, InspectedBody>;

  constructor({ jsonLimits, threadLimits, monotonicMs }: BodyInspectorOptions) {
    this.#jsonLimits = jsonLimits;
    this.#pool = new ThreadPool({
      shortJobBytesMax: threadLimits.shortJobBytesMax,
      limits: threadLimits,
      startWorker: () => new Worker(new URL("./body-inspector-worker.ts", import.meta.url).href),
      monotonicMs,
    });
  }

  /** Rejects with the error of a body that cannot be served. */
  async inspect({ bytes, endpoint, owner, rules = null }: OwnBody): Promise<InspectedBody> {
    const { name, model } = endpoint;
    const job: InspectionJob = { bytes, endpoint: name, model, limits: this.#jsonLimits, rules };
    const message = { job, transfer: [bytes.buffer] };
    const open = async () => message;
    const inspected = await this.#pool.runForClient({ owner, bytes: bytes.length, open }, LIMIT_TEXTS);
    return { ...inspected, bytes: Buffer.from(inspected.bytes.buffer) };
  }

  close(): void {
    this.#pool.close();
  }
}
