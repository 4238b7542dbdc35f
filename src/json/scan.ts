/**
 * Finds the top-level members of one JSON object without parsing it. The grammar is checked completely outside strings;
 * inside them only the end is searched, because their content is for the upstream to check.
 */

import { isUtf8 } from "node:buffer";
import { decodeLatin1, decodeText } from "../base/bytes.ts";
import { caseVariant } from "./name.ts";
import {
  AFTER_MEMBER,
  ARRAY_OPEN,
  BACKSLASH,
  BOM,
  byteAt,
  COMMA,
  colonEnd,
  countWalkedValues,
  DEPTH_LIMIT,
  DIGIT_0,
  DIGIT_9,
  END,
  FAULTS,
  fault,
  isFault,
  KEY,
  KEY_ESCAPE,
  NOT_OBJECT,
  OBJECT_CLOSE,
  OBJECT_OPEN,
  QUOTE,
  SPACE,
  skipSpace,
  stringEnd,
  TOO_DEEP,
  TRAILING,
  valueEnd,
} from "./walk.ts";

export type ValueKind = "string" | "number" | "true" | "false" | "null" | "object" | "array";

/** The position of a member. Offsets count from the start of the scanned array, not of the object. */
export interface JsonField {
  keyStart: number;
  start: number;
  end: number;
  kind: ValueKind;
  /** Values within it, at any depth, and itself: no list in it can be longer. 0 for a string, number or literal. */
  values: number;
}

interface Candidate<Name> {
  name: Name;
  bytes: Uint8Array;
}

export interface WantedFields<Name extends string> {
  readonly byLength: readonly (readonly Candidate<Name>[] | undefined)[];
  readonly byName: ReadonlyMap<string, Name>;
  /** The longest encoding of any name, with every character written as `\u0000`. */
  readonly keyBytesMax: number;
  /** A name that differs from one of these only in case fails the scan. */
  readonly rejectsCaseVariants: boolean;
}

type ScanReason =
  | "not_object"
  | "bom"
  | "syntax"
  | "depth"
  | "unterminated"
  | "trailing"
  | "string"
  | "duplicate_field"
  | "case_variant";

export interface ObjectScan<Name extends string> {
  ok: true;
  fields: { [name in Name]?: JsonField };
  /** Directly after the `{`, where a member can be inserted. */
  insertAt: number;
  empty: boolean;
  /** The values within all containers of the object. Other members are not counted. */
  values: number;
}

export interface ScanFailure {
  ok: false;
  reason: ScanReason;
  offset: number;
  detail: string;
  field?: string;
}

export type JsonScan<Name extends string> = ObjectScan<Name> | ScanFailure;

export function wantedFields<const Name extends string>(
  names: readonly Name[],
  { rejectsCaseVariants = false } = {},
): WantedFields<Name> {
  const byLength: Candidate<Name>[][] = [];
  const byName = new Map<string, Name>();
  let lengthMax = 0;
  for (const name of names) {
    // A property that every object inherits would look as if it had already been captured.
    if (!/^[\x21-\x7e]+$/.test(name) || name in {}) throw new Error(`"${name}" cannot be a wanted field`);
    byLength[name.length] ??= [];
    byLength[name.length]?.push({ name, bytes: new TextEncoder().encode(name) });
    byName.set(name, name);
    lengthMax = Math.max(lengthMax, name.length);
  }
  // A dense list: a hole would send the lookup up the prototype chain.
  const dense = Array.from({ length: lengthMax + 1 }, (_, length) => byLength[length]);
  return { byLength: dense, byName, keyBytesMax: lengthMax * "\\u0000".length, rejectsCaseVariants };
}

/** The object itself has depth 1. A `depthMax` above 1024 counts as 1024. */
export function scanObject<Name extends string>(
  bytes: Uint8Array,
  start: number,
  end: number,
  wanted: WantedFields<Name>,
  opts: { depthMax: number },
): JsonScan<Name> {
  const depthMax = Math.min(opts.depthMax, DEPTH_LIMIT);
  const fields: { [name in Name]?: JsonField } = {};
  let at = skipSpace(bytes, start, end);
  if (byteAt(bytes, at, end) !== OBJECT_OPEN) {
    return failure(fault(startsWithBom(bytes, start, end) ? BOM : NOT_OBJECT, at));
  }
  if (depthMax < 1) return failure(fault(TOO_DEEP, at));
  const insertAt = at + 1;
  const walkedBefore = countWalkedValues();
  at = skipSpace(bytes, insertAt, end);
  const empty = byteAt(bytes, at, end) === OBJECT_CLOSE;
  if (empty) at++;

  while (!empty) {
    const keyStart = at;
    if (byteAt(bytes, at, end) !== QUOTE) return failure(isFault(KEY, at, end));
    // Only a key that is short enough can match.
    const keyLimit = Math.min(end, keyStart + wanted.keyBytesMax + 2);
    const keyEnd = shortKeyEnd(bytes, keyStart + 1, keyLimit);
    at = keyEnd < 0 ? ~keyEnd : keyEnd;
    let name: Name | undefined;
    if (at < keyLimit) {
      const match = matchKey(bytes, keyStart + 1, keyEnd, wanted);
      if (typeof match === "object") return match;
      name = match;
      at++;
    } else {
      at = stringEnd(bytes, at, end, keyStart);
      if (at < 0) return failure(at);
    }
    at = colonEnd(bytes, at, end);
    if (at < 0) return failure(at);
    const valueStart = at;
    const walked = countWalkedValues();
    at = valueEnd(bytes, at, end, depthMax);
    if (at < 0) return failure(at);
    if (name !== undefined) {
      if (fields[name] !== undefined) return duplicateField(name, keyStart);
      const kind = detectKind(bytes[valueStart]);
      fields[name] = { keyStart, start: valueStart, end: at, kind, values: countWalkedValues() - walked };
    }
    if (byteAt(bytes, at, end) <= SPACE) at = skipSpace(bytes, at, end);
    const c = byteAt(bytes, at, end);
    if (c !== COMMA && c !== OBJECT_CLOSE) return failure(isFault(AFTER_MEMBER, at, end));
    at++;
    if (c === OBJECT_CLOSE) break;
    if (byteAt(bytes, at, end) <= SPACE) at = skipSpace(bytes, at, end);
  }

  at = skipSpace(bytes, at, end);
  if (at < end) return failure(fault(TRAILING, at));
  return { ok: true, fields, insertAt, empty, values: countWalkedValues() - walkedBefore };
}

/**
 * Returns the offset of the quote that closes a key, or at least `limit` if that is further away. The offset is inverted
 * (`~`) if the key contains an escape: one pass finds both, and a number costs no allocation.
 */
function shortKeyEnd(bytes: Uint8Array, start: number, limit: number): number {
  let at = start;
  let isEscaped = false;
  while (at < limit) {
    const c = bytes[at];
    if (c === QUOTE) break;
    if (c === BACKSLASH) {
      isEscaped = true;
      at++;
    }
    at++;
  }
  return isEscaped ? ~at : at;
}

/** Returns which of the wanted fields a key is, or undefined. Takes the end as `shortKeyEnd` returns it. */
function matchKey<Name extends string>(
  bytes: Uint8Array,
  start: number,
  keyEnd: number,
  wanted: WantedFields<Name>,
): Name | undefined | ScanFailure {
  const end = keyEnd < 0 ? ~keyEnd : keyEnd;
  let name: Name | undefined;
  if (keyEnd < 0) {
    const key = unescapeKey(bytes, start, end);
    if (typeof key === "number") return failure(fault(KEY_ESCAPE, key));
    name = wanted.byName.get(key);
  } else {
    name = wantedName(bytes, start, end, wanted);
  }
  if (name !== undefined || !wanted.rejectsCaseVariants) return name;
  const variant = caseVariant(bytes, start, end, wanted.byName);
  return variant === undefined ? undefined : caseVariantFailure(variant, start - 1);
}

function failure(encoded: number): ScanFailure {
  const offset = Math.floor((-1 - encoded) / FAULTS.length);
  const { reason, detail } = FAULTS[(-1 - encoded) % FAULTS.length] ?? FAULTS[NOT_OBJECT];
  return { ok: false, reason, offset, detail };
}

function duplicateField(field: string, offset: number): ScanFailure {
  const detail = `the field "${field}" appears more than once`;
  return { ok: false, reason: "duplicate_field", offset, detail, field };
}

function caseVariantFailure(field: string, offset: number): ScanFailure {
  const detail = `a field that is "${field}" in another case`;
  return { ok: false, reason: "case_variant", offset, detail, field };
}

function wantedName<Name extends string>(
  bytes: Uint8Array,
  start: number,
  end: number,
  wanted: WantedFields<Name>,
): Name | undefined {
  const length = end - start;
  if (length >= wanted.byLength.length) return undefined;
  const candidates = wanted.byLength[length];
  if (candidates === undefined) return undefined;
  for (const candidate of candidates) {
    let i = 0;
    while (i < length && bytes[start + i] === candidate.bytes[i]) i++;
    if (i === length) return candidate.name;
  }
  return undefined;
}

/** Returns which of the names the string from `open` to `end` is, including its quotes and with escapes decoded. */
export function wantedString<Name extends string>(
  bytes: Uint8Array,
  open: number,
  end: number,
  wanted: WantedFields<Name>,
): Name | undefined {
  const last = end - 1;
  if (last - open > wanted.keyBytesMax + 1) return undefined;
  let at = open + 1;
  while (at < last && bytes[at] !== BACKSLASH) at++;
  if (at === last) return wantedName(bytes, open + 1, last, wanted);
  const text = unescapeKey(bytes, open + 1, last);
  return typeof text === "string" ? wanted.byName.get(text) : undefined;
}

const ESCAPE_LETTERS = '"\\/bfnrt';
const ESCAPED_CHARS = '"\\/\b\f\n\r\t';

/**
 * Returns the key with its non-ASCII bytes as Latin-1, which suffices to compare it with an ASCII name; or the offset
 * of a malformed escape.
 */
function unescapeKey(bytes: Uint8Array, start: number, end: number): string | number {
  let key = "";
  for (let at = start; at < end; at++) {
    let c = bytes[at] ?? END;
    if (c === BACKSLASH) {
      const escapeStart = at;
      const letter = bytes[++at] ?? END;
      if (letter === 0x75) {
        c = 0;
        for (const last = at + 4; at < last; ) {
          const digit = hexDigit(bytes[++at] ?? END);
          if (digit < 0) return escapeStart;
          c = c * 16 + digit;
        }
      } else {
        c = ESCAPED_CHARS.charCodeAt(ESCAPE_LETTERS.indexOf(String.fromCharCode(letter)));
        if (Number.isNaN(c)) return escapeStart;
      }
    }
    key += String.fromCharCode(c);
  }
  return key;
}

function hexDigit(c: number): number {
  if (c >= DIGIT_0 && c <= DIGIT_9) return c - DIGIT_0;
  const lower = c | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x61 + 10 : -1;
}

export function detectKind(first: number | undefined): ValueKind {
  switch (first) {
    case QUOTE:
      return "string";
    case OBJECT_OPEN:
      return "object";
    case ARRAY_OPEN:
      return "array";
    case 0x74:
      return "true";
    case 0x66:
      return "false";
    case 0x6e:
      return "null";
    default:
      return "number";
  }
}

/** The byte order mark that some programs write before a text. It is not JSON. */
export const BOM_BYTES = 3;

export function startsWithBom(bytes: Uint8Array, start: number, end: number): boolean {
  return (
    end - start >= BOM_BYTES &&
    bytes[start] === 0xef &&
    bytes[start + 1] === 0xbb &&
    bytes[start + 2] === 0xbf
  );
}

/** Whether the array is valid UTF-8 from `start` on, which is the start of a character. */
export function isValidUtf8(bytes: Uint8Array, start = 0): boolean {
  // The whole array is nearly always valid, and checking the whole needs no view.
  return isUtf8(bytes) || (start > 0 && isUtf8(bytes.subarray(start)));
}

/** Returns null if the field is not a string or its content is not valid JSON. */
export function stringValue(bytes: Uint8Array, field: JsonField): string | null {
  if (field.kind !== "string") return null;
  const start = field.start + 1;
  const end = field.end - 1;
  let at = start;
  let bits = 0;
  while (at < end) {
    const c = bytes[at] ?? END;
    if (c < 0x20) return null;
    if (c === BACKSLASH) break;
    bits |= c;
    at++;
  }
  if (at === end) return bits < 0x80 ? decodeLatin1(bytes, start, end) : decodeText(bytes, start, end);
  try {
    const value: unknown = JSON.parse(decodeText(bytes, field.start, field.end));
    return typeof value === "string" ? value : null;
  } catch {
    return null;
  }
}

/** No integer in use needs more; a megabyte of digits is not worth converting. */
const INTEGER_BYTES_MAX = 64;

/** Returns null if the field is not a number or not a safe integer. `1e3` and `10.0` are integers. */
export function integerValue(bytes: Uint8Array, field: JsonField): number | null {
  if (field.kind !== "number") return null;
  let value = 0;
  let at = field.start;
  // Fifteen digits are always safe.
  if (field.end - field.start <= 15) {
    for (; at < field.end; at++) {
      const c = bytes[at] ?? END;
      if (c < DIGIT_0 || c > DIGIT_9) break;
      value = value * 10 + (c - DIGIT_0);
    }
    if (at === field.end) return value;
  }
  if (field.end - field.start > INTEGER_BYTES_MAX) return null;
  value = Number(decodeText(bytes, field.start, field.end));
  // Adding zero turns -0 into 0.
  return Number.isSafeInteger(value) ? value + 0 : null;
}

/** Returns null if the field is neither true nor false. */
export function booleanValue(field: JsonField): boolean | null {
  if (field.kind === "true") return true;
  return field.kind === "false" ? false : null;
}
