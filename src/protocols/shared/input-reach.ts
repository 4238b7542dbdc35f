/**
 * Measures what a model may have to read for a request in addition to its text: images and files in the body or remote,
 * stored conversations, and results of hosted tools. Computed only for paid requests.
 */

import { caseVariant } from "../../json/name.ts";
import { type WantedFields, wantedFields, wantedString } from "../../json/scan.ts";
import {
  ARRAY_OPEN,
  COLON,
  OBJECT_CLOSE,
  OBJECT_OPEN,
  QUOTE,
  SPACE,
  skipSpace,
  stringEnd,
} from "../../json/walk.ts";
import { startsWithAt } from "../../net/wire/bytes.ts";
import type { InputSize } from "./input-size.ts";

export interface InputReach {
  /** Bytes of text, without the whitespace between JSON tokens, which no model reads. */
  textBytes: number;
  /** Images in the body, and those referenced by URL. */
  pictures: number;
  remotePictures: number;
  /** Files, audio and video: their tokens cannot be derived from their bytes. */
  files: number;
  remoteFiles: number;
  /** The request references items of an earlier conversation. */
  namesKept: boolean;
  /**
   * The request offers hosted tools, which the upstream runs itself: their results are read as input, perhaps several
   * times.
   */
  hostsTools: boolean;
}

/** Members that mean more than their own text, and the members of the body that contain them. */
const MEMBERS = wantedFields([
  "url",
  "image_url",
  "file_data",
  "file_id",
  "file_url",
  "input_audio",
  "audio_url",
  "video_url",
  "web_search_options",
  "role",
  "type",
  "tools",
  "input",
]);
const ITEM_REFERENCE = wantedFields(["item_reference"]);
/** The client runs these tools: their results come with its next request. */
const CLIENT_TOOLS = wantedFields([
  "function",
  "custom",
  "namespace",
  "local_shell",
  "apply_patch",
  "computer",
  "computer_use_preview",
]);

const ARRAY_CLOSE = 0x5d;
const NULL = Buffer.from("null");
const DATA_URL = Buffer.from('"data:');
/** The depth of the members of a tool or an item: in an object, in an array, in the body. */
const ENTRY_DEPTH = 3;

/** Ignores case: the estimate must hold for upstreams that fold case. */
function memberName(body: Uint8Array, open: number, end: number): string | undefined {
  const exact = wantedString(body, open, end, MEMBERS);
  if (exact !== undefined || end - open > MEMBERS.keyBytesMax + 2) return exact;
  return caseVariant(body, open + 1, end - 1, MEMBERS.byName);
}

/** The body was scanned before, so its structure is valid. `size` is that of the same body. */
export function measureInputReach(body: Uint8Array, size: InputSize): InputReach {
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
  /** The member of the body that contains `at`. */
  let section: string | undefined;
  /** An input item with neither a role nor a type is a reference to an earlier item. */
  let isReference = false;

  function passSpace(from: number): number {
    const to = skipSpace(body, from, body.length);
    reach.textBytes -= to - from;
    return to;
  }

  function noteMember(name: string | undefined, value: number): void {
    if (depth === 1) section = name;
    if (name === undefined) return;
    const isText = body[value] === QUOTE;
    switch (name) {
      case "url":
      case "image_url":
        if (!isText) return;
        reach.pictures++;
        if (!startsWithAt(body, value, DATA_URL)) reach.remotePictures++;
        return;
      case "file_data":
        if (isText) reach.files++;
        return;
      case "file_id":
      case "file_url":
        if (!isText) return;
        reach.files++;
        if (!startsWithAt(body, value, DATA_URL)) reach.remoteFiles++;
        return;
      case "input_audio":
      case "audio_url":
      case "video_url":
        if (isText || body[value] === OBJECT_OPEN) reach.files++;
        return;
      case "web_search_options":
        if (depth === 1 && !startsWithAt(body, value, NULL)) reach.hostsTools = true;
        return;
      case "role":
        if (depth === ENTRY_DEPTH && isText) isReference = false;
        return;
      case "type":
        if (depth === ENTRY_DEPTH) noteType(value, isText);
    }
  }

  function noteType(value: number, isText: boolean): void {
    if (isText) isReference = false;
    if (section === "tools" && !isOneOf(CLIENT_TOOLS, value, isText)) reach.hostsTools = true;
    if (section === "input" && isOneOf(ITEM_REFERENCE, value, isText)) reach.namesKept = true;
  }

  function isOneOf(names: WantedFields<string>, open: number, isText: boolean): boolean {
    const end = isText ? stringEnd(body, open + 1, body.length, open) : -1;
    return end > 0 && wantedString(body, open, end, names) !== undefined;
  }

  for (let at = 0; at < body.length; ) {
    const c = body[at] ?? 0;
    if (c === QUOTE) {
      const end = stringEnd(body, at + 1, body.length, at);
      if (end < 0) break;
      const next = passSpace(end);
      if (body[next] === COLON) {
        const value = passSpace(next + 1);
        noteMember(memberName(body, at, end), value);
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
      // Only an entry itself can be a reference, not its contents.
      if (depth < ENTRY_DEPTH) isReference = false;
    }
    at++;
  }
  reach.textBytes = Math.max(0, reach.textBytes);
  return reach;
}
