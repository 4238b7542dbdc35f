/** Lists all members of an object in a body that was scanned before, so that its structure is valid. */

import { decodeText } from "../base/bytes.ts";
import { caseVariant } from "./name.ts";
import { detectKind, type ValueKind, type WantedFields, wantedString } from "./scan.ts";
import {
  ARRAY_CLOSE,
  ARRAY_OPEN,
  BACKSLASH,
  COMMA,
  colonEnd,
  DEPTH_LIMIT,
  OBJECT_CLOSE,
  OBJECT_OPEN,
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

/** Receives what one pass over an object finds. */
export interface ObjectVisitor<Name extends string> {
  readonly wanted: WantedFields<Name>;
  /** A wanted member appears again. */
  onRepeated(name: Name): never;
  /** A name differs from a wanted one only in case. Called only if the wanted fields reject such names. */
  onVariant(name: Name): never;
  /** A wanted member whose value is an array or an object: returns its end if it was read, else null. */
  descend(name: Name, at: number): number | null;
}

export interface ObjectReading<Name extends string> {
  readonly fields: { readonly [name in Name]?: JsonValue };
  readonly end: number;
}

/**
 * Reads the wanted members of the object at `start`, and passes over the others, once. Nested values may be read on the
 * way, so that a whole tree needs one pass.
 */
export function readObject<Name extends string>(
  bytes: Uint8Array,
  start: number,
  visitor: ObjectVisitor<Name>,
): ObjectReading<Name> {
  const { wanted } = visitor;
  const limit = bytes.length;
  const fields: { [name in Name]?: JsonValue } = {};
  let at = skipSpace(bytes, start + 1, limit);
  while (bytes[at] !== OBJECT_CLOSE) {
    const keyEnd = stringEnd(bytes, at + 1, limit, at);
    const valueStart = colonEnd(bytes, keyEnd, limit);
    const name = wantedString(bytes, at, keyEnd, wanted);
    let end: number | null = null;
    if (name !== undefined) {
      if (fields[name] !== undefined) visitor.onRepeated(name);
      const first = bytes[valueStart];
      if (first === ARRAY_OPEN || first === OBJECT_OPEN) end = visitor.descend(name, valueStart);
    } else if (wanted.rejectsCaseVariants) {
      const variant = caseVariant(bytes, at + 1, keyEnd - 1, wanted.byName);
      if (variant !== undefined) visitor.onVariant(variant);
    }
    end ??= valueEnd(bytes, valueStart, limit, DEPTH_LIMIT);
    if (keyEnd < 0 || end < 0) throw new Error("the body was not scanned before");
    if (name !== undefined) fields[name] = { start: valueStart, end, kind: detectKind(bytes[valueStart]) };
    at = nextElement(bytes, end, limit);
  }
  return { fields, end: at + 1 };
}

/** Calls `read` at each element of the array at `start`, which returns the end of the element. Returns the end. */
export function readArray(bytes: Uint8Array, start: number, read: (at: number) => number): number {
  const limit = bytes.length;
  let at = skipSpace(bytes, start + 1, limit);
  while (bytes[at] !== ARRAY_CLOSE) {
    const end = read(at);
    if (end < 0) throw new Error("the body was not scanned before");
    at = nextElement(bytes, end, limit);
  }
  return at + 1;
}

/** The end of a value that is not read. */
export function skipValue(bytes: Uint8Array, at: number): number {
  return valueEnd(bytes, at, bytes.length, DEPTH_LIMIT);
}

/** The next element, or the closing bracket. */
function nextElement(bytes: Uint8Array, end: number, limit: number): number {
  const at = skipSpace(bytes, end, limit);
  return bytes[at] === COMMA ? skipSpace(bytes, at + 1, limit) : at;
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
