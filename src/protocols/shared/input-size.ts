/** Measures the input of a request body, before its tokens are counted. */

import { COLON, QUOTE, SPACE, stringEnd } from "../../json/walk.ts";
import { decodeText, findBytes } from "../../net/wire/bytes.ts";

export interface InputSize {
  /** The bytes of the body without media. */
  textBytes: number;
  /** Images, audio and files in the body itself. */
  media: number;
}

const DATA_URL = Buffer.from(";base64,");
const AUDIO = Buffer.from('"input_audio"');
const DATA = Buffer.from('"data"');
/** `data:` and a media type are between the opening quote and the marker. */
const DATA_URL_HEAD_BYTES_MAX = 160;
/** A brace, a colon and perhaps the format are between `input_audio` and its data. */
const AUDIO_HEAD_BYTES_MAX = 128;
/** A data URL is an image or file only under these names. In a text it is read, and charged, as text. */
const MEDIA_KEYS: ReadonlySet<string> = new Set(["url", "image_url", "file_data", "video_url", "file_url"]);
const KEY_BYTES_MAX = 16;

/** One pass: every search near a marker has a bounded distance. */
export function measureInputSize(body: Uint8Array): InputSize {
  const size: InputSize = { textBytes: body.length, media: 0 };
  for (let at = findBytes(body, DATA_URL, 0); at !== -1; at = findBytes(body, DATA_URL, at)) {
    const open = quoteBefore(body, at, DATA_URL_HEAD_BYTES_MAX);
    const isMedia = open !== -1 && MEDIA_KEYS.has(keyBefore(body, open));
    at += DATA_URL.length;
    if (isMedia) at = skipMedia(body, open, size);
  }
  for (let at = findBytes(body, AUDIO, 0); at !== -1; at = findBytes(body, AUDIO, at)) {
    at += AUDIO.length;
    const data = dataAfter(body, at);
    if (data === -1) continue;
    const open = body.indexOf(QUOTE, data + DATA.length);
    if (open !== -1) at = skipMedia(body, open, size);
  }
  return size;
}

function quoteBefore(body: Uint8Array, from: number, bytesMax: number): number {
  const first = Math.max(0, from - bytesMax);
  for (let at = from; at >= first; at--) if (body[at] === QUOTE) return at;
  return -1;
}

function dataAfter(body: Uint8Array, from: number): number {
  const last = Math.min(body.length - DATA.length, from + AUDIO_HEAD_BYTES_MAX);
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
  let at = passSpaceBefore(body, open - 1);
  if (body[at] !== COLON) return "";
  at = passSpaceBefore(body, at - 1);
  if (body[at] !== QUOTE) return "";
  const start = quoteBefore(body, at - 1, KEY_BYTES_MAX);
  return start === -1 ? "" : decodeText(body, start + 1, at);
}

/** With more whitespace, the value counts as text. */
const SPACE_BYTES_MAX = 64;

function passSpaceBefore(body: Uint8Array, from: number): number {
  const first = Math.max(0, from - SPACE_BYTES_MAX);
  let at = from;
  while (at > first && (body[at] ?? 0) <= SPACE) at--;
  return at;
}
