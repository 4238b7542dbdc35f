/**
 * One endpoint that calls a model, and everything in which it differs from the others. Each dialect declares its
 * endpoints in its own folder; `protocols/endpoints.ts` lists them all.
 */

import type { Part } from "../../base/parts.ts";
import type { ApiError } from "../../errors.ts";
import type { JsonField } from "../../json/scan.ts";
import type { Splice } from "../../json/splice.ts";
import type { Dialect, Interface } from "../../records/interfaces.ts";
import type { ModelRequest } from "./request.ts";
import type { SearchLimitMember } from "./search-limit.ts";
import type { StreamReader, TextSink } from "./stream.ts";
import type { Audience } from "./upstream-error.ts";
import type { TokenUsage } from "./usage.ts";

export type EndpointName =
  | "responses"
  | "responses.compact"
  | "responses.input_tokens"
  | "chat.completions"
  | "messages"
  | "messages.count_tokens"
  | "embeddings"
  | "images.generations"
  | "images.edits"
  | "gemini.generate_content"
  | "gemini.stream_generate_content"
  | "gemini.count_tokens"
  | "gemini.embed_content"
  | "gemini.batch_embed_contents";

export interface Endpoint extends EndpointTraits {
  readonly name: EndpointName;
  readonly interface: Interface;
  /** Below the prefix of its API here, and below the base URL upstream. `{model}` stands for the name of the model. */
  readonly path: string;
  readonly api: VendorApi;
  /** What the upstream returns. A count of tokens is free. */
  readonly output: "text" | "image" | "vector" | "count";
  /** The member that every whole response has. */
  readonly responseMember: string;
  /** The model that the path of this request names. */
  readonly model?: string;
  /** Throws unless the body has what every upstream requires. Finer checks are left to the upstream. */
  checkContent(bytes: Uint8Array, fields: BodyFields): void;
  readUsage(bytes: Uint8Array, fields: BodyFields): TokenUsage | null;
}

/** What most endpoints have in common: they declare only what differs from `DEFAULT_TRAITS`. */
interface EndpointTraits {
  /** The dialect of its requests, if they can be translated as conversations. */
  readonly dialect: Dialect | null;
  /** Vectors: the dialect of accounts that have the other API for them. */
  readonly vectorDialect: Dialect | null;
  readonly streaming: "on_request" | "always" | "never";
  /** A body may be a form with files. */
  readonly takesForms: boolean;
  /** `GET` on its path opens a WebSocket. */
  readonly hasWebSocket: boolean;
  /** Only the limits of this API, the preferred one first: an upstream ignores others, so they must not reduce a hold. */
  readonly outputLimits: readonly string[];
  /** The gateway may set these limits, to what is paid for. */
  readonly isBounded: boolean;
  /** The output is short although no limit is accepted: a hold for all that the model can write would be far too large. */
  readonly isShort: boolean;
  /** The members that name a service tier; the first that does counts. */
  readonly tierFields: readonly string[];
  /** Streams report their usage only if the request has an option for it. */
  readonly reportsUsageOnRequest: boolean;
  /** Whether an upstream stores the response: unless the client forbids it, or if it is part of a thread. */
  readonly stores: "by_default" | "in_threads" | "never";
  /** A request may continue a response that an upstream stores. */
  readonly continuesResponses: boolean;
  /** How clients carry opaque state in the body; null if they carry none. */
  readonly state: OpaqueStateForm | null;
  /** The response object has a status, and may have an error although it is a response. */
  readonly hasStatus: boolean;
  /** Whether a response without output is a failure: always, with the status `completed`, or never. */
  readonly failsIfEmpty: "always" | "completed" | "never";
  /** Edits of a whole response besides the model name. */
  readonly editWhole: WholeEdit | null;
  /** The input is read once, unless a hosted tool reads more. */
  readonly readsInputOnce: boolean;
  /** The text of reasoning may be billed and not shown. */
  readonly hidesReasoning: boolean;
  readonly searchLimit: SearchLimitMember | null;
  /** The splices that shorten the ids of calls, for a vendor that accepts short ones only. */
  readonly shortenCallIds: ((bytes: Uint8Array, messages: JsonField | undefined) => Splice[]) | null;
  /** Opens the reader of a stream that passes through. */
  readonly openReader: (request: StreamedRequest, options: ReaderOptions) => StreamReader;
  /** A context that is too long is reported as an event of a stream, where clients compact their context. */
  readonly sendsContextErrorAsEvent: boolean;
}

const DEFAULT_TRAITS: EndpointTraits = {
  dialect: null,
  vectorDialect: null,
  streaming: "on_request",
  takesForms: false,
  hasWebSocket: false,
  outputLimits: ["max_completion_tokens", "max_tokens"],
  isBounded: false,
  isShort: false,
  tierFields: ["service_tier"],
  reportsUsageOnRequest: false,
  stores: "never",
  continuesResponses: false,
  state: null,
  hasStatus: false,
  failsIfEmpty: "never",
  editWhole: null,
  readsInputOnce: false,
  hidesReasoning: false,
  searchLimit: null,
  shortenCallIds: null,
  openReader() {
    throw new Error("the endpoint does not stream");
  },
  sendsContextErrorAsEvent: false,
};

/** All endpoints have the same members in the same order, so that reading one is fast. */
export function defineEndpoint(
  own: Omit<Endpoint, keyof EndpointTraits> & Partial<EndpointTraits>,
): Endpoint {
  return { ...DEFAULT_TRAITS, ...own };
}

/** In what the APIs of vendors differ for all of their endpoints. */
export interface VendorApi {
  readonly name: "openai" | "anthropic" | "google";
  /** Begins the paths of its endpoints on this gateway. */
  readonly prefix: "/v1" | "/v1beta";
  /** The path names the model, and not the body. */
  readonly hasModelInPath: boolean;
  readonly countField: "input_tokens" | "totalTokens";
  readonly keepAlive: Uint8Array;
  /** A header of every response that its SDKs read the id of a request from, besides `x-request-id`. */
  readonly requestIdHeader: "request-id" | null;
  errorStatus(error: ApiError): number;
  writeError(error: ApiError, requestId: string): ClientError;
}

/** An error in the form of an API: the status, the headers and the body. */
export interface ClientError {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: object;
}

/** The members of a body that a scan has found. */
export type BodyFields = { readonly [name: string]: JsonField | undefined };

/** The splices that remove opaque state from a body. */
export interface OpaqueStateForm {
  /** The state of other vendors in the gateway's envelopes, which an account with the interface would reject. */
  dropSealed(part: Part, fields: BodyFields, depthMax: number): readonly Splice[];
  /** All state. For a request that was rejected because of it. */
  dropAll(part: Part, fields: BodyFields, depthMax: number): readonly Splice[];
}

export interface ScannedWhole {
  readonly whole: Part;
  readonly fields: BodyFields;
  readonly audience: Audience;
  readonly depthMax: number;
  /** Makes an upstream message public; empty if nothing of it remains. */
  toPublicMessage(message: string): string;
}

export type WholeEdit = (scanned: ScannedWhole) => readonly Splice[];

export type StreamedRequest = Pick<ModelRequest, "publicModel" | "hidesUsage" | "choices">;

export interface ReaderOptions {
  readonly depthMax: number;
  nowMs(): number;
  /** Without a sink no text is extracted from the deltas, which costs nothing. */
  readonly sink?: TextSink | null;
  readonly previousResponseId?: string | null;
}

export function publicPath({ api, path }: Endpoint): string {
  return `${api.prefix}${path}`;
}

/** The upstream returns text, so that it can be counted if the upstream reports no usage. */
export function hasTextOutput({ output }: Pick<Endpoint, "output">): boolean {
  return output === "text" || output === "count";
}
