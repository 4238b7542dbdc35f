/** Formats server-sent events. */

import { hasByte, joinParts, type Part, wholeBytesPart } from "../../base/parts.ts";

const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const utf8 = new TextEncoder();

/** The start of an event without a type, and the end of every event. */
export const DATA_FIELD: Part = wholeBytesPart(utf8.encode("data: "));
export const BLANK_LINE: Part = wholeBytesPart(utf8.encode("\n\n"));
/** An SSE comment: proxies see traffic, clients see no event. */
export const KEEP_ALIVE: Uint8Array = utf8.encode(": keep-alive\n\n");
/** A blank line, for clients that accept no comments: gemini-cli stops reading at the first one. */
export const BLANK_KEEP_ALIVE: Uint8Array = utf8.encode("\n");
/** Marks the successful end of a chat stream. */
export const DONE: Uint8Array = utf8.encode("data: [DONE]\n\n");

/** `type` is an event name of the protocol, never external text. */
export function formatEvent(type: string | null, dataJson: Uint8Array | string): Uint8Array {
  if (typeof dataJson !== "string") return joinParts(eventParts(type, [wholeBytesPart(dataJson)]));
  return utf8.encode(`${eventPrefix(type)}${removeLineBreaks(dataJson)}\n\n`);
}

/** Like `formatEvent`, for JSON in parts, which are copied only if they have line breaks. */
export function eventParts(type: string | null, json: readonly Part[]): Part[] {
  const prefix = type === null ? DATA_FIELD : wholeBytesPart(utf8.encode(eventPrefix(type)));
  const line = json.some(hasLineBreak) ? [replaceLineBreaks(json)] : json;
  return [prefix, ...line, BLANK_LINE];
}

function eventPrefix(type: string | null): string {
  return type === null ? "data: " : `event: ${type}\ndata: `;
}

function hasLineBreak(part: Part): boolean {
  return hasByte(part, LF) || hasByte(part, CR);
}

/** The same as bytes: decoding a long event that is full of line breaks would hold the event loop. */
function replaceLineBreaks(json: readonly Part[]): Part {
  const line = joinParts(json);
  for (let at = 0; at < line.length; at++) {
    if (line[at] === LF || line[at] === CR) line[at] = SPACE;
  }
  return wholeBytesPart(line);
}

/** Line breaks in JSON are white space, but in an event they would end the field. */
function removeLineBreaks(json: string): string {
  return json.includes("\n") || json.includes("\r") ? json.replace(/[\r\n]+/g, " ") : json;
}
