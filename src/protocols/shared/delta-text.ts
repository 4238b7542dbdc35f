/** Finds what the model says in the event of a stream, without parsing the event. */

import { colonEnd, QUOTE, stringEnd, valueEnd } from "../../json/walk.ts";
import { decodeText, findBytes, startsWithAt } from "../../net/wire/bytes.ts";
import type { Part } from "../../net/wire/parts.ts";
import { reasoningLane, type TextSink } from "./stream.ts";

const TEXT = 0;
const REASONING = 1;
const REFUSAL = 2;
const ARGUMENTS = 3;
const NAME = 4;
const NOT_SAID = -1;
const LANES_PER_CHOICE = 4;

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
/** Members that repeat, in another form, what stands beside them. */
const REPEATS: ReadonlySet<string> = new Set(["reasoning_details", "annotations", "logprobs"]);
const CONTENT_FIRST = Buffer.from(':{"content":"');
const DEPTH_MAX = 64;
const OBJECT_OPEN = 0x7b;
const OBJECT_CLOSE = 0x7d;

/** `from` stands before the delta's object. */
export function addChatDelta(
  bytes: Uint8Array,
  from: number,
  end: number,
  choice: number,
  sink: TextSink,
): void {
  // By far the most deltas are `:{"content":"…`, and then hold nothing else that is said.
  if (startsWithAt(bytes, from, CONTENT_FIRST)) {
    const quote = from + CONTENT_FIRST.length - 1;
    const close = stringEnd(bytes, quote + 1, end, quote);
    if (close > 0 && bytes[close] === OBJECT_CLOSE) {
      if (close - quote > 2) sink.add(bytes, quote + 1, close - 1, choice * LANES_PER_CHOICE + TEXT);
      return;
    }
  }
  let at = from;
  let depth = 0;
  let kind = NOT_SAID;
  let key = "";
  /** Some upstreams give the same reasoning under two names. The first that is not empty counts. */
  let reasoningKey: string | null = null;
  while (at < end) {
    const c = bytes[at];
    if (c === QUOTE) {
      const close = stringEnd(bytes, at + 1, end, at);
      if (close < 0) return;
      if (isColon(bytes, close, end)) {
        key = decodeText(bytes, at + 1, close - 1);
        kind = KINDS.get(key) ?? NOT_SAID;
        at = REPEATS.has(key) ? afterValue(bytes, close, end) : close;
        if (at < 0) return;
        continue;
      }
      if (kind !== NOT_SAID && close - at > 2) {
        const first = choice * LANES_PER_CHOICE;
        if (kind === REASONING) {
          reasoningKey ??= key;
          if (key === reasoningKey) sink.add(bytes, at + 1, close - 1, reasoningLane(first + kind));
        } else if (kind === NAME) sink.addWhole(bytes, at + 1, close - 1, first + ARGUMENTS);
        else sink.add(bytes, at + 1, close - 1, first + kind);
      }
      at = close;
      continue;
    }
    if (c === OBJECT_OPEN) depth++;
    else if (c === OBJECT_CLOSE && --depth <= 0) return;
    at++;
  }
}

const DELTA_END = Buffer.from(".delta");
const AUDIO_END = Buffer.from("audio.delta");
const DELTA = Buffer.from('"delta"');
const ITEM_ADDED = Buffer.from("response.output_item.added");
const ARGUMENTS_LANE = "response.function_call_arguments.delta".length;
const NAME_KEY = Buffer.from('"name"');

/** True when there was text in it. `name` is the event's type: each has a lane, told apart well enough by its length. */
export function addResponsesDelta(name: Part, data: Part, sink: TextSink): boolean {
  if (startsWithAt(name.bytes, name.end - DELTA_END.length, DELTA_END)) {
    // Sound is megabytes of base64 and is counted by the upstream alone.
    if (startsWithAt(name.bytes, name.end - AUDIO_END.length, AUDIO_END)) return false;
    const at = memberQuote(data, DELTA);
    const close = at < 0 ? at : stringEnd(data.bytes, at + 1, data.end, at);
    if (close - at <= 2) return false;
    const lane = name.end - name.start;
    sink.add(data.bytes, at + 1, close - 1, isReasoning(name) ? reasoningLane(lane) : lane);
    return true;
  }
  if (name.end - name.start !== ITEM_ADDED.length || !startsWithAt(name.bytes, name.start, ITEM_ADDED))
    return false;
  const at = memberQuote(data, NAME_KEY);
  const close = at < 0 ? at : stringEnd(data.bytes, at + 1, data.end, at);
  if (close - at <= 2) return false;
  sink.addWhole(data.bytes, at + 1, close - 1, ARGUMENTS_LANE);
  return true;
}

/** `response.reasoning…`: among the names of deltas only `response.refusal` begins alike. */
function isReasoning({ bytes, start }: Part): boolean {
  return bytes[start + 9] === 0x72 && bytes[start + 11] === 0x61;
}

/**
 * Where the member's string opens; negative if there is none. A quote inside a JSON string is escaped, so a member's
 * name in quotes is found by searching for it.
 */
function memberQuote({ bytes, start, end }: Part, key: Uint8Array): number {
  const found = findBytes(bytes, key, start);
  if (found === -1 || found >= end) return -1;
  const at = colonEnd(bytes, found + key.length, end);
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
