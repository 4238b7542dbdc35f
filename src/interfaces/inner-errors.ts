/**
 * Errors inside of an answer that is one all the same: of a response, of single choices as OpenRouter tells them, and
 * Groq's `x_groq.error`. They are written for whoever owns the account, so clients get the code and a sentence of ours.
 */

import { find } from "../wire/bytes.ts";
import { firstElements, type Range } from "../wire/json-array.ts";
import { parseJson } from "../wire/json-parse.ts";
import { type Field, scanObject, wantedFields } from "../wire/json-scan.ts";
import { OBJECT_OPEN } from "../wire/json-walk.ts";
import { replaceValue, type Splice } from "../wire/splice.ts";
import { readUpstreamError } from "./upstream-error.ts";

const ERROR = wantedFields(["error"]);
const ERROR_IN_QUOTES = Buffer.from('"error"');
const ERROR_CODE = /^[a-z_]{1,64}$/;
const FAILED = "The model failed to answer.";
/** As many as may be asked for. */
const CHOICES_MAX = 128;
const NOTHING = Buffer.from("{}");

/** The upstream's words made fit for clients; empty where nothing is left of them. */
export type Words = (message: string) => string;

/** A string stays one. */
export function publicError(bytes: Uint8Array, field: Field, words: Words): Uint8Array {
  const error = readUpstreamError({ error: parseJson(bytes, field.start, field.end) });
  const message = words(error?.message ?? "") || FAILED;
  if (field.kind === "string") return Buffer.from(JSON.stringify(message));
  const code = error?.code ?? "";
  return Buffer.from(JSON.stringify({ code: ERROR_CODE.test(code) ? code : "server_error", message }));
}

/** Where they may be. */
export interface ErrorPlaces {
  choices?: Field | undefined;
  x_groq?: Field | undefined;
}

/** Of a chat completion or a chunk of one, whose structure is sound. `end` is where it ends. */
export function innerErrors(
  bytes: Uint8Array,
  { choices, x_groq: groq }: ErrorPlaces,
  end: number,
  depthMax: number,
  words: Words,
): Splice[] {
  const first = choices?.start ?? groq?.start ?? end;
  const found = find(bytes, ERROR_IN_QUOTES, Math.min(first, groq?.start ?? first));
  if (found === -1 || found >= end) return [];
  const objects: Range[] = choices?.kind === "array" ? firstElements(bytes, choices, CHOICES_MAX) : [];
  if (groq !== undefined) objects.push(groq);
  return objects.flatMap((object) => errorSplice(bytes, object, depthMax, words) ?? []);
}

function errorSplice(bytes: Uint8Array, object: Range, depthMax: number, words: Words): Splice | null {
  if (bytes[object.start] !== OBJECT_OPEN) return null;
  const scan = scanObject(bytes, object.start, object.end, ERROR, { depthMax });
  // It has two of them, and clients differ in which one they show.
  if (!scan.ok) return { start: object.start, end: object.end, insert: NOTHING };
  const { error } = scan.fields;
  if (error === undefined || error.kind === "null") return null;
  return replaceValue(error, publicError(bytes, error, words));
}
