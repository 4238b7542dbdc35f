/**
 * What a family's stream reader tells the relay about each upstream event. A reader is pure state: bytes
 * in, verdicts out; it never waits and never writes.
 */

import type { ApiError } from "../../errors.ts";
import type { Part } from "../../net/wire/parts.ts";
import type { UpstreamError } from "./upstream-error.ts";
import type { TokenUsage } from "./usage.ts";

/**
 * - `lifecycle`: says nothing yet; may be held back while another account could still serve the request
 * - `content`: from here on the client has something, and failover is over
 * - `terminal`: the one event that ends the stream
 * - `dropped`: not for the client
 * - `failed`: the upstream reports an error in place of (more) content
 */
export type Verdict =
  | { phase: "lifecycle" | "content" | "terminal"; replacement: readonly Part[] | null }
  | { phase: "dropped" }
  | { phase: "failed"; error: UpstreamError };

export type StreamOutcome = "completed" | "incomplete" | "failed" | "cancelled";

export interface StreamReader {
  /** `bytes[start, end)` is one event block without its blank line. A null replacement forwards it as it is; another one may have parts of it. */
  read(bytes: Uint8Array, start: number, end: number): Verdict;
  /** The upstream ended without a terminal event, by closing or by breaking off: true if everything was said all the same. */
  saidEverything(how: "closed" | "broke off"): boolean;
  /** What was said last closes something: unless more is begun, only the terminal event and its usage are to come. */
  isEnding(): boolean;
  /** Written after the terminal event, or when everything was said without one. */
  readonly done: Uint8Array | null;
  /** The end of a stream that broke: exactly one terminal event of this family. */
  failure(error: ApiError, requestId: string): Uint8Array;
  /** Repeats that work goes on, as a data event, for clients that do not count comments; null if there is no such event. */
  stillWorking(): Uint8Array | null;

  readonly usage: TokenUsage | null;
  readonly images: number;
  /** Size and quality of those images, as the upstream reports them (`image-kind.ts`). */
  readonly imageKind: string | null;
  readonly responseId: string | null;
  readonly outcome: StreamOutcome;
  /** Events that were not what they should be and were left out. */
  readonly badEvents: number;
}

/**
 * Takes what the model says while it passes, for streams that are charged: `bytes[start, end)` is the inside of a JSON
 * string, escaped as it stands, and the array may be used again afterwards. Texts of one lane follow on each other; a
 * reader gives every choice and every kind of text a lane of its own, and reasoning those below zero.
 */
export interface TextSink {
  add(bytes: Uint8Array, start: number, end: number, lane: number): void;
  /** A text that belongs to nothing before or after it: a tool's name. */
  addWhole(bytes: Uint8Array, start: number, end: number, lane: number): void;
}

/** The lane of reasoning that stands beside this one. */
export function reasoningLane(lane: number): number {
  return -1 - lane;
}

export const PASS_CONTENT: Verdict = { phase: "content", replacement: null };
export const DROPPED: Verdict = { phase: "dropped" };

/** What may be written after `event:`. An upstream's text is not, until it has this form. */
export function isEventName(type: string): boolean {
  return /^[\w.-]{1,128}$/.test(type);
}
