/** What the gateway reads from a client's request; the rest of the body is passed to the upstream. */

import type { Part } from "../../base/parts.ts";
import type { ApiError } from "../../errors.ts";
import type { ObjectScan } from "../../json/scan.ts";
import type { RequestedTier } from "../../money/token-counts.ts";
import type { InputContents } from "./input-contents.ts";
import type { InputSize } from "./input-size.ts";
import type { SearchOffer } from "./search-limit.ts";

/** A body that can be sent again, to another account with another model name. */
export interface RequestBody {
  readonly contentType: string;
  /**
   * The received body with the upstream's model name, and what metering needs, inserted. `form` is that of a
   * vendor that differs; null for the usual form of the API.
   */
  forUpstream(upstreamModel: string, form?: HostedForm | null): UpstreamBody;
  /**
   * The same for an upstream that remembers this response and the conversation up to it, which is the beginning of the
   * input. Returns null if that part can no longer be identified.
   */
  forUpstreamAfter(upstreamModel: string, known: KnownPrefix): readonly Part[] | null;
  /** The body without reasoning that another account encrypted; null if it has none. */
  withoutEncryptedReasoning(): RequestBody | null;
  /** The body with this output cap: in the fields that the client used for it, or in the named one. */
  withOutputCap(tokens: number, name?: string): RequestBody;
  /** The body with this limit of searches, if its dialect has a member for it. `offer` is that of the same body. */
  withSearchLimit(offer: SearchOffer, searchesMax: number): RequestBody;
  /**
   * True if the client itself sent this word, so that an error may repeat it. In a long body only both ends are
   * searched.
   */
  mentions(word: string): boolean;
  /** Only text and ordinary settings: nothing that exists at one account and not at another. Called after a failure. */
  isPlain(): boolean;
  /** The fault of the JSON text that only the upstream detected. Called after the upstream rejected the request. */
  findJsonError(): Promise<ApiError | null>;
  dispose(): Promise<void>;
}

/** How a vendor changes a body that passes through. Cloud vendors have the model in the path. */
export type HostedForm =
  | {
      readonly api: "messages";
      /** `anthropic_version` of the body. */
      readonly version: string;
      /** `anthropic_beta` of the body; none if empty. */
      readonly betas: readonly string[];
      /** Members that stay in the body. */
      readonly keeps: readonly ("model" | "stream")[];
    }
  /** Function calls have no ids. */
  | { readonly api: "gemini" }
  /** Ids of calls are short. */
  | { readonly api: "chat" };

/** A response, and the number of input bytes up to it, without the opening bracket. */
export interface KnownPrefix {
  readonly responseId: string;
  readonly inputBytes: number;
}

export type InputText =
  /** `values` are those within the containers of the body, at any depth. */
  | { kind: "json"; body: Part; values: number }
  /** A form: its texts, and a digest of the whole form if one is needed. */
  | { kind: "texts"; texts: readonly string[]; formDigest: string | null };

/** A JSON body with the members that its reader knows. */
export interface ScannedBody {
  readonly part: Part;
  readonly scan: ObjectScan<string>;
}

/** In memory as parts, or read from disk each time it is opened. */
export type UpstreamBody = readonly Part[] | { contentLength: number; open(): ReadableStream<Uint8Array> };

export interface ModelRequest {
  /** The requested model, or that of the fallback step that the request has reached. */
  publicModel: string;
  readonly stream: boolean;
  /** Chat: the gateway requested the usage chunk, which must not reach a client that did not request it. */
  readonly hidesUsage: boolean;
  /** Embeddings: the client wants vectors in Base64, which not every upstream supports. */
  readonly wantsBase64: boolean;
  /** The number of choices that a chat stream must finish to be complete. */
  readonly choices: number;
  /** The response that the request continues; in Messages the last one of its thread. */
  readonly previousResponseId: string | null;
  /** The model reads more than the body: a conversation or a prompt that its upstream stores. */
  readonly readsStored: boolean;
  /** The upstream stores the response, so that later calls can reference it. */
  readonly storesResponse: boolean;
  readonly background: boolean;
  /** The estimated tokens of input and output, from the size and the client's own limit. For limits; settled later. */
  tokensEstimate(): number;
  inputSize(): InputSize;
  /** The input in addition to its text. Computed on first use, for paid requests only. */
  inputContents(): InputContents;
  /** The searches of the web that the request lets its upstream run; null if it offers none. For paid requests only. */
  searchOffer(): SearchOffer | null;
  /** The client's limit of output tokens for one choice, or a lower one of the gateway; null if there is none. */
  outputTokensMax: number | null;
  /** Forecasts use this limit if the client's is higher. The limit itself is sent by `OutputCap`. */
  lowerOutputLimit(tokens: number): void;
  /** The requested reasoning effort; null if none. Read on demand, only if the group charges. */
  reasoningEffort(): string | null;
  /** The requested service tier; null for the standard one. Read on demand, only if the model has a price. */
  requestedTier(): RequestedTier | null;
  /** Throws if the client sets an invalid limit. Called for paid requests only: otherwise the upstream checks it. */
  checkBounds(): void;
  /** Size and quality of the requested images, as far as they are set (`image-kind.ts`). */
  readonly imageKind: string | null;
  /** The text to count if the upstream does not report input tokens. */
  readonly inputText: InputText;
  /** The conversation, if the body names one. Called only if there is more than one account. */
  conversationName(): string | null;
  readonly body: RequestBody;
  /** For the rules of a request policy; null for a form. */
  scannedBody(): ScannedBody | null;
}
