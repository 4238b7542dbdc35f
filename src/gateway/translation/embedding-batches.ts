/**
 * The batches of one request for embeddings, for an upstream that accepts fewer texts at once than the client may send.
 * The client receives one response. A batch that has succeeded is not sent again if another one fails, and is charged
 * even if the request fails.
 */

import { classifyError } from "../../accounts/classify-error.ts";
import { upstreamFailure } from "../../accounts/failure.ts";
import type { MaybePromise } from "../../base/maybe-promise.ts";
import { joinParts, type Part, partsLength, wholeBytesPart } from "../../base/parts.ts";
import { writeOpenaiTail } from "../../protocols/embeddings/embeddings-response.ts";
import type { TokenUsage } from "../../protocols/shared/usage.ts";
import type { WholeResponseResult } from "../../protocols/whole-response.ts";
import { CLIENT_DISCONNECTED } from "../client-disconnect.ts";
import type { BatchedRequest, BatchedWork, Trace } from "../request/trace.ts";
import type { WholeResult } from "../whole-result.ts";
import type { BatchReading, BatchTerms } from "./translate-embeddings.ts";
import type { SendBody } from "./translated-attempt.ts";

interface EmbeddingBatch {
  readonly body: readonly Part[];
  /** How many texts it has. */
  readonly count: number;
}

interface BatchOptions {
  readonly publicModel: string;
  readonly wantsBase64: boolean;
  /** The vectors have fewer dimensions than the model's own, so they must be normalized. */
  readonly isShortened: boolean;
  /** Counted by the gateway, for upstreams that report no usage. */
  readonly inputTokens: number;
  readonly jsonDepthMax: number;
  /** Translates the response to a batch. */
  read(body: Part, terms: BatchTerms): MaybePromise<BatchReading>;
  countBody(body: Uint8Array): Promise<number>;
}

interface FinishedBatch {
  /** Entries of the client's response, as JSON. */
  readonly entries: Uint8Array;
  readonly usage: TokenUsage | null;
}

/** More would use up the rate limit of the account at once. */
const CONCURRENT_MAX = 4;
/** As for other responses that are not streamed. */
const RESPONSE_BYTES_MAX = 128 * 1024 * 1024;
const HEAD = Buffer.from('{"object":"list","data":[');
const COMMA = Buffer.from(",");

export class EmbeddingBatches implements BatchedRequest {
  readonly #batches: readonly EmbeddingBatch[];
  readonly #options: BatchOptions;
  readonly #finished = new Map<number, FinishedBatch>();
  /** Batches that were in flight when the client disconnected. */
  readonly #abandoned = new Set<number>();
  /** The responses of one request are read one after the other, so that it occupies one thread. */
  #reading: Promise<unknown> = Promise.resolve();

  constructor(batches: readonly EmbeddingBatch[], options: BatchOptions) {
    this.#batches = batches;
    this.#options = options;
  }

  /** Sends the batches that have not succeeded yet. Returns the first failure, or the last response. */
  async send(sendBody: SendBody): Promise<WholeResult> {
    const missing = [...this.#batches.keys()].filter((at) => !this.#finished.has(at));
    let last: WholeResult = failed("no texts");
    for (let from = 0; from < missing.length; from += CONCURRENT_MAX) {
      const group = missing.slice(from, from + CONCURRENT_MAX);
      const results = await Promise.all(group.map((at) => this.#sendOne(at, sendBody)));
      last = results.find(({ kind }) => kind === "failed") ?? results.at(-1) ?? last;
      if (last.kind === "failed") return last;
    }
    return last;
  }

  async #sendOne(at: number, sendBody: SendBody): Promise<WholeResult> {
    const result = await sendBody(this.#batches[at]?.body ?? []);
    if (result.kind === "failed") {
      if (result.failure === CLIENT_DISCONNECTED) this.#abandoned.add(at);
      return result;
    }
    const failure = await this.#read(at, result.body);
    return failure ?? result;
  }

  /** Returns the failure of a response that has no vectors. */
  async #read(at: number, part: Part): Promise<WholeResult | null> {
    const { isShortened, wantsBase64, jsonDepthMax: depthMax } = this.#options;
    const { count = 0 } = this.#batches[at] ?? {};
    const firstIndex = this.#batches.slice(0, at).reduce((sum, one) => sum + one.count, 0);
    const terms = { count, firstIndex, isShortened, wantsBase64, depthMax };
    const reading = this.#reading.then(() => this.#options.read(part, terms));
    this.#reading = reading.catch(() => {});
    const result = await reading;
    switch (result.kind) {
      case "batch":
        this.#finished.set(at, { entries: result.entries, usage: result.usage });
        return null;
      case "error":
        return { kind: "failed", failure: classifyError(200, result.error, null) };
      case "malformed":
        return failed(result.reason);
    }
  }

  get hasWorked(): boolean {
    return this.#finished.size + this.#abandoned.size > 0;
  }

  /** What upstreams have worked on so far; null if nothing. */
  async measureWork(): Promise<BatchedWork | null> {
    if (!this.hasWorked) return null;
    const finished = [...this.#finished.values()];
    const uncounted = [...this.#finished].flatMap(([at, { usage }]) => (usage === null ? [at] : []));
    let countedTokens = 0;
    for (const at of [...uncounted, ...this.#abandoned]) {
      const body = joinParts(this.#batches[at]?.body ?? []);
      countedTokens += await this.#options.countBody(body);
    }
    const usage = sumUsage(finished.map((batch) => batch.usage).filter((one) => one !== null));
    return { usage, countedTokens };
  }

  /** The response for the client. All batches have succeeded. */
  readWhole(): WholeResponseResult {
    const finished = [...this.#batches.keys()].flatMap((at) => this.#finished.get(at) ?? []);
    if (finished.length < this.#batches.length) return { kind: "malformed" };
    const usage = sumUsage(finished.map((batch) => batch.usage));
    const { publicModel, inputTokens } = this.#options;
    const tail = writeOpenaiTail(publicModel, usage?.inputTokens ?? inputTokens);
    const parts = finished.flatMap(({ entries }, at) => (at === 0 ? [entries] : [COMMA, entries]));
    const body = [HEAD, ...parts, Buffer.from(tail)].map(wholeBytesPart);
    if (partsLength(body) > RESPONSE_BYTES_MAX) return { kind: "malformed" };
    return {
      kind: "response",
      body,
      usage,
      images: 0,
      imageKind: null,
      responseId: null,
      status: null,
      hasExpectedContent: true,
    };
  }
}

/** The work of all batches of a request that has failed; null if there is none. */
export async function measureBatches({ batches }: Pick<Trace, "batches">): Promise<BatchedWork | null> {
  const works: BatchedWork[] = [];
  for (const one of batches ?? []) {
    const work = await one.measureWork();
    if (work !== null) works.push(work);
  }
  if (works.length === 0) return null;
  return {
    usage: sumUsage(works.flatMap(({ usage }) => usage ?? [])),
    countedTokens: works.reduce((sum, { countedTokens }) => sum + countedTokens, 0),
  };
}

function failed(reason: string): WholeResult {
  return { kind: "failed", failure: upstreamFailure("bad_answer", reason, 200) };
}

/** Null if a batch reports none: the gateway counts all of them. */
function sumUsage(usages: readonly (TokenUsage | null)[]): TokenUsage | null {
  const reported = usages.filter((usage) => usage !== null);
  const [first] = reported;
  if (first === undefined || reported.length < usages.length) return null;
  return {
    ...first,
    inputTokens: reported.reduce((sum, { inputTokens }) => sum + inputTokens, 0),
    hasImpossibleCount: reported.some(({ hasImpossibleCount }) => hasImpossibleCount),
  };
}
