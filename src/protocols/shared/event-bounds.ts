/**
 * Checks a long event of an upstream's stream before it is parsed, so that no event holds the event loop. Long plain
 * strings are parsed fast: they are images, which arrive as single events.
 */

import type { Part } from "../../base/parts.ts";
import { responseBounds } from "../../count-limits.ts";
import { parseJson } from "../../json/parse.ts";
import { ARRAY_OPEN, BACKSLASH, COMMA, OBJECT_OPEN, QUOTE } from "../../json/walk.ts";
import type { UpstreamError } from "./upstream-error.ts";

export interface EventBounds {
  readonly valuesMax: number;
  /** Without long plain strings. */
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

/** Returns the error of an event that has too many values, or too much text that is not plain. */
export function findEventFault({ bytes, start, end }: Part, bounds: EventBounds): UpstreamError | null {
  if (end - start < CHECKED_BYTES_MIN) return null;
  const { valuesMax, bytesMax } = bounds;
  let values = 0;
  let counted = 0;
  for (let at = start; at < end; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) {
      const close = findClose(bytes, at + 1, end, bytesMax);
      counted += isLongPlain(bytes, at + 1, close) ? 0 : close - at;
      at = close;
    } else if (byte === COMMA || byte === OBJECT_OPEN || byte === ARRAY_OPEN) values++;
    counted++;
    if (values > valuesMax) return outOfBoundsError(valuesMax, "JSON values in one event");
    if (counted > bytesMax) return outOfBoundsError(bytesMax, "bytes of JSON in one event");
  }
  return null;
}

/** Parses a part of an event that is only scanned otherwise. Returns null if parsing takes too long. */
export function parseEventPart(part: Part): unknown {
  return findEventFault(part, PARSED_EVENT) === null ? parseJson(part.bytes, part.start, part.end) : null;
}

export function outOfBoundsError(max: number, what: string): UpstreamError {
  const message = `The response has more than ${max.toLocaleString("en-US")} ${what}.`;
  return { code: null, type: null, param: null, message, isOutOfBounds: true };
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

function isLongPlain(bytes: Uint8Array, from: number, to: number): boolean {
  return to - from > LONG_STRING_BYTES_MIN && !bytes.subarray(from, to).includes(BACKSLASH);
}
