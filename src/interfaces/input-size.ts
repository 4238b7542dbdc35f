/** How much a request's body gives the model to read, before anybody has counted its tokens. */

import { find, textOf } from "../wire/bytes.ts";
import { QUOTE, stringEnd } from "../wire/json-walk.ts";

export interface InputSize {
  /** The body's bytes without those of media. */
  textBytes: number;
  /** Pictures, sounds and files that are in the body itself. */
  media: number;
}

const DATA_URL = Buffer.from(";base64,");
const SOUND = Buffer.from('"input_audio"');
const DATA = Buffer.from('"data"');
/** `data:` and a media type stand between the opening quote and the mark. */
const DATA_URL_HEAD_BYTES_MAX = 160;
/** Between `input_audio` and its data stand a brace, a colon and perhaps the format. */
const SOUND_HEAD_BYTES_MAX = 128;
/** Only under these names is a data URL a picture or file. In a text it is read, and paid for, as text. */
const MEDIA_KEYS: ReadonlySet<string> = new Set(["url", "image_url", "file_data", "video_url", "file_url"]);
const KEY_BYTES_MAX = 16;

export function inputSizeOf(body: Uint8Array): InputSize {
  const size: InputSize = { textBytes: body.length, media: 0 };
  for (let at = find(body, DATA_URL, 0); at !== -1; at = find(body, DATA_URL, at)) {
    const open = body.lastIndexOf(QUOTE, at);
    const isMedia =
      open !== -1 && at - open <= DATA_URL_HEAD_BYTES_MAX && MEDIA_KEYS.has(keyBefore(body, open));
    at += DATA_URL.length;
    if (isMedia) at = leaveOut(body, open, size);
  }
  for (let at = find(body, SOUND, 0); at !== -1; at = find(body, SOUND, at)) {
    const data = find(body, DATA, at);
    at += SOUND.length;
    if (data === -1 || data > at + SOUND_HEAD_BYTES_MAX) continue;
    const open = body.indexOf(QUOTE, data + DATA.length);
    if (open !== -1) at = leaveOut(body, open, size);
  }
  return size;
}

/** Where the string that opens at `open` ends. Its content is not text for the model. */
function leaveOut(body: Uint8Array, open: number, size: InputSize): number {
  const end = stringEnd(body, open + 1, body.length, open);
  if (end < 0) return body.length;
  size.textBytes -= end - open - 2;
  size.media++;
  return end;
}

/** The name of the member whose string value opens at `open`; empty if there is none. */
function keyBefore(body: Uint8Array, open: number): string {
  let at = open - 1;
  while (at > 0 && (body[at] ?? 0) <= 0x20) at--;
  if (body[at] !== 0x3a) return "";
  at--;
  while (at > 0 && (body[at] ?? 0) <= 0x20) at--;
  if (body[at] !== QUOTE) return "";
  const start = body.lastIndexOf(QUOTE, at - 1);
  return start === -1 || at - start > KEY_BYTES_MAX ? "" : textOf(body, start + 1, at);
}
