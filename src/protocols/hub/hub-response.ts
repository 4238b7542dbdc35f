/** A response in the form between dialects: as a stream of events, and as a whole. */

import type { UpstreamError } from "../shared/upstream-error.ts";
import type { TokenUsage } from "../shared/usage.ts";
import type {
  CallItem,
  Citation,
  HubItem,
  MessageItem,
  OpaqueState,
  ReasoningItem,
  SearchItem,
} from "./hub-request.ts";

/**
 * Why the model stopped. If a call was delivered, it is `tools`, whatever the upstream reports.
 * - `context`: the context window is full
 * - `paused`: a hosted tool takes long; the client repeats the request to continue
 * - `failed`: the model wrote something without use, for example a call of a tool that does not exist
 */
export type HubStop =
  | "end"
  | "stop_sequence"
  | "tools"
  | "length"
  | "context"
  | "filtered"
  | "paused"
  | "failed";

/**
 * The events of a stream, in this order: `start`, then items one after the other (`item_start`, its deltas,
 * `item_end`), `usage` at any time, and one `end`. Readers produce it from any upstream, also from one that
 * interleaves its items; writers rely on it.
 */
export type HubEvent =
  | {
      readonly type: "start";
      readonly responseId: string | null;
      readonly createdAtSeconds: number | null;
      /** As the upstream names it, for traces. */
      readonly model?: string | null;
    }
  | { readonly type: "item_start"; readonly item: StartedItem }
  /** Text of a message or of reasoning, or a piece of the input of a call. Never empty. */
  | { readonly type: "delta"; readonly text: string }
  /** The item is complete. For reasoning and calls it carries their opaque state, for texts their citations. */
  | ItemEndEvent
  /** The latest report: it replaces earlier ones. */
  | { readonly type: "usage"; readonly usage: TokenUsage }
  | { readonly type: "end"; readonly stop: HubStop; readonly stopSequence: string | null }
  /** The upstream reports an error in place of (more) content. Nothing follows. */
  | { readonly type: "error"; readonly error: UpstreamError };

export interface ItemEndEvent {
  readonly type: "item_end";
  readonly opaque: OpaqueState | null;
  readonly isCut: boolean;
  readonly citations?: readonly Citation[];
}

export type StartedItem =
  | { readonly kind: "text" }
  | { readonly kind: "refusal" }
  | { readonly kind: "reasoning"; readonly isSummary: boolean; readonly isRedacted?: boolean }
  | Pick<CallItem, "kind" | "callId" | "name" | "namespace" | "tool">
  /** Complete when it starts: it has no deltas. */
  | SearchItem;

export type OutputItem =
  | MessageItem
  | ReasoningItem
  | CallItem
  | SearchItem
  | Extract<HubItem, { kind: "foreign" }>;

export interface HubResponse {
  readonly responseId: string | null;
  readonly createdAtSeconds: number | null;
  readonly items: readonly OutputItem[];
  readonly stop: HubStop;
  readonly stopSequence: string | null;
  readonly usage: TokenUsage | null;
}
