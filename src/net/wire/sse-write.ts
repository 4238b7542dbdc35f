/** Server-sent events as the gateway writes them. */

import { hasByte, joinParts, type Part, wholeBytesPart } from "./parts.ts";

const LF = 0x0a;
const CR = 0x0d;
const utf8 = new TextEncoder();

/** How an event without a type begins, and how every one ends. */
export const DATA_FIELD: Part = wholeBytesPart(utf8.encode("data: "));
export const BLANK_LINE: Part = wholeBytesPart(utf8.encode("\n\n"));
/** A comment: proxies see traffic, clients see no event. */
export const KEEP_ALIVE: Uint8Array = utf8.encode(": keep-alive\n\n");
/** How a chat stream says that it ended well. */
export const DONE: Uint8Array = utf8.encode("data: [DONE]\n\n");

/** `type` is one of the protocol's own event names, never text from outside. */
export function formatEvent(type: string | null, dataJson: Uint8Array | string): Uint8Array {
  if (typeof dataJson !== "string") return joinParts(eventParts(type, [wholeBytesPart(dataJson)]));
  return utf8.encode(`${headOf(type)}${inOneLine(dataJson)}\n\n`);
}

/** The same of JSON in parts, none of which is copied. */
export function eventParts(type: string | null, json: readonly Part[]): Part[] {
  if (json.some(endsLine))
    return [wholeBytesPart(formatEvent(type, new TextDecoder().decode(joinParts(json))))];
  return [type === null ? DATA_FIELD : wholeBytesPart(utf8.encode(headOf(type))), ...json, BLANK_LINE];
}

function headOf(type: string | null): string {
  return type === null ? "data: " : `event: ${type}\ndata: `;
}

function endsLine(part: Part): boolean {
  return hasByte(part, LF) || hasByte(part, CR);
}

/** Line ends in JSON are white space, but in an event they would end the field. */
function inOneLine(json: string): string {
  return json.includes("\n") || json.includes("\r") ? json.replace(/[\r\n]+/g, " ") : json;
}
