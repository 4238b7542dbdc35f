/** Reads members of parsed JSON. A member of another type reads as missing; a number kept as text is no object. */

import { readLongNumber, tryParseLossless } from "../../json/lossless.ts";
import { isObject } from "../../json/parse.ts";

export type Json = Readonly<Record<string, unknown>>;

export function readString(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

export function readNumber(value: unknown): number | null {
  const number = typeof value === "number" ? value : readLongNumber(value);
  return number !== null && Number.isFinite(number) ? number : null;
}

export function readBoolean(value: unknown): boolean | null {
  return typeof value === "boolean" ? value : null;
}

export function readObject(value: unknown): Json | null {
  return isPlainObject(value) ? value : null;
}

function isPlainObject(value: unknown): value is Json {
  return isObject(value) && !JSON.isRawJSON(value);
}

export function readArray(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function readObjects(value: unknown): readonly Json[] {
  return Array.isArray(value) ? value.filter(isPlainObject) : [];
}

/** Null if the text is not a JSON object. Numbers keep all of their digits. */
export function parseObject(text: string): Json | null {
  const json = tryParseLossless(text);
  return isObject(json) ? json : null;
}

/** Only members that are strings. */
export function readStringMap(value: unknown): Readonly<Record<string, string>> | null {
  if (!isObject(value)) return null;
  const strings: Record<string, string> = {};
  for (const [name, member] of Object.entries(value)) if (typeof member === "string") strings[name] = member;
  return strings;
}
