/** Lists all members of an object in a body that was scanned before, so that its structure is valid. */

import { decodeText } from "../base/bytes.ts";
import { detectKind, type ValueKind } from "./scan.ts";
import {
  ARRAY_CLOSE,
  BACKSLASH,
  COMMA,
  colonEnd,
  DEPTH_LIMIT,
  OBJECT_CLOSE,
  skipSpace,
  stringEnd,
  valueEnd,
} from "./walk.ts";

export interface JsonValue {
  readonly start: number;
  readonly end: number;
  readonly kind: ValueKind;
}

export interface JsonMember extends JsonValue {
  /** Decoded. */
  readonly name: string;
  readonly keyStart: number;
}

/** The members of an object, in their order, repeated ones included. */
export function listMembers(bytes: Uint8Array, object: Pick<JsonValue, "start" | "end">): JsonMember[] {
  const members: JsonMember[] = [];
  const close = object.end - 1;
  let at = skipSpace(bytes, object.start + 1, close);
  while (at < close && bytes[at] !== OBJECT_CLOSE) {
    const keyStart = at;
    const keyEnd = stringEnd(bytes, at + 1, close, at);
    const start = keyEnd < 0 ? keyEnd : colonEnd(bytes, keyEnd, close);
    const end = start < 0 ? start : valueEnd(bytes, start, close, DEPTH_LIMIT);
    if (end < 0) break;
    members.push({
      name: decodeName(bytes, keyStart, keyEnd),
      keyStart,
      start,
      end,
      kind: detectKind(bytes[start]),
    });
    at = skipSpace(bytes, end, close);
    if (bytes[at] !== COMMA) break;
    at = skipSpace(bytes, at + 1, close);
  }
  return members;
}

/** The elements of an array, in their order. */
export function listElements(bytes: Uint8Array, array: Pick<JsonValue, "start" | "end">): JsonValue[] {
  const elements: JsonValue[] = [];
  const close = array.end - 1;
  let at = skipSpace(bytes, array.start + 1, close);
  while (at < close && bytes[at] !== ARRAY_CLOSE) {
    const end = valueEnd(bytes, at, close, DEPTH_LIMIT);
    if (end < 0) break;
    elements.push({ start: at, end, kind: detectKind(bytes[at]) });
    at = skipSpace(bytes, end, close);
    if (bytes[at] !== COMMA) break;
    at = skipSpace(bytes, at + 1, close);
  }
  return elements;
}

/** A name that is not valid JSON is returned as it is written: no decoder accepts it. */
function decodeName(bytes: Uint8Array, quote: number, end: number): string {
  const text = decodeText(bytes, quote + 1, end - 1);
  if (!text.includes(String.fromCharCode(BACKSLASH))) return text;
  try {
    return String(JSON.parse(`"${text}"`));
  } catch {
    return text;
  }
}
