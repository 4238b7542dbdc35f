/**
 * Translates long requests and responses in threads, and reads long responses that pass there, so that none of them
 * blocks the event loop.
 */

import { copyInTurns } from "../../base/next-turn.ts";
import { type Part, partBytes, wholePart } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import type { ToolNames } from "../../protocols/hub/dialect-codec.ts";
import type { WholeResponseResult } from "../../protocols/whole-response.ts";
import type { Keyring } from "../../secrets/keyring.ts";
import { JobLimitError, jobError } from "../../threads/job-limit-error.ts";
import type { JobMessage, PoolJob } from "../../threads/pool-thread.ts";
import { ThreadPool, type ThreadPoolLimits } from "../../threads/thread-pool.ts";
import type { InputItemsTerms } from "../stored-responses/input-items.ts";
import type { SealTarget } from "./state-seals.ts";
import type {
  BatchReading,
  BatchTerms,
  EmbeddingsTerms,
  EmbeddingsTranslation,
  VectorTerms,
} from "./translate-embeddings.ts";
import type { RequestTerms, RequestTranslation } from "./translate-request.ts";
import type { ResponseTranslation } from "./translate-response.ts";
import {
  type ClientTerms,
  KnownToolNames,
  type PassedTerms,
  parseRepeated,
  type RequestJobResult,
  type SealKeys,
  type TranslationJob,
  type TranslationResult,
} from "./translation-jobs.ts";

interface TranslationThreadLimits extends ThreadPoolLimits {
  /** A longer request, with the conversation that it continues, is translated in a thread. */
  readonly requestBytesMin: number;
  /** The same for a whole response. */
  readonly responseBytesMin: number;
  readonly shortJobBytesMax: number;
  /** A request with the conversation that it continues. */
  readonly requestBytesMax: number;
  /** What the response repeats of the request, such as its tools: it is parsed here. */
  readonly repeatedCharsMax: number;
}

interface LongRequest {
  readonly body: Part;
  readonly turns: readonly Uint8Array[];
  readonly terms: RequestTerms;
  readonly seals: SealTarget;
}

interface LongResponse {
  readonly body: Part;
  readonly upstream: RequestTerms["target"]["dialect"];
  readonly toolNames: ToolNames;
  readonly seals: SealTarget;
  readonly client: ClientTerms;
  readonly isStored: boolean;
}

interface TranslatedLongResponse {
  readonly translation: ResponseTranslation;
  readonly dropped: readonly string[];
}

/** A request or response of embeddings, the input of a stored response, or a response that passes. */
interface LongPart<Terms> {
  readonly owner: string;
  readonly body: Part;
  readonly terms: Terms;
}

type ResultKind = TranslationResult["kind"];
type ResultOf<Kind extends ResultKind> = Extract<TranslationResult, { readonly kind: Kind }>;

interface TranslationThreadsOptions {
  readonly limits: TranslationThreadLimits;
  readonly keyring: Keyring;
  monotonicMs(): number;
}

export class TranslationThreads {
  readonly limits: TranslationThreadLimits;
  readonly #keyring: Keyring;
  readonly #pool: ThreadPool<TranslationJob, TranslationResult>;

  constructor({ limits, keyring, monotonicMs }: TranslationThreadsOptions) {
    this.limits = limits;
    this.#keyring = keyring;
    this.#pool = new ThreadPool({
      shortJobBytesMax: limits.shortJobBytesMax,
      limits,
      startWorker: () => new Worker(new URL("./translation-worker.ts", import.meta.url).href),
      monotonicMs,
    });
  }

  /** Rejects with the error for the client. */
  async translateRequest(request: LongRequest): Promise<RequestTranslation> {
    const bytes = requestLength(request);
    if (bytes > this.limits.requestBytesMax) throw tooLargeError();
    let result = await this.#runRequest(request, bytes, []);
    const found = result.missingKids.filter((kid) => this.#keyring.get(kid) !== null);
    // The state was sealed before the master key was rotated.
    if (found.length > 0) result = await this.#runRequest(request, bytes, found);
    const { toolNames, repeated, ...translation } = result;
    if (repeated.length > this.limits.repeatedCharsMax) throw tooLargeError();
    return {
      ...translation,
      toolNames: new KnownToolNames(toolNames),
      repeated: parseRepeated(repeated),
    };
  }

  /** A response that exceeds a limit counts as malformed. */
  async translateResponse(response: LongResponse): Promise<TranslatedLongResponse> {
    const { body, upstream, seals, client, isStored } = response;
    const job = partJob({ owner: seals.owner, body }, (copy) => ({
      kind: "response",
      body: copy,
      upstream,
      toolNames: response.toolNames.listChanged(),
      seals: { target: plainTarget(seals), keys: this.#listKeys([]) },
      client,
      isStored,
    }));
    return this.#runResponse(job);
  }

  /** Rejects with the error for the client. */
  async translateEmbeddings(part: LongPart<EmbeddingsTerms>): Promise<EmbeddingsTranslation> {
    const job = partJob(part, (body) => ({ kind: "embeddings", body, terms: part.terms }));
    return (await this.#runForClient("embeddings", job)).translation;
  }

  /** A response that exceeds a limit counts as malformed. */
  async translateVectors(part: LongPart<VectorTerms>): Promise<ResponseTranslation> {
    const job = partJob(part, (body) => ({ kind: "vectors", body, terms: part.terms }));
    return (await this.#runResponse(job)).translation;
  }

  /** A response that exceeds a limit counts as malformed. */
  async readBatch(part: LongPart<BatchTerms>): Promise<BatchReading> {
    const job = partJob(part, (body) => ({ kind: "batch", body, terms: part.terms }));
    try {
      return (await this.#run("batch", job)).reading;
    } catch (error) {
      if (!(error instanceof JobLimitError) || error.isOverload) throw toApiError(error);
      return { kind: "malformed", reason: "the response is too complex" };
    }
  }

  /** Rejects with the error for the client. */
  async listInputItems(part: LongPart<InputItemsTerms>): Promise<Uint8Array<ArrayBuffer>> {
    const job = partJob(part, (body) => ({ kind: "input_items", body, terms: part.terms }));
    return (await this.#runForClient("input_items", job)).body;
  }

  /** A response that exceeds a limit, or finds too many others waiting, counts as malformed. */
  async readPassed(part: LongPart<PassedTerms>): Promise<WholeResponseResult> {
    const job = partJob(part, (body) => ({ kind: "passed", body, terms: part.terms }));
    try {
      const { response } = await this.#run("passed", job);
      if (response.kind !== "response") return response;
      return { ...response, body: wholePart(Buffer.from(response.body.buffer)) };
    } catch (error) {
      if (!(error instanceof JobLimitError)) throw error;
      return { kind: "malformed" };
    }
  }

  close(): void {
    this.#pool.close();
  }

  async #runResponse(job: PoolJob<TranslationJob>): Promise<TranslatedLongResponse> {
    try {
      return await this.#run("response", job);
    } catch (error) {
      if (!(error instanceof JobLimitError) || error.isOverload) throw toApiError(error);
      return { translation: { kind: "malformed" }, dropped: [] };
    }
  }

  async #runRequest(
    request: LongRequest,
    bytes: number,
    moreKids: readonly string[],
  ): Promise<RequestJobResult> {
    const open = () => this.#openRequest(request, moreKids);
    return this.#runForClient("request", { owner: request.seals.owner, bytes, open });
  }

  #runForClient<Kind extends ResultKind>(kind: Kind, job: PoolJob<TranslationJob>): Promise<ResultOf<Kind>> {
    return this.#run(kind, job).catch((error: unknown) => {
      throw toApiError(error);
    });
  }

  async #run<Kind extends ResultKind>(kind: Kind, job: PoolJob<TranslationJob>): Promise<ResultOf<Kind>> {
    const result = await this.#pool.run(job);
    if (result.kind !== kind) throw new Error(`expected the result of a job of the kind ${kind}`);
    return result as ResultOf<Kind>;
  }

  async #openRequest(
    { body, turns, terms, seals }: LongRequest,
    moreKids: readonly string[],
  ): Promise<JobMessage<TranslationJob>> {
    const copy = await copyPart(body);
    const copiedTurns: Uint8Array<ArrayBuffer>[] = [];
    for (const turn of turns) copiedTurns.push(await copyBytes(turn));
    return {
      job: {
        kind: "request",
        body: copy,
        turns: copiedTurns,
        terms,
        seals: { target: plainTarget(seals), keys: this.#listKeys(moreKids) },
      },
      transfer: [copy, ...copiedTurns].map(({ buffer }) => buffer),
    };
  }

  #listKeys(moreKids: readonly string[]): SealKeys {
    const { activeKid } = this.#keyring;
    const keys = [activeKid, ...moreKids].flatMap((kid): [string, Uint8Array][] => {
      const key = this.#keyring.get(kid);
      return key === null ? [] : [[kid, key]];
    });
    return { activeKid, keys };
  }
}

/** How long a request and the conversation that it continues are together. */
export function requestLength({ body, turns }: Pick<LongRequest, "body" | "turns">): number {
  return turns.reduce((sum, turn) => sum + turn.length, body.end - body.start);
}

/** Only what is used: the account has credentials and functions. */
function plainTarget({ route, dialect, owner }: SealTarget): SealTarget {
  return {
    route: { account: { id: route.account.id }, upstreamModel: route.upstreamModel },
    dialect,
    owner,
  };
}

function partJob(
  { owner, body }: Omit<LongPart<unknown>, "terms">,
  build: (copy: Uint8Array<ArrayBuffer>) => TranslationJob,
): PoolJob<TranslationJob> {
  const open = async () => {
    const copy = await copyPart(body);
    return { job: build(copy), transfer: [copy.buffer] };
  };
  return { owner, bytes: body.end - body.start, open };
}

function copyPart(part: Part): Promise<Uint8Array<ArrayBuffer>> {
  return copyBytes(partBytes(part));
}

/** The original stays: it may be sent to another account. */
async function copyBytes(bytes: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  const copy = new Uint8Array(bytes.length);
  await copyInTurns(copy, 0, bytes);
  return copy;
}

const TOO_LARGE =
  "The request is too large or too complex to be translated. This model's upstream has another interface, so the request must be translated. Shorten the conversation, its tools or its media.";
const OVERLOADED = "Too many long requests wait to be translated. Try again in 1 s.";

function tooLargeError(): ApiError {
  return new ApiError("request_too_large", TOO_LARGE);
}

function toApiError(error: unknown): unknown {
  return jobError(error, { tooLarge: TOO_LARGE, overloaded: OVERLOADED });
}
