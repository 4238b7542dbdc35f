/**
 * A request in the form between dialects. A reader builds it from the client's dialect, a writer builds the upstream's
 * dialect from it. A request whose client and upstream share a dialect never takes this form: its bytes pass through.
 */

import type { Dialect } from "../../records/interfaces.ts";
import type { Effort } from "../../records/request-policy.ts";

export type { Dialect } from "../../records/interfaces.ts";
export { EFFORTS, type Effort } from "../../records/request-policy.ts";

export interface HubRequest {
  /** The dialect that the request was read from. */
  readonly dialect: Dialect;
  readonly publicModel: string;
  readonly stream: boolean;
  /** The system prompt: instructions and leading system messages. Parts keep the borders of cache hints. */
  readonly instructions: readonly TextPart[];
  readonly items: readonly HubItem[];
  readonly tools: readonly HubTool[];
  readonly toolChoice: HubToolChoice | null;
  readonly settings: HubSettings;
  /** Fields of the client's request that the hub cannot express, by their path. They are dropped and named. */
  readonly unread: readonly string[];
  /** The client's request as parsed, for responses that repeat its settings. */
  readonly original: Readonly<Record<string, unknown>>;
}

/** One element of the conversation, in the order of the conversation. */
export type HubItem = MessageItem | ReasoningItem | CallItem | CallOutputItem | SearchItem | ForeignItem;

export interface MessageItem {
  readonly kind: "message";
  readonly role: "user" | "assistant" | "system";
  readonly parts: readonly HubPart[];
}

export interface ReasoningItem {
  readonly kind: "reasoning";
  /** The visible reasoning; empty if the vendor shows none. */
  readonly text: string;
  readonly isSummary: boolean;
  /** The vendor hides this reasoning and sends its state alone (`redacted_thinking`). */
  readonly isRedacted?: boolean;
  readonly opaque: OpaqueState | null;
}

export interface CallItem {
  readonly kind: "call";
  readonly callId: string;
  readonly name: string;
  /** The namespace of Responses that the tool belongs to. */
  readonly namespace: string | null;
  /** `custom`: the input is free text instead of JSON. */
  readonly tool: "function" | "custom";
  /** JSON text for a function (empty means no arguments), free text for a custom tool. */
  readonly input: string;
  /** A signature that belongs to this very call (Gemini). */
  readonly opaque: OpaqueState | null;
}

export interface CallOutputItem {
  readonly kind: "call_output";
  readonly callId: string;
  readonly tool: "function" | "custom";
  readonly parts: readonly HubPart[];
  readonly isError: boolean;
  readonly cacheHint: CacheHint | null;
}

/** A search of the web that the upstream has run. */
export interface SearchItem {
  readonly kind: "search";
  /** Empty if the upstream does not report it. */
  readonly query: string;
  /** The addresses of the pages that were found. */
  readonly urls: readonly string[];
}

/** An item that only its own dialect understands, such as the record of a hosted tool. */
interface ForeignItem {
  readonly kind: "foreign";
  readonly dialect: Dialect;
  /** Named when it is dropped: `input[3].web_search_call`. */
  readonly path: string;
  readonly json: unknown;
}

export type HubPart = TextPart | ImagePart | FilePart | AudioPart | RefusalPart;

export interface TextPart {
  readonly kind: "text";
  readonly text: string;
  readonly cacheHint: CacheHint | null;
  /** The pages that a text of the assistant is based on. Absent if there are none. */
  readonly citations?: readonly Citation[];
}

/** A page that a part of a text is based on. */
export interface Citation {
  readonly url: string;
  readonly title: string;
  /** The first character of the part, and the one after its last. */
  readonly start: number;
  readonly end: number;
}

interface ImagePart {
  readonly kind: "image";
  readonly source: MediaSource;
  /** `low`, `high`, `auto` of OpenAI; null if not set. */
  readonly detail: string | null;
  readonly cacheHint: CacheHint | null;
}

interface FilePart {
  readonly kind: "file";
  readonly source: MediaSource;
  readonly filename: string | null;
  readonly cacheHint: CacheHint | null;
}

interface AudioPart {
  readonly kind: "audio";
  /** `wav`, `mp3`. */
  readonly format: string;
  readonly base64: string;
}

export interface RefusalPart {
  readonly kind: "refusal";
  readonly text: string;
}

export type MediaSource =
  | { readonly kind: "base64"; readonly mediaType: string; readonly base64: string }
  | { readonly kind: "url"; readonly url: string; readonly mediaType: string | null }
  /** Stored at a vendor, so it exists at native accounts only. */
  | { readonly kind: "file_id"; readonly id: string };

/** The client asks the upstream to cache the prompt up to here. */
export interface CacheHint {
  readonly ttl: "5m" | "1h";
}

/**
 * State that a client carries without understanding it: a signature of thinking, encrypted reasoning. `sealed` is the
 * gateway's envelope (`sealed-state.ts`); `vendor` is a state that the client received elsewhere.
 */
export type OpaqueState =
  | { readonly kind: "sealed"; readonly envelope: string }
  | {
      readonly kind: "vendor";
      readonly dialect: Dialect;
      readonly field: OpaqueField;
      readonly value: string;
    };

export type OpaqueField = "encrypted_content" | "signature" | "redacted_thinking" | "thought_signature";

export type HubTool = FunctionTool | CustomTool | HostedTool;

export interface FunctionTool {
  readonly kind: "function";
  readonly name: string;
  readonly namespace: string | null;
  readonly description: string | null;
  /** A JSON schema; null if the tool takes no arguments. */
  readonly parameters: Readonly<Record<string, unknown>> | null;
  readonly strict: boolean | null;
  readonly cacheHint: CacheHint | null;
  /**
   * Responses: the built-in tool that the client runs itself and that the function stands in for. Its calls are given
   * back in their own form.
   */
  readonly builtIn?: BuiltInTool;
}

export type BuiltInTool = "tool_search" | "local_shell" | "shell" | "apply_patch";

/** A tool whose input is free text, optionally by a grammar. */
export interface CustomTool {
  readonly kind: "custom";
  readonly name: string;
  readonly namespace: string | null;
  readonly description: string | null;
  /** The grammar as text, for the description of the function that stands in for the tool. */
  readonly grammar: string | null;
  /** The notation of the grammar: `lark`, `regex`. */
  readonly grammarSyntax?: string;
}

/** A tool that the vendor runs. `web_search` has a counterpart at most vendors; others exist in one dialect only. */
export interface HostedTool {
  readonly kind: "hosted";
  readonly dialect: Dialect;
  readonly type: "web_search" | "other";
  /** Named when it is dropped or rejected: `tools[2].code_interpreter`. */
  readonly path: string;
  readonly json: Readonly<Record<string, unknown>>;
}

export type HubToolChoice =
  | { readonly kind: "auto" | "required" | "none" }
  | { readonly kind: "tool"; readonly name: string; readonly namespace: string | null }
  /** Only these tools may be called. */
  | { readonly kind: "allowed"; readonly mode: "auto" | "required"; readonly names: readonly string[] };

/** Null means: not set by the client. */
export interface HubSettings {
  readonly outputTokensMax: number | null;
  readonly temperature: number | null;
  readonly topP: number | null;
  readonly topK: number | null;
  readonly stop: readonly string[] | null;
  readonly seed: number | null;
  readonly presencePenalty: number | null;
  readonly frequencyPenalty: number | null;
  readonly logprobs: number | null;
  readonly choices: number;
  readonly parallelCalls: boolean | null;
  readonly reasoning: HubReasoning | null;
  readonly format: HubFormat | null;
  /** `low`, `medium`, `high` of OpenAI. */
  readonly verbosity: string | null;
  readonly serviceTier: string | null;
  readonly promptCacheKey: string | null;
  readonly promptCacheRetention: string | null;
  /** An object of OpenAI's two dialects, copied unchanged. */
  readonly promptCacheOptions?: unknown;
  readonly safetyIdentifier: string | null;
  /** The client's own name of its user. */
  readonly user: string | null;
  readonly metadata: Readonly<Record<string, string>> | null;
  /** Responses: the client requests encrypted reasoning in the output. */
  readonly wantsEncryptedReasoning: boolean;
  /** The client's cache hint for the whole request (automatic caching of Messages). */
  readonly cacheHint: CacheHint | null;
}

export interface HubReasoning {
  /** Null: the client wants reasoning and leaves the effort to the model. */
  readonly effort: Effort | null;
  /** A budget that the client set in tokens (Messages, Gemini). */
  readonly budgetTokens: number | null;
  /** The client wants to see the reasoning, or a summary of it. */
  readonly isShown: boolean;
}

export type HubFormat =
  | { readonly kind: "text" }
  | { readonly kind: "json" }
  | {
      readonly kind: "json_schema";
      readonly name: string;
      readonly description: string | null;
      readonly schema: Readonly<Record<string, unknown>>;
      readonly strict: boolean | null;
    };
