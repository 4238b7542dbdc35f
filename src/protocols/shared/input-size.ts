/** Measures the input of a request body, before its tokens are counted. */

import { decodeText, findBytes, startsWithAt } from "../../base/bytes.ts";
import { scanObject, stringValue, wantedFields } from "../../json/scan.ts";
import { COLON, colonEnd, OBJECT_OPEN, QUOTE, SPACE, stringEnd, valueEnd } from "../../json/walk.ts";
import { BASE64_MEMBERS, DATA_URL_MEMBERS, MEDIA_TOKENS } from "./media-members.ts";

export interface InputSize {
  /** The bytes of the body without media. */
  textBytes: number;
  /** Images, audio and files in the body itself. */
  media: number;
}

const DATA_URL = Buffer.from(";base64,");
const SCHEME = Buffer.from("data:");
const SOURCE = Buffer.from('"source"');
const SOURCE_FIELDS = wantedFields(["type", "data"]);
const SOURCE_DEPTH_MAX = 4;
const DATA = Buffer.from('"data"');
/** `data:` and a media type are between the opening quote and the marker. */
const DATA_URL_HEAD_BYTES_MAX = 160;
/** A brace, a colon and perhaps the format are between the marker and its data. */
const INLINE_HEAD_BYTES_MAX = 128;
/** A data URL is an image or file only under these names. In a text it is read, and charged, as text. */
const MEDIA_KEYS: ReadonlySet<string> = new Set(DATA_URL_MEMBERS);
const KEY_BYTES_MAX = 16;

export function inlineMarkers(members: readonly string[]): readonly Uint8Array[] {
  return members.map((name) => Buffer.from(`"${name}"`));
}

const INLINE_MARKERS = inlineMarkers(BASE64_MEMBERS);

/**
 * One pass for each marker: every search near one has a bounded distance. `markers` are the members that contain media
 * as Base64 in their `data`.
 */
export function measureInputSize(body: Uint8Array, markers = INLINE_MARKERS): InputSize {
  const size: InputSize = { textBytes: body.length, media: 0 };
  for (let at = nextMarker(body, DATA_URL, 0); at !== -1; at = nextMarker(body, DATA_URL, at)) {
    const open = quoteBefore(body, at, DATA_URL_HEAD_BYTES_MAX);
    const isUrl = open !== -1 && startsWithAt(body, open + 1, SCHEME);
    const isMedia = isUrl && MEDIA_KEYS.has(keyBefore(body, open));
    at += DATA_URL.length;
    if (isMedia) at = skipMedia(body, open, size);
  }
  for (const marker of markers) skipInlineMedia(body, marker, size);
  skipSourceMedia(body, size);
  return size;
}

function nextMarker(body: Uint8Array, marker: Uint8Array, from: number): number {
  return findBytes(body, marker, from, body.length);
}

function skipInlineMedia(body: Uint8Array, marker: Uint8Array, size: InputSize): void {
  for (let at = nextMarker(body, marker, 0); at !== -1; at = nextMarker(body, marker, at)) {
    at += marker.length;
    const data = dataAfter(body, at);
    if (data === -1) continue;
    const open = body.indexOf(QUOTE, data + DATA.length);
    if (open !== -1) at = skipMedia(body, open, size);
  }
}

function skipSourceMedia(body: Uint8Array, size: InputSize): void {
  for (let at = nextMarker(body, SOURCE, 0); at !== -1; at = nextMarker(body, SOURCE, at)) {
    at += SOURCE.length;
    const open = sourceData(body, at);
    if (open !== -1) at = skipMedia(body, open, size);
  }
}

/** The Base64 data of an image or file of the Messages API; -1 if the source is a text, a URL or no source at all. */
function sourceData(body: Uint8Array, afterKey: number): number {
  const start = colonEnd(body, afterKey, body.length);
  if (start < 0 || body[start] !== OBJECT_OPEN) return -1;
  const end = valueEnd(body, start, body.length, SOURCE_DEPTH_MAX);
  const scan = end < 0 ? null : scanObject(body, start, end, SOURCE_FIELDS, { depthMax: SOURCE_DEPTH_MAX });
  if (scan === null || !scan.ok) return -1;
  const { type, data } = scan.fields;
  return data?.kind === "string" && type !== undefined && stringValue(body, type) === "base64"
    ? data.start
    : -1;
}

function quoteBefore(body: Uint8Array, from: number, bytesMax: number): number {
  const first = Math.max(0, from - bytesMax);
  for (let at = from; at >= first; at--) if (body[at] === QUOTE) return at;
  return -1;
}

function dataAfter(body: Uint8Array, from: number): number {
  const last = Math.min(body.length - DATA.length, from + INLINE_HEAD_BYTES_MAX);
  for (let at = from; at <= last; at++) if (body[at] === QUOTE && isData(body, at)) return at;
  return -1;
}

/** Byte by byte: a call into native code for each quote would take many times as long. */
function isData(body: Uint8Array, at: number): boolean {
  let i = 1;
  while (i < DATA.length && body[at + i] === DATA[i]) i++;
  return i === DATA.length;
}

/** Skips the string that opens at `open` and returns its end. Its content is not text for the model. */
function skipMedia(body: Uint8Array, open: number, size: InputSize): number {
  const end = stringEnd(body, open + 1, body.length, open);
  if (end < 0) return body.length;
  size.textBytes -= end - open - 2;
  size.media++;
  return end;
}

/** The name of the member whose string value opens at `open`; empty if there is none. */
function keyBefore(body: Uint8Array, open: number): string {
  let at = skipSpaceBefore(body, open - 1);
  if (body[at] !== COLON) return "";
  at = skipSpaceBefore(body, at - 1);
  if (body[at] !== QUOTE) return "";
  const start = quoteBefore(body, at - 1, KEY_BYTES_MAX);
  return start === -1 ? "" : decodeText(body, start + 1, at);
}

/** With more whitespace, the value counts as text. */
const SPACE_BYTES_MAX = 64;

function skipSpaceBefore(body: Uint8Array, from: number): number {
  const first = Math.max(0, from - SPACE_BYTES_MAX);
  let at = from;
  while (at > first && (body[at] ?? 0) <= SPACE) at--;
  return at;
}

const BYTES_PER_TOKEN = 4;
const OUTPUT_TOKENS_DEFAULT = 500;

/**
 * Text has about four bytes per token. Output without a limit is assumed to have the usual length. Images are not
 * counted by their bytes.
 */
export function estimateTokens(
  { textBytes, media }: InputSize,
  { outputTokensMax, choices }: { readonly outputTokensMax: number | null; readonly choices: number },
): number {
  const input = Math.ceil(textBytes / BYTES_PER_TOKEN) + media * MEDIA_TOKENS;
  return input + (outputTokensMax ?? OUTPUT_TOKENS_DEFAULT) * choices;
}
