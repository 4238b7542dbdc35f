/**
 * Errors inside of an answer that is one all the same: of a response, of single choices as OpenRouter tells them, and
 * Groq's `x_groq.error`. They are written for whoever owns the account, so clients get the code and public words.
 */

import { type ByteRange, firstElements } from "../../json/array.ts";
import { isObject, parseJson } from "../../json/parse.ts";
import { type JsonField, scanObject, wantedFields } from "../../json/scan.ts";
import { replaceValue, type Splice } from "../../json/splice.ts";
import { OBJECT_OPEN } from "../../json/walk.ts";
import { findBytes } from "../../net/wire/bytes.ts";
import type { Part } from "../../net/wire/parts.ts";
import { readUpstreamError } from "./upstream-error.ts";

const ERROR = wantedFields(["error"]);
const GROQ = wantedFields(["x_groq"]);
const ERROR_IN_QUOTES = Buffer.from('"error"');
const ERROR_CODE = /^[a-z_]{1,64}$/;
const FAILED = "The model failed to answer.";
/** As many as may be asked for. */
const CHOICES_MAX = 128;

/** The upstream's words made fit for clients; empty where nothing is left of them. */
export type ErrorWriter = (message: string) => string;

export interface PublicError {
  code: string;
  message: string;
}

export function publicError(json: unknown, words: ErrorWriter): PublicError {
  const error = readUpstreamError({ error: json });
  const code = error?.code ?? "";
  return {
    code: ERROR_CODE.test(code) ? code : "server_error",
    message: words(error?.message ?? "") || FAILED,
  };
}

/**
 * Of a chat completion or a chunk of one, whose structure is sound. One whose name is written with escapes is not seen:
 * nobody writes it so, and every chunk would have to be looked through for it.
 */
export function rewriteInnerErrors(
  { bytes, start, end }: Part,
  choices: JsonField | undefined,
  depthMax: number,
  words: ErrorWriter,
): Splice[] {
  const found = findBytes(bytes, ERROR_IN_QUOTES, start);
  if (found === -1 || found >= end) return [];
  const objects: ByteRange[] = choices?.kind === "array" ? firstElements(bytes, choices, CHOICES_MAX) : [];
  const scan = scanObject(bytes, start, end, GROQ, { depthMax });
  if (scan.ok && scan.fields.x_groq !== undefined) objects.push(scan.fields.x_groq);
  return objects.flatMap((object) => errorSplice(bytes, object, depthMax, words) ?? []);
}

function errorSplice(
  bytes: Uint8Array,
  object: ByteRange,
  depthMax: number,
  words: ErrorWriter,
): Splice | null {
  if (bytes[object.start] !== OBJECT_OPEN) return null;
  const scan = scanObject(bytes, object.start, object.end, ERROR, { depthMax });
  if (!scan.ok) return { ...object, insert: writtenAnew(bytes, object, words) };
  const { error } = scan.fields;
  if (error === undefined) return null;
  const json = parseJson(bytes, error.start, error.end);
  return isNone(json) ? null : replaceValue(error, jsonOf(told(json, words)));
}

/** It has two errors, and clients differ in which one they show. */
function writtenAnew(bytes: Uint8Array, { start, end }: ByteRange, words: ErrorWriter): Uint8Array {
  const json = parseJson(bytes, start, end);
  if (!isObject(json)) return jsonOf({});
  return jsonOf(isNone(json.error) ? json : { ...json, error: told(json.error, words) });
}

/** A sentence stays one. */
function told(json: unknown, words: ErrorWriter): PublicError | string {
  const error = publicError(json, words);
  return typeof json === "string" ? error.message : error;
}

/** What some write where nothing failed. */
function isNone(json: unknown): boolean {
  return !json || (isObject(json) && Object.keys(json).length === 0);
}

function jsonOf(json: unknown): Uint8Array {
  return Buffer.from(JSON.stringify(json));
}
