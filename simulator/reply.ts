/** The reply of an endpoint: a JSON body, events or an error. */

import type { Rejection } from "./errors.ts";
import type { Fault } from "./model/model-name.ts";
import type { Usage } from "./model/model-output.ts";
import type { TokenOutput } from "./model/tokens.ts";

/** One server-sent event. The usage of an aborted stream is counted from the events that were sent. */
export interface Frame extends TokenOutput {
  /** The `event:` line; null omits it, as Chat Completions does. */
  event: string | null;
  data: string;
  isTextDelta: boolean;
}

/** The reply of an endpoint, before pace and faults are applied. */
export interface JsonReply {
  kind: "json";
  body: string;
  usage: Usage;
  images: number;
}

/**
 * Called once when the reader disconnects or is disconnected. Returns true if the response continues to its end, so
 * that all of it is billed.
 */
export type DisconnectHandler = () => boolean;

export interface EventsReply {
  kind: "events";
  frames: Iterable<Frame>;
  usage: Usage;
  images: number;
  onDisconnect?: DisconnectHandler;
}

export type Reply = JsonReply | EventsReply | Rejection;

export function jsonReply(body: string, usage: Usage, images = 0): JsonReply {
  return { kind: "json", body, usage, images };
}

export function eventsReply(frames: Iterable<Frame>, usage: Usage, images = 0): EventsReply {
  return { kind: "events", frames, usage, images };
}

export function frame(event: string | null, data: string): Frame {
  return { event, data, outputText: "", outputBytes: 0, lane: 0, isTextDelta: false };
}

/** A frame that contains output of the model. */
export function outputFrame(
  event: string | null,
  data: string,
  outputText: string,
  lane: number,
  isTextDelta: boolean,
): Frame {
  return { event, data, outputText, outputBytes: Buffer.byteLength(outputText), lane, isTextDelta };
}

export const NO_USAGE: Usage = { input: 0, cached: 0, output: 0, reasoning: 0 };

/** A possible count, but larger than the context window of any model. */
const HUGE = 1e12;

/** JSON has no NaN: it is written as a string, so that the rest of the response stays valid. */
export function usageJson(json: string): string {
  return json.replaceAll(":NaN", ':"NaN"');
}

/** The reported usage, which a fault may falsify. The ledger has the true one. Null: no usage is reported. */
export function reportUsage(usage: Usage, fault: Fault | null): Usage | null {
  switch (fault?.name) {
    case "no-usage":
      return null;
    case "usage-zero":
    case "empty":
      return NO_USAGE;
    case "usage-negative":
      return { input: -120, cached: -40, output: -45, reasoning: -5 };
    case "usage-nan":
      return { input: Number.NaN, cached: Number.NaN, output: Number.NaN, reasoning: Number.NaN };
    case "usage-huge":
      return { input: HUGE, cached: 0, output: HUGE, reasoning: 0 };
    case "usage-absurd":
      return { input: 1e18, cached: 1e18, output: 1e18, reasoning: 1e18 };
    default:
      return usage;
  }
}

/** The output tokens of a stream that ended after it had shown `shownTokens`. */
export function producedTokens(reply: EventsReply, shownTokens: number, isCut: boolean): number {
  const continues = isCut && reply.onDisconnect?.() === true;
  return continues ? reply.usage.output : shownTokens + (reply.usage.hidden ?? 0);
}
