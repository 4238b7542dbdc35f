/**
 * Rewrites errors inside of successful responses: of a response, of single choices as OpenRouter sends them, and Groq's
 * `x_groq.error`. They are written for the owner of the account, so clients get the code and a public message.
 */

import { findBytes } from "../../base/bytes.ts";
import type { Part } from "../../base/parts.ts";
import { type ByteRange, firstElements } from "../../json/array.ts";
import { isObject } from "../../json/parse.ts";
import { type JsonField, scanObject, wantedFields } from "../../json/scan.ts";
import { replaceValue, type Splice } from "../../json/splice.ts";
import { OBJECT_OPEN } from "../../json/walk.ts";
import { parseMember } from "../shared/event-bounds.ts";
import { readUpstreamError } from "../shared/upstream-error.ts";

const ERROR = wantedFields(["error"]);
const GROQ = wantedFields(["x_groq"]);
const ERROR_IN_QUOTES = Buffer.from('"error"');
const ERROR_CODE = /^[a-z_]{1,64}$/;
const FAILED = "The model failed to respond.";
/** The maximum of `n`. */
const CHOICES_MAX = 128;

/** Makes an upstream message public; empty if nothing of it remains. */
type ErrorWriter = (message: string) => string;

interface PublicError {
  code: string;
  message: string;
}

export function publicError(json: unknown, toPublicMessage: ErrorWriter): PublicError {
  const error = readUpstreamError({ error: json });
  const code = error?.code ?? "";
  return {
    code: ERROR_CODE.test(code) ? code : "server_error",
    message: toPublicMessage(error?.message ?? "") || FAILED,
  };
}

/**
 * For a chat completion or a chunk of one, whose structure is valid. A name written with escapes is not found: no known
 * upstream writes it so, and every chunk would have to be searched for it.
 */
export function rewriteInnerErrors(
  { bytes, start, end }: Part,
  choices: JsonField | undefined,
  depthMax: number,
  toPublicMessage: ErrorWriter,
): Splice[] {
  if (findBytes(bytes, ERROR_IN_QUOTES, start, end) === -1) return [];
  const objects: ByteRange[] = choices?.kind === "array" ? firstElements(bytes, choices, CHOICES_MAX) : [];
  const scan = scanObject(bytes, start, end, GROQ, { depthMax });
  if (scan.ok && scan.fields.x_groq !== undefined) objects.push(scan.fields.x_groq);
  return objects.flatMap((object) => errorSplice(bytes, object, depthMax, toPublicMessage) ?? []);
}

function errorSplice(
  bytes: Uint8Array,
  object: ByteRange,
  depthMax: number,
  toPublicMessage: ErrorWriter,
): Splice | null {
  if (bytes[object.start] !== OBJECT_OPEN) return null;
  const scan = scanObject(bytes, object.start, object.end, ERROR, { depthMax });
  if (!scan.ok) return { ...object, insert: rewriteObject(bytes, object, toPublicMessage) };
  const { error } = scan.fields;
  if (error === undefined) return null;
  const json = parseMember(bytes, error);
  const isUnread = json === null && error.kind !== "null";
  return isEmptyError(json) && !isUnread
    ? null
    : replaceValue(error, encodeJson(rewriteError(json, toPublicMessage)));
}

/** The object has two errors, and clients differ in which one they show. */
function rewriteObject(
  bytes: Uint8Array,
  { start, end }: ByteRange,
  toPublicMessage: ErrorWriter,
): Uint8Array {
  const json = parseMember(bytes, { start, end });
  if (!isObject(json)) return encodeJson({});
  return encodeJson(
    isEmptyError(json.error) ? json : { ...json, error: rewriteError(json.error, toPublicMessage) },
  );
}

/** A string stays a string. */
function rewriteError(json: unknown, toPublicMessage: ErrorWriter): PublicError | string {
  const error = publicError(json, toPublicMessage);
  return typeof json === "string" ? error.message : error;
}

/** Some upstreams send an empty error on success. */
function isEmptyError(json: unknown): boolean {
  return !json || (isObject(json) && Object.keys(json).length === 0);
}

function encodeJson(json: unknown): Uint8Array {
  return Buffer.from(JSON.stringify(json));
}
