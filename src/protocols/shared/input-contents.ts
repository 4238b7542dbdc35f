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
import {
  ADDRESS_MEMBER,
  GEMINI_MEDIA_BY_NAME,
  GEMINI_MEDIA_MEMBER_NAMES,
  type GeminiMediaMember,
  MEDIA_BY_NAME,
  MEDIA_MEMBER_NAMES,
  type MediaMember,
} from "./media-members.ts";
import { readText } from "./read-text.ts";
import {
  classifyGeminiTool,
  classifyToolType,
  HOSTED_GEMINI_TOOLS,
  TOOL_MEMBER_NAMES,
  TOOL_MEMBERS_BY_NAME,
  type ToolMember,
} from "./tool-kinds.ts";

export interface InputContents {
  /** Bytes of text, without the whitespace between JSON tokens, which no model reads. */
  textBytes: number;
  /** Images in the body, and those referenced by URL. */
  pictures: number;
  remotePictures: number;
  /** Files, audio and video: their tokens cannot be derived from their bytes. */
  files: number;
  remoteFiles: number;
  /** The request references items of an earlier conversation. */
  referencesItems: boolean;
  /** Hosted tools, which the upstream runs: it reads their results as input, perhaps repeatedly. */
  hostsTools: boolean;
  /** The request offers a search of the web, under any name that a dialect has for it. */
  searchesWeb: boolean;
  /** The request names collections of files that its upstream stores. */
  namesCollections: boolean;
  /** The response must have a schema. */
  hasSchema: boolean;
}

/** What a member means in addition to its text. */
type Meaning = "role" | "tool_data" | "address" | "media" | "media_type" | "tool" | "collections" | "schema";

/** In a tool, `tools` may be the tools of a namespace. A value that is no list is read as a hosted tool. */
const HOSTED_TOOLS: ReadonlySet<string> = new Set(["tools", ...HOSTED_GEMINI_TOOLS]);
const NAMES: readonly (readonly [Meaning, readonly string[]])[] = [
  ["role", ["role"]],
  // The arguments of a call in Messages and Gemini, and Gemini's result of one.
  ["tool_data", ["input", "args", "response"]],
  ["address", [ADDRESS_MEMBER]],
  ["media", [...MEDIA_MEMBER_NAMES, ...GEMINI_MEDIA_MEMBER_NAMES]],
  ["media_type", ["media_type"]],
  ["tool", [...HOSTED_TOOLS, ...TOOL_MEMBER_NAMES]],
  ["collections", ["vector_store_ids", "fileSearchStoreNames", "file_search_store_names"]],
  [
    "schema",
    ["json_schema", "responseSchema", "response_schema", "responseJsonSchema", "response_json_schema"],
  ],
];
const MEANINGS: ReadonlyMap<string, Meaning> = new Map(
  NAMES.flatMap(([meaning, names]) => names.map((name) => [name, meaning] as const)),
);
const MEMBERS = wantedFields(["type", ...MEANINGS.keys()]);
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
export function measureInputContents(body: Uint8Array, size: InputSize): InputContents {
  return new InputContentsWalk(body, size).run();
}

/** One pass over the JSON of a body. */
class InputContentsWalk {
  readonly #body: Uint8Array;
  readonly #contents: InputContents;
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
    this.#contents = {
      textBytes: size.textBytes,
      pictures: 0,
      remotePictures: 0,
      files: 0,
      remoteFiles: 0,
      referencesItems: false,
      hostsTools: false,
      searchesWeb: false,
      namesCollections: false,
      hasSchema: false,
    };
  }

  run(): InputContents {
    const body = this.#body;
    const contents = this.#contents;
    for (let at = 0; at < body.length; ) {
      const c = body[at] ?? 0;
      if (c === QUOTE) {
        const end = stringEnd(body, at + 1, body.length, at);
        if (end < 0) break;
        at = this.#readString(at, end);
        continue;
      }
      if (c <= SPACE) contents.textBytes--;
      else if (c === OBJECT_OPEN || c === ARRAY_OPEN) this.#enter(c);
      else if (c === OBJECT_CLOSE || c === ARRAY_CLOSE) this.#leave();
      at++;
    }
    contents.textBytes = Math.max(0, contents.textBytes);
    return contents;
  }

  /** Reads the string at `[open, end)`, which may be a member name. Returns where to continue. */
  #readString(open: number, end: number): number {
    const next = this.#skipSpace(end);
    if (this.#body[next] !== COLON) {
      if (end - open === JSON_SCHEMA.length && startsWithAt(this.#body, open, JSON_SCHEMA))
        this.#contents.hasSchema = true;
      return next;
    }
    const value = this.#skipSpace(next + 1);
    this.#readMember(readMemberName(this.#body, open, end), value);
    return value;
  }

  #skipSpace(from: number): number {
    const to = skipSpace(this.#body, from, this.#body.length);
    this.#contents.textBytes -= to - from;
    return to;
  }

  #enter(bracket: number): void {
    this.#depth++;
    if (this.#depth === ENTRY_DEPTH) this.#isReference = bracket === OBJECT_OPEN && this.#section === "input";
  }

  #leave(): void {
    if (this.#depth === ENTRY_DEPTH && this.#isReference) this.#contents.referencesItems = true;
    this.#depth--;
    if (this.#depth === this.#toolDataDepth) this.#toolDataDepth = null;
    if (this.#namespaces > 0 && this.#depth === this.#toolDepth() - NAMESPACE_DEPTH) this.#namespaces--;
    // Only an entry itself can be a reference, not its contents.
    if (this.#depth < ENTRY_DEPTH) this.#isReference = false;
  }

  #readMember(name: string | undefined, value: number): void {
    this.#noteSection(name, value);
    // Most members have another name, or this one: only the rest are looked up.
    if (name === undefined) return;
    if (name === "type") {
      if (this.#toolDataDepth === null) this.#readType(value);
      return;
    }
    const meaning = MEANINGS.get(name);
    // Some accounts lack these two, wherever they are named.
    if (meaning === "collections") this.#contents.namesCollections = true;
    if (meaning === "schema") this.#contents.hasSchema = true;
    if (this.#toolDataDepth !== null) return;
    const isText = this.#body[value] === QUOTE;
    const isObject = this.#body[value] === OBJECT_OPEN;
    // The schema of a parameter with this name.
    if (isObject && this.#depth > this.#toolDepth()) return;
    switch (meaning) {
      case "role":
        if (this.#depth === ENTRY_DEPTH && isText) this.#isReference = false;
        return;
      case "tool_data":
        if (isObject && this.#depth > ENTRY_DEPTH) this.#toolDataDepth = this.#depth;
        return;
      case "address":
        if (isText) this.#addPicture(value);
        return;
      case "media":
        if (isText || isObject) this.#readMedia(MEDIA_BY_NAME.get(name), value);
        if (isObject) this.#readGeminiMedia(GEMINI_MEDIA_BY_NAME.get(name), value);
        return;
      case "media_type":
        if (startsWithAt(this.#body, value, IMAGE_TYPE)) this.#contents.pictures++;
        else if (startsWithAt(this.#body, value, PDF_TYPE)) this.#contents.files++;
        return;
      case "tool":
        if (this.#depth === 1) this.#readToolMember(TOOL_MEMBERS_BY_NAME.get(name), value);
        else if (this.#depth === this.#toolDepth() && this.#section === "tools") this.#readHostedTool(name);
    }
  }

  /** `value` is a text or an object. */
  #readMedia(member: MediaMember | undefined, value: number): void {
    const isText = this.#body[value] === QUOTE;
    if (member?.kind === "audio") this.#contents.files++;
    // The address in an object is read as a member of its own.
    else if (!isText) return;
    else if (member?.kind === "images") this.#addPicture(value);
    else if (member?.holds === "data_url") this.#contents.files++;
    else if (member?.kind === "files") this.#addFile(value);
  }

  #readGeminiMedia(member: GeminiMediaMember | undefined, value: number): void {
    if (member === undefined) return;
    if (member.holds === "base64" && this.#isImage(value)) this.#contents.pictures++;
    else this.#contents.files++;
    // A file that Google stores, or a video at a URL.
    if (member.holds === "reference") this.#contents.remoteFiles++;
  }

  #readToolMember(member: ToolMember | undefined, value: number): void {
    if (member === undefined || startsWithAt(this.#body, value, NULL)) return;
    if (member.isOffIfFalse && startsWithAt(this.#body, value, FALSE)) return;
    if (member.addsInput) this.#contents.hostsTools = true;
    if (member.kind === "web_search") this.#contents.searchesWeb = true;
  }

  #readHostedTool(name: string): void {
    if (!HOSTED_TOOLS.has(name)) return;
    this.#contents.hostsTools = true;
    if (classifyGeminiTool(camelCase(name)) === "web_search") this.#contents.searchesWeb = true;
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
    this.#contents.pictures++;
    if (!startsWithAt(this.#body, address, DATA_URL)) this.#contents.remotePictures++;
  }

  #addFile(address: number): void {
    this.#contents.files++;
    if (!startsWithAt(this.#body, address, DATA_URL)) this.#contents.remoteFiles++;
  }

  #toolDepth(): number {
    const outside = this.#namespaces * NAMESPACE_DEPTH;
    if (this.#isInItemTools) return ITEM_TOOL_DEPTH + outside;
    if (this.#section !== "tools") return Number.POSITIVE_INFINITY;
    return (this.#isSingleTool ? SINGLE_TOOL_DEPTH : ENTRY_DEPTH) + outside;
  }

  #isImage(value: number): boolean {
    return findBytes(this.#body, IMAGE_TYPE, value, value + MEDIA_TYPE_BYTES_MAX) !== -1;
  }

  #readType(value: number): void {
    if (this.#depth === this.#toolDepth()) this.#readToolType(value);
    else if (this.#depth === ENTRY_DEPTH) this.#readItemType(value);
  }

  #readItemType(value: number): void {
    if (this.#body[value] === QUOTE) this.#isReference = false;
    if (this.#section === "input" && this.#isStringAmong(ITEM_REFERENCE, value))
      this.#contents.referencesItems = true;
  }

  #readToolType(type: number): void {
    if (this.#isStringAmong(CLIENT_TOOLS, type)) return;
    this.#contents.hostsTools = true;
    if (this.#body[type] !== QUOTE) return;
    const end = stringEnd(this.#body, type + 1, this.#body.length, type);
    const text = readText(this.#body, { start: type, end, kind: "string", keyStart: type, values: 0 });
    if (text !== null && classifyToolType(text) === "web_search") this.#contents.searchesWeb = true;
  }

  #isStringAmong(names: WantedFields<string>, open: number): boolean {
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
