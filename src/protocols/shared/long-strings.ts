/**
 * Parses an event of megabytes without its long strings: they are images or, of a hostile upstream, text. Decoding one
 * takes several milliseconds for each MiB, and readers only need to know where it is.
 */

import { decodeText } from "../../base/bytes.ts";
import type { Part } from "../../base/parts.ts";
import { parseJson } from "../../json/parse.ts";
import { QUOTE, stringEnd } from "../../json/walk.ts";

/** A shorter event is parsed as it is. */
const EVENT_BYTES_MIN = 1024 * 1024;
const LONG_STRING_BYTES_MIN = 64 * 1024;
/** Stands for a long string, before its number. An upstream that writes it changes at most the count of its own text. */
const MARK = "\uE000long string ";

export interface ParsedEvent {
  readonly json: unknown;
  /** The content of the long string that a value stands for, as in the event; null for any other value. */
  longString(value: unknown): Part | null;
}

export function isLongEvent(start: number, end: number): boolean {
  return end - start > EVENT_BYTES_MIN;
}

/** The event must be within the bounds of events that are parsed. */
export function parseWithoutLongStrings(bytes: Uint8Array, start: number, end: number): ParsedEvent {
  if (!isLongEvent(start, end)) return { json: parseJson(bytes, start, end), longString: () => null };
  const long: Part[] = [];
  let text = "";
  let from = start;
  for (let at = start; at < end; at++) {
    if (bytes[at] !== QUOTE) continue;
    const close = stringEnd(bytes, at + 1, end, at);
    if (close < 0) break;
    if (close - at > LONG_STRING_BYTES_MIN) {
      text += decodeText(bytes, from, at + 1) + MARK + String(long.length);
      long.push({ bytes, start: at + 1, end: close - 1 });
      from = close - 1;
    }
    at = close - 1;
  }
  const json = parseJson(Buffer.from(text + decodeText(bytes, from, end)));
  return {
    json,
    longString: (value) =>
      typeof value === "string" && value.startsWith(MARK)
        ? (long[Number(value.slice(MARK.length))] ?? null)
        : null,
  };
}
