/** What the gateway must know of a client's request; the rest of the body is the upstream's business. */

import type { Interface } from "../records.ts";
import type { Part } from "../wire/splice.ts";

/** A body that can be sent again, to another account under another model name. */
export interface RequestBody {
  readonly contentType: string;
  /** The body as it came, with the upstream's model name (and what metering needs) put in. */
  forUpstream(upstreamModel: string): UpstreamBody;
  /** The body without reasoning that another account encrypted; null when it holds none. */
  withoutEncryptedReasoning(): RequestBody | null;
  /** True if the client itself sent this word: then an answer may repeat it. */
  mentions(word: string): boolean;
  dispose(): Promise<void>;
}

/** In memory, in parts; or read from disk anew each time it is opened. */
export type UpstreamBody = readonly Part[] | { contentLength: number; open(): ReadableStream<Uint8Array> };

export interface ModelRequest {
  readonly publicModel: string;
  readonly stream: boolean;
  /** Chat: the usage chunk was forced by us and must not reach a client that did not ask for it. */
  readonly hidesUsage: boolean;
  /** How many choices a chat stream has to finish before it is complete. */
  readonly choices: number;
  readonly previousResponseId: string | null;
  /** The upstream keeps the response, so that later calls can name it. */
  readonly keepsResponse: boolean;
  readonly background: boolean;
  /** Tokens it may take, in and out, judged from its size and its own bound: for limits, settled later. */
  readonly tokensEstimate: number;
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
