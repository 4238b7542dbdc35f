/**
 * What a model may have to read for a request, beyond the length of its text: pictures and files, wherever they are,
 * what the upstream keeps, and what its own tools bring. Looked for only where somebody pays.
 */

import { isAt, textOf } from "../wire/bytes.ts";
import {
  ARRAY_OPEN,
  BACKSLASH,
  OBJECT_CLOSE,
  OBJECT_OPEN,
  QUOTE,
  SPACE,
  skipSpace,
  stringEnd,
} from "../wire/json-walk.ts";
import type { InputSize } from "./input-size.ts";

export interface InputReach {
  /** Bytes of text, without the space that stands between the tokens of JSON: no model reads that. */
  textBytes: number;
  /** Pictures in the body, and those it only names. */
  pictures: number;
  remotePictures: number;
  /** Files, sounds and films: how long they are cannot be told from their bytes. */
  files: number;
  remoteFiles: number;
  /** It names items of an earlier conversation. */
  namesKept: boolean;
  /** It offers tools that the upstream runs itself: what they find is read as input, perhaps several times. */
  hostsTools: boolean;
}

/** These are run by the client: what they bring comes with the next request. */
const CLIENT_TOOLS: ReadonlySet<string> = new Set([
  "function",
  "custom",
  "namespace",
  "local_shell",
  "apply_patch",
  "computer",
  "computer_use_preview",
]);

const COLON = 0x3a;
const ARRAY_CLOSE = 0x5d;
const NULL = Buffer.from("null");
const DATA_URL = Buffer.from('"data:');
const NAME_BYTES_MAX = 24;
const TYPE_BYTES_MAX = 64;
/** Of a tool, or of an item: in an object in an array in the body. */
const ENTRY_DEPTH = 3;

/** The body was scanned before, so its structure is sound. `size` is its own. */
export function inputReachOf(body: Uint8Array, size: InputSize): InputReach {
  const reach: InputReach = {
    textBytes: size.textBytes,
    pictures: 0,
    remotePictures: 0,
    files: 0,
    remoteFiles: 0,
    namesKept: false,
    hostsTools: false,
  };
  let depth = 0;
  /** The member of the body that `at` is in. */
  let section = "";
  /** An item of the input that says neither who speaks nor what it is only refers to one. */
  let isReference = false;

  function passSpace(from: number): number {
    const to = skipSpace(body, from, body.length);
    reach.textBytes -= to - from;
    return to;
  }

  function noteMember(name: string, value: number): void {
    if (depth === 1) section = name;
    const isText = body[value] === QUOTE;
    switch (name) {
      case "url":
      case "image_url":
        if (!isText) return;
        reach.pictures++;
        if (!isAt(body, value, DATA_URL)) reach.remotePictures++;
        return;
      case "file_data":
        if (isText) reach.files++;
        return;
      case "file_id":
      case "file_url":
        if (!isText) return;
        reach.files++;
        if (!isAt(body, value, DATA_URL)) reach.remoteFiles++;
        return;
      case "input_audio":
      case "audio_url":
      case "video_url":
        if (isText || body[value] === OBJECT_OPEN) reach.files++;
        return;
      case "web_search_options":
        if (depth === 1 && !isAt(body, value, NULL)) reach.hostsTools = true;
        return;
      case "role":
        if (depth === ENTRY_DEPTH && isText) isReference = false;
        return;
      case "type":
        if (depth === ENTRY_DEPTH) noteType(isText ? stringAt(value) : null);
    }
  }

  function noteType(type: string | null): void {
    if (type !== null) isReference = false;
    if (section === "tools" && !CLIENT_TOOLS.has(type ?? "")) reach.hostsTools = true;
    if (section === "input" && type === "item_reference") reach.namesKept = true;
  }

  function stringAt(open: number): string {
    const end = stringEnd(body, open + 1, body.length, open);
    return end < 0 ? "" : shortText(body, open, end, TYPE_BYTES_MAX);
  }

  for (let at = 0; at < body.length; ) {
    const c = body[at] ?? 0;
    if (c === QUOTE) {
      const end = stringEnd(body, at + 1, body.length, at);
      if (end < 0) break;
      const next = passSpace(end);
      if (body[next] === COLON) {
        const value = passSpace(next + 1);
        noteMember(shortText(body, at, end, NAME_BYTES_MAX), value);
        at = value;
      } else at = next;
      continue;
    }
    if (c <= SPACE) reach.textBytes--;
    else if (c === OBJECT_OPEN || c === ARRAY_OPEN) {
      depth++;
      if (depth === ENTRY_DEPTH) isReference = c === OBJECT_OPEN && section === "input";
    } else if (c === OBJECT_CLOSE || c === ARRAY_CLOSE) {
      if (depth === ENTRY_DEPTH && isReference) reach.namesKept = true;
      depth--;
      // Only an entry itself can be a reference, not what lies in it.
      if (depth < ENTRY_DEPTH) isReference = false;
    }
    at++;
  }
  reach.textBytes = Math.max(0, reach.textBytes);
  return reach;
}

/** The string that opens at `open`, however it is escaped; empty when it is longer than any of interest. */
function shortText(body: Uint8Array, open: number, end: number, bytesMax: number): string {
  const length = end - open - 2;
  if (length > bytesMax * "\\u0000".length) return "";
  let at = open + 1;
  while (at < end && body[at] !== BACKSLASH) at++;
  if (at === end) return length > bytesMax ? "" : textOf(body, open + 1, end - 1);
  try {
    return String(JSON.parse(textOf(body, open, end)));
  } catch {
    return "";
  }
}
