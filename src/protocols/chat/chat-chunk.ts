/** What a chunk of a Chat Completions stream contains, read from its bytes. */

import { findBytes, startsWithAt } from "../../base/bytes.ts";
import type { Part } from "../../base/parts.ts";
import { isObject, parseJson } from "../../json/parse.ts";
import { type JsonField, type ObjectScan, stringValue, wantedFields } from "../../json/scan.ts";
import { ARRAY_OPEN, QUOTE, skipSpace } from "../../json/walk.ts";
import { parseWithoutLongStrings } from "../shared/long-strings.ts";
import { readUpstreamError, UNKNOWN_ERROR, type UpstreamError } from "../shared/upstream-error.ts";
import { readUsage, type TokenUsage } from "../shared/usage.ts";

const CHUNK_FIELDS = [
  "model",
  "usage",
  "service_tier",
  "error",
  "choices",
  "object",
  "type",
  "x_groq",
] as const;
export const CHUNK = wantedFields(CHUNK_FIELDS);
export type ChunkScan = ObjectScan<(typeof CHUNK_FIELDS)[number]>;

const ERROR = Buffer.from('"error"');
const ERROR_NAME = Buffer.from("error");
const FINISH_REASON = Buffer.from('"finish_reason"');

export function readError(chunk: Uint8Array): UpstreamError {
  const json = parseJson(chunk);
  const upstreamError = readUpstreamError(json) ?? readUpstreamError({ error: json });
  return upstreamError ?? UNKNOWN_ERROR;
}

/** In JSON a quote inside a string is escaped, so a field name in quotes is found without parsing. */
export function mentionsError(bytes: Uint8Array, from: number, end: number): boolean {
  return containsBytes(bytes, ERROR, from, end);
}

/** A prefix that contains usage or an error must be read each time. */
export function isRepeatable(chunk: Uint8Array, model: JsonField, usage: JsonField | undefined): boolean {
  return !(usage && usage.start < model.start) && !mentionsError(chunk, 0, model.end);
}

/** The first chunk usually has only a role: content begins with the first delta that is not empty. */
export function hasDeltaContent(choices: readonly Record<string, unknown>[]): boolean {
  return choices.some((choice) => {
    const delta = choice.delta;
    if (!isObject(delta)) return false;
    return Object.entries(delta).some(([field, value]) => field !== "role" && !isEmptyValue(value));
  });
}

function isEmptyValue(value: unknown): boolean {
  return value === null || value === "" || (Array.isArray(value) && value.length === 0);
}

export function listChoices(chunk: unknown): Record<string, unknown>[] {
  return isObject(chunk) ? listObjects(chunk.choices) : [];
}

export function listObjects(array: unknown): Record<string, unknown>[] {
  return Array.isArray(array) ? array.filter(isObject) : [];
}

/** Nearly every chunk has the field, nearly always null: only a string is worth parsing for. */
export function hasFinishReason(bytes: Uint8Array, from: number, end: number): boolean {
  for (
    let at = findBytes(bytes, FINISH_REASON, from, end);
    at !== -1;
    at = findBytes(bytes, FINISH_REASON, at, end)
  ) {
    at += FINISH_REASON.length;
    while (bytes[at] === 0x3a || bytes[at] === 0x20) at++;
    if (bytes[at] === QUOTE) return true;
  }
  return false;
}

export function containsBytes(bytes: Uint8Array, needle: Uint8Array, from: number, end: number): boolean {
  return findBytes(bytes, needle, from, end) !== -1;
}

/** Chunks have no event name: an event named `error` is an error in any format. */
export function isErrorName(name: Part | null): boolean {
  if (name === null || name.end - name.start !== ERROR_NAME.length) return false;
  return startsWithAt(name.bytes, name.start, ERROR_NAME);
}

/** Errors of vLLM and others, whose fields are at the top level. */
export function isErrorObject(chunk: Uint8Array, { fields }: ChunkScan): boolean {
  const { object, type, choices } = fields;
  if (choices !== undefined) return false;
  return [object, type].some((field) => field !== undefined && stringValue(chunk, field) === "error");
}

/** Groq reports the usage of a stream in a member of its own, also if the client did not request it. */
export function readGroqUsage(chunk: Uint8Array, groq: JsonField | undefined): TokenUsage | null {
  if (groq?.kind !== "object") return null;
  const json = parseWithoutLongStrings(chunk, groq.start, groq.end);
  return isObject(json) ? readUsage(json.usage) : null;
}

export function isEmptyArray(bytes: Uint8Array, { start, end }: JsonField): boolean {
  return bytes[start] === ARRAY_OPEN && skipSpace(bytes, start + 1, end) === end - 1;
}
