/** Finds the text of the model in a stream event without parsing the event. */

import { decodeText, findBytes, startsWithAt } from "../../base/bytes.ts";
import type { Part } from "../../base/parts.ts";
import { colonEnd, QUOTE, stringEnd, valueEnd } from "../../json/walk.ts";
import { reasoningChannel, type TextSink } from "./stream.ts";

const TEXT = 0;
const REASONING = 1;
const REFUSAL = 2;
const ARGUMENTS = 3;
const NAME = 4;
const NO_TEXT = -1;
const CHANNELS_PER_CHOICE = 4;

/** Members of a chat delta, at any depth, whose strings the model wrote. */
const KINDS: ReadonlyMap<string, number> = new Map([
  ["content", TEXT],
  ["text", TEXT],
  ["transcript", TEXT],
  ["reasoning_content", REASONING],
  ["reasoning", REASONING],
  ["thinking", REASONING],
  ["refusal", REFUSAL],
  ["arguments", ARGUMENTS],
  ["input", ARGUMENTS],
  ["name", NAME],
]);
/** Members that repeat their siblings in another form. */
const REPEATING_MEMBERS: ReadonlySet<string> = new Set(["reasoning_details", "annotations", "logprobs"]);
const CONTENT_FIRST = Buffer.from(':{"content":"');
const DEPTH_MAX = 64;
const OBJECT_OPEN = 0x7b;
const OBJECT_CLOSE = 0x7d;

/** `from` is before the object of the delta. Returns where the object ends; at most `end`. */
export function addChatDelta(
  bytes: Uint8Array,
  from: number,
  end: number,
  choice: number,
  sink: TextSink,
): number {
  // By far most deltas are `:{"content":"…` and contain no other text.
  if (startsWithAt(bytes, from, CONTENT_FIRST)) {
    const quote = from + CONTENT_FIRST.length - 1;
    const close = stringEnd(bytes, quote + 1, end, quote);
    if (close > 0 && bytes[close] === OBJECT_CLOSE) {
      if (close - quote > 2) sink.add(bytes, quote + 1, close - 1, choice * CHANNELS_PER_CHOICE + TEXT);
      return close;
    }
  }
  let at = from;
  let depth = 0;
  let kind = NO_TEXT;
  let key = "";
  /** Some upstreams send the same reasoning under two names. The first that is not empty counts. */
  let reasoningKey: string | null = null;
  while (at < end) {
    const c = bytes[at];
    if (c === QUOTE) {
      const close = stringEnd(bytes, at + 1, end, at);
      if (close < 0) return end;
      if (isColon(bytes, close, end)) {
        key = decodeText(bytes, at + 1, close - 1);
        kind = KINDS.get(key) ?? NO_TEXT;
        at = REPEATING_MEMBERS.has(key) ? afterValue(bytes, close, end) : close;
        if (at < 0) return end;
        continue;
      }
      if (kind !== NO_TEXT && close - at > 2) {
        const first = choice * CHANNELS_PER_CHOICE;
        if (kind === REASONING) {
          reasoningKey ??= key;
          if (key === reasoningKey) sink.add(bytes, at + 1, close - 1, reasoningChannel(first + kind));
        } else if (kind === NAME) sink.addWhole(bytes, at + 1, close - 1, first + ARGUMENTS);
        else sink.add(bytes, at + 1, close - 1, first + kind);
      }
      at = close;
      continue;
    }
    if (c === OBJECT_OPEN) depth++;
    else if (c === OBJECT_CLOSE && --depth <= 0) return at;
    at++;
  }
  return end;
}

const DELTA_END = Buffer.from(".delta");
const AUDIO_END = Buffer.from("audio.delta");
const DELTA = Buffer.from('"delta"');
const ITEM_ADDED = Buffer.from("response.output_item.added");
const ARGUMENTS_CHANNEL = "response.function_call_arguments.delta".length;
const NAME_KEY = Buffer.from('"name"');

/**
 * Returns true if the event contained text. `name` is the event type. Each type has a lane, identified well enough by
 * the length of the name.
 */
export function addResponsesDelta(name: Part, data: Part, sink: TextSink): boolean {
  if (startsWithAt(name.bytes, name.end - DELTA_END.length, DELTA_END)) {
    // Audio is megabytes of base64, and only the upstream counts it.
    if (startsWithAt(name.bytes, name.end - AUDIO_END.length, AUDIO_END)) return false;
    const at = memberQuote(data, DELTA);
    const close = at < 0 ? at : stringEnd(data.bytes, at + 1, data.end, at);
    if (close - at <= 2) return false;
    const channel = name.end - name.start;
    sink.add(data.bytes, at + 1, close - 1, isReasoning(name) ? reasoningChannel(channel) : channel);
    return true;
  }
  if (name.end - name.start !== ITEM_ADDED.length || !startsWithAt(name.bytes, name.start, ITEM_ADDED))
    return false;
  const at = memberQuote(data, NAME_KEY);
  const close = at < 0 ? at : stringEnd(data.bytes, at + 1, data.end, at);
  if (close - at <= 2) return false;
  sink.addWhole(data.bytes, at + 1, close - 1, ARGUMENTS_CHANNEL);
  return true;
}

const TEXT_MEMBER = Buffer.from('"text"');
const THINKING_MEMBER = Buffer.from('"thinking"');
const PARTIAL_JSON_MEMBER = Buffer.from('"partial_json"');

/** The text of a `content_block_delta`, or the name of a tool in a `content_block_start` of the Messages API. */
export function addMessagesDelta(data: Part, event: "delta" | "start", sink: TextSink): void {
  if (event === "start") {
    addMember(data, NAME_KEY, (start, end) => sink.addWhole(data.bytes, start, end, ARGUMENTS));
    return;
  }
  const isText = addMember(data, TEXT_MEMBER, (start, end) => sink.add(data.bytes, start, end, TEXT));
  if (
    isText ||
    addMember(data, PARTIAL_JSON_MEMBER, (start, end) => sink.add(data.bytes, start, end, ARGUMENTS))
  )
    return;
  addMember(data, THINKING_MEMBER, (start, end) =>
    sink.add(data.bytes, start, end, reasoningChannel(REASONING)),
  );
}

function addMember(data: Part, key: Uint8Array, add: (start: number, end: number) => void): boolean {
  const at = memberQuote(data, key);
  const close = at < 0 ? at : stringEnd(data.bytes, at + 1, data.end, at);
  if (close < 0) return false;
  if (close - at > 2) add(at + 1, close - 1);
  return true;
}

/** `response.reasoning…`: of the delta names only `response.refusal` begins similarly. */
function isReasoning({ bytes, start }: Part): boolean {
  return bytes[start + 9] === 0x72 && bytes[start + 11] === 0x61;
}

/**
 * Returns the opening quote of the member's string, or a negative number. A quote inside a JSON string is escaped, so a
 * member name in quotes is found by a search.
 */
function memberQuote({ bytes, start, end }: Part, key: Uint8Array): number {
  const keyAt = findBytes(bytes, key, start, end);
  if (keyAt === -1) return -1;
  const at = colonEnd(bytes, keyAt + key.length, end);
  return at >= 0 && bytes[at] === QUOTE ? at : -1;
}

function isColon(bytes: Uint8Array, from: number, end: number): boolean {
  let at = from;
  while (at < end && (bytes[at] ?? 0) <= 0x20) at++;
  return bytes[at] === 0x3a;
}

function afterValue(bytes: Uint8Array, from: number, end: number): number {
  const value = colonEnd(bytes, from, end);
  return value < 0 ? value : valueEnd(bytes, value, end, DEPTH_MAX);
}
