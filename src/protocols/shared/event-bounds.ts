/**
 * Checks a long event of an upstream's stream before it is parsed, so that no event holds the event loop. Long plain
 * strings are parsed fast: they are images, which arrive as single events.
 */

import type { Part } from "../../base/parts.ts";
import { responseBounds } from "../../count-limits.ts";
import { ARRAY_OPEN, BACKSLASH, COMMA, OBJECT_OPEN, QUOTE } from "../../json/walk.ts";
import { ResponseBoundError } from "../../protocols/hub/response-bounds.ts";

/** A shorter event is parsed in a few milliseconds, whatever it contains. */
const CHECKED_BYTES_MIN = 64 * 1024;
const LONG_STRING_BYTES_MIN = 16 * 1024;

/** Throws the error of an event that has too many values, or too much text that is not plain. */
export function checkEvent({ bytes, start, end }: Part): void {
  if (end - start < CHECKED_BYTES_MIN) return;
  const { eventValuesMax, eventParsedBytesMax } = responseBounds;
  let values = 0;
  let parsedBytes = 0;
  for (let at = start; at < end; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) {
      const close = findClose(bytes, at + 1, end);
      parsedBytes += isLongPlain(bytes, at + 1, close) ? 0 : close - at;
      at = close;
    } else if (byte === COMMA || byte === OBJECT_OPEN || byte === ARRAY_OPEN) values++;
    parsedBytes++;
    if (values > eventValuesMax) throw new ResponseBoundError(eventValuesMax, "JSON values in one event");
    if (parsedBytes > eventParsedBytesMax)
      throw new ResponseBoundError(eventParsedBytesMax, "bytes of JSON in one event");
  }
}

/** The position of the closing quote, or the end. A string with escapes is not followed beyond the bound. */
function findClose(bytes: Uint8Array, from: number, end: number): number {
  const first = bytes.indexOf(QUOTE, from);
  if (first === -1 || first >= end) return end;
  if (bytes[first - 1] !== BACKSLASH) return first;
  // Byte by byte: a search for each escaped quote would take ten times as long.
  const last = Math.min(end, from + responseBounds.eventParsedBytesMax);
  let at = from;
  while (at < last && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1;
  return Math.min(at, end);
}

function isLongPlain(bytes: Uint8Array, from: number, to: number): boolean {
  return to - from > LONG_STRING_BYTES_MIN && !bytes.subarray(from, to).includes(BACKSLASH);
}
