/**
 * Measures what a model may have to read for a request in addition to its text: images and files in the body or remote,
 * stored conversations, and results of hosted tools. Computed only for paid requests.
 */

import { findBytes, startsWithAt } from "../../base/bytes.ts";
import { camelCase } from "../../base/name-case.ts";
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
import type { InputSize } from "./input-size.ts";
import { MEDIA_MEMBER_NAMES } from "./media-members.ts";
import { readText } from "./read-text.ts";
import { classifyGeminiTool, classifyToolType } from "./tool-kinds.ts";

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
  /** Hosted tools, which the upstream runs: it reads their results as input, perhaps repeatedly. */
  hostsTools: boolean;
  /** The request offers a search of the web, under any name that a dialect has for it. */
  searchesWeb: boolean;
  /** The request names collections of files that its upstream stores. */
  namesCollections: boolean;
  /** The response must have a schema. */
  hasSchema: boolean;
}

/** Members that mean more than their own text, and the members of the body that contain them. */
const MEMBERS = wantedFields([
  "url",
  ...MEDIA_MEMBER_NAMES,
  "media_type",
  "web_search_options",
  "search_parameters",
  "enable_search",
  "plugins",
  "role",
  "type",
  "tools",
  "input",
  "args",
  "response",
  "inlineData",
  "inline_data",
  "fileData",
  "googleSearch",
  "google_search",
  "googleSearchRetrieval",
  "google_search_retrieval",
  "enterpriseWebSearch",
  "enterprise_web_search",
  "codeExecution",
  "code_execution",
  "urlContext",
  "url_context",
  "googleMaps",
  "google_maps",
  "fileSearch",
  "file_search",
  "vector_store_ids",
  "fileSearchStoreNames",
  "file_search_store_names",
  "json_schema",
  "responseSchema",
  "response_schema",
  "responseJsonSchema",
  "response_json_schema",
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
const FALSE = Buffer.from("false");
const DATA_URL = Buffer.from('"data:');
/** The type of a format, which in some dialects has its schema beside it. */
const JSON_SCHEMA = Buffer.from('"json_schema"');
/** The media types of Messages blocks and Gemini parts. A text file is counted as text. */
const IMAGE_TYPE = Buffer.from('"image/');
const PDF_TYPE = Buffer.from('"application/pdf"');
/** `{"mimeType":"image/png"` with some white space. */
const MEDIA_TYPE_BYTES_MAX = 64;
/** The depth of the members of a tool or an item: in an object, in an array, in the body. */
const ENTRY_DEPTH = 3;
/** The depth of the members of a single tool in place of a list, which Google accepts. */
const SINGLE_TOOL_DEPTH = 2;
/** The depth of the members of a tool that an input item offers. */
const ITEM_TOOL_DEPTH = 5;
/** A list of tools in a tool, which is a namespace, is this much deeper. */
const NAMESPACE_DEPTH = 2;

/** The body was scanned before, so its structure is valid. `size` is that of the same body. */
export function measureInputReach(body: Uint8Array, size: InputSize): InputReach {
  return new InputReachWalk(body, size).run();
}

/** One pass over the JSON of a body. */
class InputReachWalk {
  readonly #body: Uint8Array;
  readonly #reach: InputReach;
  #depth = 0;
  /** The member of the body that is being read. */
  #section: string | undefined;
  /** An input item with neither a role nor a type is a reference to an earlier item. */
  #isReference = false;
  /** An input item is being read, and in it the member `tools`, which offers further tools. */
  #isInItemTools = false;
  /** The member `tools` of the body is a single tool. */
  #isSingleTool = false;
  /** The number of namespaces around the tool that is being read. */
  #namespaces = 0;
  /** The depth of the member whose object is the data of a tool, which may have any names; null outside of one. */
  #toolDataDepth: number | null = null;

  constructor(body: Uint8Array, size: InputSize) {
    this.#body = body;
    this.#reach = {
      textBytes: size.textBytes,
      pictures: 0,
      remotePictures: 0,
      files: 0,
      remoteFiles: 0,
      namesKept: false,
      hostsTools: false,
      searchesWeb: false,
      namesCollections: false,
      hasSchema: false,
    };
  }

  run(): InputReach {
    const body = this.#body;
    const reach = this.#reach;
    for (let at = 0; at < body.length; ) {
      const c = body[at] ?? 0;
      if (c === QUOTE) {
        const end = stringEnd(body, at + 1, body.length, at);
        if (end < 0) break;
        at = this.#readString(at, end);
        continue;
      }
      if (c <= SPACE) reach.textBytes--;
      else if (c === OBJECT_OPEN || c === ARRAY_OPEN) this.#enter(c);
      else if (c === OBJECT_CLOSE || c === ARRAY_CLOSE) this.#leave();
      at++;
    }
    reach.textBytes = Math.max(0, reach.textBytes);
    return reach;
  }

  /** Reads the string at `[open, end)`, which may be a member name. Returns where to continue. */
  #readString(open: number, end: number): number {
    const next = this.#skipSpace(end);
    if (this.#body[next] !== COLON) {
      if (end - open === JSON_SCHEMA.length && startsWithAt(this.#body, open, JSON_SCHEMA))
        this.#reach.hasSchema = true;
      return next;
    }
    const value = this.#skipSpace(next + 1);
    this.#readMember(readMemberName(this.#body, open, end), value);
    return value;
  }

  #skipSpace(from: number): number {
    const to = skipSpace(this.#body, from, this.#body.length);
    this.#reach.textBytes -= to - from;
    return to;
  }

  #enter(bracket: number): void {
    this.#depth++;
    if (this.#depth === ENTRY_DEPTH) this.#isReference = bracket === OBJECT_OPEN && this.#section === "input";
  }

  #leave(): void {
    if (this.#depth === ENTRY_DEPTH && this.#isReference) this.#reach.namesKept = true;
    this.#depth--;
    if (this.#depth === this.#toolDataDepth) this.#toolDataDepth = null;
    if (this.#namespaces > 0 && this.#depth === this.#toolDepth() - NAMESPACE_DEPTH) this.#namespaces--;
    // Only an entry itself can be a reference, not its contents.
    if (this.#depth < ENTRY_DEPTH) this.#isReference = false;
  }

  #readMember(name: string | undefined, value: number): void {
    this.#noteSection(name, value);
    if (name === undefined || this.#noteFeature(name) || this.#toolDataDepth !== null) return;
    const isText = this.#body[value] === QUOTE;
    const isObject = this.#body[value] === OBJECT_OPEN;
    // The schema of a parameter with this name.
    if (isObject && this.#depth > this.#toolDepth()) return;
    switch (name) {
      case "input":
      case "args":
      case "response":
        // The arguments of a call in Messages and Gemini, and Gemini's result of one.
        if (isObject && this.#depth > ENTRY_DEPTH) this.#toolDataDepth = this.#depth;
        return;
      case "url":
      case "image_url":
        if (isText) this.#addPicture(value);
        return;
      case "file_data":
        if (isText) this.#reach.files++;
        else if (isObject) this.#addGeminiFile();
        return;
      case "fileData":
        this.#addGeminiFile();
        return;
      case "inlineData":
      case "inline_data":
        if (this.#isImage(value)) this.#reach.pictures++;
        else this.#reach.files++;
        return;
      case "file_id":
      case "file_url":
      case "document_url":
        if (isText) this.#addFile(value);
        return;
      case "input_audio":
      case "audio_url":
      case "video_url":
        if (isText || isObject) this.#reach.files++;
        return;
      case "media_type":
        if (startsWithAt(this.#body, value, IMAGE_TYPE)) this.#reach.pictures++;
        else if (startsWithAt(this.#body, value, PDF_TYPE)) this.#reach.files++;
        return;
      case "web_search_options":
        if (this.#depth !== 1 || startsWithAt(this.#body, value, NULL)) return;
        this.#reach.hostsTools = true;
        this.#reach.searchesWeb = true;
        return;
      case "search_parameters":
      case "enable_search":
      case "plugins":
        if (this.#depth === 1 && !this.#isOff(value)) this.#reach.searchesWeb = true;
        return;
      case "role":
        if (this.#depth === ENTRY_DEPTH && isText) this.#isReference = false;
        return;
      case "type":
        if (this.#depth === this.#toolDepth()) this.#readToolType(value);
        else if (this.#depth === ENTRY_DEPTH) this.#readItemType(value);
        return;
      default:
        // The rest are the names of tools that Google runs.
        if (this.#depth !== this.#toolDepth() || this.#section !== "tools") return;
        this.#reach.hostsTools = true;
        if (classifyGeminiTool(camelCase(name)) === "web_search") this.#reach.searchesWeb = true;
    }
  }

  /** What some accounts lack, wherever it is named. Returns whether the member means nothing else. */
  #noteFeature(name: string): boolean {
    switch (name) {
      case "vector_store_ids":
      case "fileSearchStoreNames":
      case "file_search_store_names":
        this.#reach.namesCollections = true;
        return true;
      case "json_schema":
      case "responseSchema":
      case "response_schema":
      case "responseJsonSchema":
      case "response_json_schema":
        this.#reach.hasSchema = true;
        return true;
      default:
        return false;
    }
  }

  #noteSection(name: string | undefined, value: number): void {
    if (name === "tools" && this.#depth === this.#toolDepth() && this.#body[value] === ARRAY_OPEN)
      this.#namespaces++;
    if (this.#depth > ENTRY_DEPTH) return;
    if (this.#depth === 1) {
      this.#section = name;
      this.#isSingleTool = this.#body[value] === OBJECT_OPEN;
    }
    this.#isInItemTools = this.#depth === ENTRY_DEPTH && this.#section === "input" && name === "tools";
  }

  #addPicture(address: number): void {
    this.#reach.pictures++;
    if (!startsWithAt(this.#body, address, DATA_URL)) this.#reach.remotePictures++;
  }

  #addFile(address: number): void {
    this.#reach.files++;
    if (!startsWithAt(this.#body, address, DATA_URL)) this.#reach.remoteFiles++;
  }

  #toolDepth(): number {
    const outside = this.#namespaces * NAMESPACE_DEPTH;
    if (this.#isInItemTools) return ITEM_TOOL_DEPTH + outside;
    if (this.#section !== "tools") return Number.POSITIVE_INFINITY;
    return (this.#isSingleTool ? SINGLE_TOOL_DEPTH : ENTRY_DEPTH) + outside;
  }

  #isOff(value: number): boolean {
    return startsWithAt(this.#body, value, NULL) || startsWithAt(this.#body, value, FALSE);
  }

  /** A file that Google stores, or a video at a URL. */
  #addGeminiFile(): void {
    this.#reach.files++;
    this.#reach.remoteFiles++;
  }

  #isImage(value: number): boolean {
    return findBytes(this.#body, IMAGE_TYPE, value, value + MEDIA_TYPE_BYTES_MAX) !== -1;
  }

  #readItemType(value: number): void {
    if (this.#body[value] === QUOTE) this.#isReference = false;
    if (this.#section === "input" && this.#isOneOf(ITEM_REFERENCE, value)) this.#reach.namesKept = true;
  }

  #readToolType(type: number): void {
    if (this.#isOneOf(CLIENT_TOOLS, type)) return;
    this.#reach.hostsTools = true;
    if (this.#body[type] !== QUOTE) return;
    const end = stringEnd(this.#body, type + 1, this.#body.length, type);
    const text = readText(this.#body, { start: type, end, kind: "string", keyStart: type, values: 0 });
    if (text !== null && classifyToolType(text) === "web_search") this.#reach.searchesWeb = true;
  }

  #isOneOf(names: WantedFields<string>, open: number): boolean {
    if (this.#body[open] !== QUOTE) return false;
    const end = stringEnd(this.#body, open + 1, this.#body.length, open);
    return end > 0 && wantedString(this.#body, open, end, names) !== undefined;
  }
}

/** Ignores case: the estimate must hold for upstreams that fold case. */
function readMemberName(body: Uint8Array, open: number, end: number): string | undefined {
  const exact = wantedString(body, open, end, MEMBERS);
  if (exact !== undefined || end - open > MEMBERS.keyBytesMax + 2) return exact;
  return caseVariant(body, open + 1, end - 1, MEMBERS.byName);
}
