/** What crosses to the threads of translation and back: bytes, names and settings, never a graph of objects. */

import { parseLossless } from "../../json/lossless.ts";
import type {
  ChangedToolName,
  ClientTarget,
  RepeatedRequest,
  ToolNames,
} from "../../protocols/hub/dialect-codec.ts";
import type { EndpointName } from "../../protocols/shared/endpoint.ts";
import type { Audience } from "../../protocols/shared/upstream-error.ts";
import type { UpstreamResponse, WholeResponseResult } from "../../protocols/whole-response.ts";
import type { Dialect } from "../../records/interfaces.ts";
import type { Keyring } from "../../secrets/keyring.ts";
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

/** Master keys for the opaque state of a conversation. */
export interface SealKeys {
  readonly activeKid: string;
  readonly keys: readonly (readonly [kid: string, key: Uint8Array])[];
}

/** The state is sealed and opened for this account and owner. */
interface SealTerms {
  readonly target: SealTarget;
  readonly keys: SealKeys;
}

export interface RequestJob {
  readonly kind: "request";
  readonly body: Uint8Array<ArrayBuffer>;
  readonly turns: readonly Uint8Array<ArrayBuffer>[];
  readonly terms: RequestTerms;
  readonly seals: SealTerms;
}

export interface ResponseJob {
  readonly kind: "response";
  readonly body: Uint8Array<ArrayBuffer>;
  readonly upstream: Dialect;
  readonly toolNames: readonly ChangedToolName[];
  readonly seals: SealTerms;
  readonly client: ClientTerms;
  readonly isStored: boolean;
}

/** A `ClientTarget` without its functions. */
export interface ClientTerms
  extends Pick<
    ClientTarget,
    "publicModel" | "responseId" | "previousResponseId" | "inputTokensEstimate" | "nowMs" | "wantsUsageChunk"
  > {
  /** What the response repeats of the request, as JSON. */
  readonly repeated: string;
}

/** A job about one body. */
interface BodyJob<Kind extends string, Terms> {
  readonly kind: Kind;
  readonly body: Uint8Array<ArrayBuffer>;
  readonly terms: Terms;
}

export type EmbeddingsJob = BodyJob<"embeddings", EmbeddingsTerms>;
type VectorsJob = BodyJob<"vectors", VectorTerms>;
/** A batch of vectors of Google's. */
export type BatchJob = BodyJob<"batch", BatchTerms>;
/** A page of the input of a stored response. */
export type InputItemsJob = BodyJob<"input_items", InputItemsTerms>;
/** A long response that passes. */
export type PassedJob = BodyJob<"passed", PassedTerms>;

export interface PassedTerms {
  readonly endpoint: EndpointName;
  readonly audience: Omit<Audience, "mentions">;
  readonly depthMax: number;
}

/** Nothing describes so long a response for traces. */
type PassedResponse =
  | (Omit<UpstreamResponse, "body" | "describe"> & { readonly body: Uint8Array<ArrayBuffer> })
  | Exclude<WholeResponseResult, UpstreamResponse>;

export type TranslationJob =
  | RequestJob
  | ResponseJob
  | EmbeddingsJob
  | VectorsJob
  | BatchJob
  | InputItemsJob
  | PassedJob;

export interface RequestJobResult extends Omit<RequestTranslation, "toolNames" | "repeated"> {
  readonly kind: "request";
  readonly toolNames: readonly ChangedToolName[];
  /** As JSON. */
  readonly repeated: string;
  /** Keys that the thread did not have. */
  readonly missingKids: readonly string[];
}

interface ResponseJobResult {
  readonly kind: "response";
  readonly translation: ResponseTranslation;
  readonly dropped: readonly string[];
}

export type TranslationResult =
  | RequestJobResult
  | ResponseJobResult
  | { readonly kind: "embeddings"; readonly translation: EmbeddingsTranslation }
  | { readonly kind: "batch"; readonly reading: BatchReading }
  | { readonly kind: "input_items"; readonly body: Uint8Array<ArrayBuffer> }
  | { readonly kind: "passed"; readonly response: PassedResponse };

/** A client can name any number of keys in its state. */
const MISSING_KIDS_MAX = 8;

/** The keys that a job brought, and the names of those that it lacked. */
export class JobKeyring implements Keyring {
  readonly activeKid: string;
  readonly #keys: ReadonlyMap<string, Uint8Array>;
  readonly #missing = new Set<string>();

  constructor({ activeKid, keys }: SealKeys) {
    this.activeKid = activeKid;
    this.#keys = new Map(keys);
  }

  get missingKids(): readonly string[] {
    return [...this.#missing];
  }

  get(kid: string): Uint8Array | null {
    const key = this.#keys.get(kid) ?? null;
    if (key === null && this.#missing.size < MISSING_KIDS_MAX) this.#missing.add(kid);
    return key;
  }
}

/** The text was written by `JSON.stringify`, so it has the type that it was written with. */
export function parseRepeated(json: string): RepeatedRequest {
  return parseLossless(json) as RepeatedRequest;
}

/** The names that a thread returned. */
export class KnownToolNames implements ToolNames {
  readonly #changed: ReadonlyMap<string, ChangedToolName[1]>;

  constructor(changed: readonly ChangedToolName[]) {
    this.#changed = new Map(changed);
  }

  resolve(upstreamName: string): ChangedToolName[1] | null {
    return this.#changed.get(upstreamName) ?? null;
  }

  listChanged(): ChangedToolName[] {
    return [...this.#changed];
  }
}
