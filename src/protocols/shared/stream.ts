/**
 * What the stream reader of an interface reports to the relay about each upstream event. A reader is pure state: bytes
 * in, verdicts out; it never waits and never writes.
 */

import type { Part } from "../../base/parts.ts";
import type { ApiError } from "../../errors.ts";
import type { EventBounds } from "./event-bounds.ts";
import type { ResponseFacts } from "./response-facts.ts";
import type { UpstreamError } from "./upstream-error.ts";
import type { TokenUsage } from "./usage.ts";

/**
 * - `lifecycle`: no content yet; may be held back while another account could still serve the request
 * - `content`: the client receives content, so failover is no longer possible
 * - `terminal`: the one event that ends the stream
 * - `dropped`: not for the client
 * - `failed`: the upstream reports an error in place of (more) content
 */
export type EventVerdict =
  | { phase: "lifecycle" | "content" | "terminal"; replacement: readonly Part[] | null }
  | { phase: "dropped" }
  | { phase: "failed"; error: UpstreamError };

export type StreamOutcome = "completed" | "incomplete" | "failed" | "cancelled";

export interface StreamReader {
  /**
   * `bytes[start, end)` is one event without its blank line. A null replacement forwards it unchanged; a replacement
   * may contain parts of it.
   */
  read(bytes: Uint8Array, start: number, end: number): EventVerdict;
  /** The upstream ended without a terminal event. Returns whether the response is complete. */
  isCompleteWithoutTerminal(how: "closed" | "broke off"): boolean;
  /** The last event ended an item: unless another one begins, only the terminal event and its usage follow. */
  isEnding(): boolean;
  /** Written after the terminal event, or at the end of a complete response without one. */
  readonly endMarker: Uint8Array | null;
  /** The end of a broken stream: exactly one terminal event of this interface. */
  failure(error: ApiError, requestId: string): Uint8Array;
  /** A data event that reports continued work, for clients that ignore comments; null if the interface has none. */
  progressEvent(): Uint8Array | null;

  /** The bounds of a long event; without them, those of an event that is parsed. */
  readonly eventBounds?: EventBounds;
  /** The upstream gave a reason for a response without output, or the translation dropped it: it is a response. */
  readonly mayBeEmpty?: boolean;
  readonly usage: TokenUsage | null;
  /** Absent for readers of text, as is the kind. */
  readonly images?: number;
  /** Size and quality of those images, as the upstream reports them (`image-kind.ts`). */
  readonly imageKind?: string | null;
  /** Absent for interfaces whose responses are not stored under their id. */
  readonly responseId?: string | null;
  readonly outcome: StreamOutcome;
  /** For traces; absent for readers of images. */
  describe?(): ResponseFacts;
  readonly badEvents: number;
}

/**
 * Receives the text of the model as it passes, for streams that are counted. `bytes[start, end)` is the content of a
 * JSON string with its escapes, and the array may be reused afterwards. Texts of one channel are consecutive; a
 * reader uses a separate channel for every choice and kind of text, and negative channels for reasoning.
 */
export interface TextSink {
  add(bytes: Uint8Array, start: number, end: number, channel: number): void;
  /** A text that is independent of the texts around it: the name of a tool. */
  addWhole(bytes: Uint8Array, start: number, end: number, channel: number): void;
}

/** The reasoning channel that corresponds to this channel. */
export function reasoningChannel(channel: number): number {
  return -1 - channel;
}

export const PASS_CONTENT: EventVerdict = { phase: "content", replacement: null };
export const DROPPED: EventVerdict = { phase: "dropped" };

/** Whether the text may be written after `event:`. Upstream text must have this format first. */
export function isEventName(type: string): boolean {
  return /^[\w.-]{1,128}$/.test(type);
}
