/** What the gateway must know of a client's request; the rest of the body is the upstream's business. */

import type { ApiError } from "../../errors.ts";
import type { Part } from "../../net/wire/parts.ts";
import type { Interface } from "../../records.ts";
import type { InputReach } from "./input-reach.ts";
import type { InputSize } from "./input-size.ts";

/** A body that can be sent again, to another account under another model name. */
export interface RequestBody {
  readonly contentType: string;
  /** The body as it came, with the upstream's model name (and what metering needs) put in. */
  forUpstream(upstreamModel: string): UpstreamBody;
  /**
   * The same for an upstream that remembers this response and all that was said up to it, which is the beginning of the
   * input; null where that can no longer be told apart.
   */
  forUpstreamAfter(upstreamModel: string, heard: UpstreamRejection): readonly Part[] | null;
  /** The body without reasoning that another account encrypted; null when it holds none. */
  withoutEncryptedReasoning(): RequestBody | null;
  /** The body with the answer bounded to so many tokens: in the fields that the client used for it, or in this one. */
  withOutputCap(tokens: number, name?: string): RequestBody;
  /** True if the client itself sent this word, so that an answer may repeat it. Of a long body only both ends are searched. */
  mentions(word: string): boolean;
  /** Text and ordinary settings alone: nothing that is at one account and not at another. Asked for after a failure. */
  isPlain(): boolean;
  /** What is wrong with the text itself, where only an upstream noticed it. Asked for after it refused the request. */
  flaw(): Promise<ApiError | null>;
  dispose(): Promise<void>;
}

/** A response, and how many bytes of an input (its bracket not counted) were said up to it. */
export interface UpstreamRejection {
  readonly responseId: string;
  readonly inputBytes: number;
}

export type InputText =
  | { kind: "json"; body: Part }
  /** A form: the text in it, and a digest of all of it if one is needed. */
  | { kind: "texts"; texts: readonly string[]; formDigest: string | null };

/** In memory, in parts; or read from disk anew each time it is opened. */
export type UpstreamBody = readonly Part[] | { contentLength: number; open(): ReadableStream<Uint8Array> };

export interface ModelRequest {
  readonly publicModel: string;
  readonly stream: boolean;
  /** Chat: the usage chunk was forced by us and must not reach a client that did not ask for it. */
  readonly hidesUsage: boolean;
  /** Embeddings: vectors are to come in Base64, which not every upstream knows. */
  readonly wantsBase64: boolean;
  /** How many choices a chat stream has to finish before it is complete. */
  readonly choices: number;
  readonly previousResponseId: string | null;
  /** The model reads more than the body: what its upstream keeps of a conversation, or a prompt. */
  readonly readsKept: boolean;
  /** The upstream keeps the response, so that later calls can name it. */
  readonly keepsResponse: boolean;
  readonly background: boolean;
  /** Tokens it may take, in and out, judged from its size and its own bound: for limits, settled later. */
  tokensEstimate(): number;
  /** What it gives the model to read. */
  inputSize(): InputSize;
  /** What it may give the model to read beside its text. Worked out when first asked for: only where somebody pays. */
  inputReach(): InputReach;
  /** The bound that the client sets to one answer; null when it sets none. */
  readonly outputTokensMax: number | null;
  /** The effort of reasoning that it asks for; null when it asks for none. Read when asked for: only where a group charges. */
  reasoningEffort(): string | null;
  /** Throws the refusal where the client sets one that is no bound. Only where somebody pays: else it is the upstream's. */
  checkBounds(): void;
  /** Size and quality of the pictures it asks for, as far as it says (`image-kind.ts`). */
  readonly imageKind: string | null;
  /** What is counted when the upstream does not report the length of the input. */
  readonly inputText: InputText;
  /** Names the conversation, if the body does; asked for only when there is more than one account. */
  conversation(): string | null;
  readonly body: RequestBody;
}

/** One model-calling endpoint: its address on both sides and the family it belongs to. */
export interface Endpoint {
  readonly name: EndpointName;
  readonly interface: Interface;
  /** Below `/v1` here and below the base URL upstream. */
  readonly path: string;
}

export type EndpointName =
  | "responses"
  | "responses.compact"
  | "responses.input_tokens"
  | "chat.completions"
  | "embeddings"
  | "images.generations"
  | "images.edits";

export const ENDPOINTS: readonly Endpoint[] = [
  { name: "responses", interface: "responses", path: "/responses" },
  { name: "responses.compact", interface: "responses", path: "/responses/compact" },
  { name: "responses.input_tokens", interface: "responses", path: "/responses/input_tokens" },
  { name: "chat.completions", interface: "chat", path: "/chat/completions" },
  { name: "embeddings", interface: "embeddings", path: "/embeddings" },
  { name: "images.generations", interface: "images", path: "/images/generations" },
  { name: "images.edits", interface: "images", path: "/images/edits" },
];
