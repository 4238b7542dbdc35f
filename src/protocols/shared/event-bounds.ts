/**
 * Checks a long event of an upstream's stream, or a part of a response, before it is parsed, so that none holds the
 * event loop. Long plain strings are parsed fast: they are images, which arrive as single events.
 */

import type { Part } from "../../base/parts.ts";
import { responseBounds } from "../../count-limits.ts";
import { parseJson } from "../../json/parse.ts";
import { ARRAY_OPEN, BACKSLASH, COLON, COMMA, OBJECT_OPEN, QUOTE, skipSpace } from "../../json/walk.ts";
import { parseWithoutLongStrings } from "./long-strings.ts";

export interface BoundFault {
  readonly max: number;
  readonly what: string;
}

export interface EventBounds {
  readonly valuesMax: number;
  /** Without long plain strings that are values. */
  readonly bytesMax: number;
}

/** For an event that is parsed, or a part of one. */
export const PARSED_EVENT: EventBounds = {
  valuesMax: responseBounds.eventValuesMax,
  bytesMax: responseBounds.eventParsedBytesMax,
};
/** For an event that is only scanned. */
export const SCANNED_EVENT: EventBounds = {
  valuesMax: responseBounds.scannedEventValuesMax,
  bytesMax: responseBounds.scannedEventBytesMax,
};

/** A shorter event is parsed in a few milliseconds, whatever it contains. */
const CHECKED_BYTES_MIN = 64 * 1024;
const LONG_STRING_BYTES_MIN = 16 * 1024;

/** Finds out whether an event has too many values, or too much text that is not plain. */
export function findEventFault({ bytes, start, end }: Part, bounds: EventBounds): BoundFault | null {
  if (end - start < CHECKED_BYTES_MIN) return null;
  const { valuesMax, bytesMax } = bounds;
  let values = 0;
  let counted = 0;
  for (let at = start; at < end; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) {
      const close = findClose(bytes, at + 1, end, bytesMax);
      counted += isLongPlain(bytes, at + 1, close) && !isName(bytes, close, end) ? 0 : close - at;
      at = close;
    } else if (byte === COMMA || byte === OBJECT_OPEN || byte === ARRAY_OPEN) values++;
    counted++;
    if (values > valuesMax) return { max: valuesMax, what: "JSON values in one event" };
    if (counted > bytesMax) return { max: bytesMax, what: "bytes of JSON in one event" };
  }
  return null;
}

/** Parses a part of an event or response that is only scanned otherwise. Returns null if parsing takes too long. */
export function parseWithin(part: Part, bounds = PARSED_EVENT): unknown {
  return findEventFault(part, bounds) === null ? parseJson(part.bytes, part.start, part.end) : null;
}

/** The same for a member. */
export function parseMember(bytes: Uint8Array, { start, end }: Pick<Part, "start" | "end">): unknown {
  return parseWithin({ bytes, start, end });
}

/** The same for a usage report, of which no long string is read. */
export function parseUsageMember(bytes: Uint8Array, { start, end }: Pick<Part, "start" | "end">): unknown {
  return findEventFault({ bytes, start, end }, PARSED_EVENT) === null
    ? parseWithoutLongStrings(bytes, start, end)
    : null;
}

/** The position of the closing quote, or the end. A string with escapes is not followed beyond the bound. */
function findClose(bytes: Uint8Array, from: number, end: number, bytesMax: number): number {
  const first = bytes.indexOf(QUOTE, from);
  if (first === -1 || first >= end) return end;
  if (bytes[first - 1] !== BACKSLASH) return first;
  // Byte by byte: a search for each escaped quote would take ten times as long.
  const last = Math.min(end, from + bytesMax);
  let at = from;
  while (at < last && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1;
  return Math.min(at, end);
}

/** Whether the string that ends at the quote is the name of a member: names are always decoded. */
function isName(bytes: Uint8Array, quote: number, end: number): boolean {
  return bytes[skipSpace(bytes, quote + 1, end)] === COLON;
}

function isLongPlain(bytes: Uint8Array, from: number, to: number): boolean {
  return to - from > LONG_STRING_BYTES_MIN && !bytes.subarray(from, to).includes(BACKSLASH);
}
