/** Counts the inputs of a request besides its text, and rejects more than a policy allows. */

import { decodeText } from "../../base/bytes.ts";
import {
  type JsonValue,
  listMembers,
  type ObjectReading,
  type ObjectVisitor,
  readArray,
  readObject,
  skipValue,
} from "../../json/members.ts";
import { wantedFields, wantedString } from "../../json/scan.ts";
import { ARRAY_OPEN, OBJECT_OPEN } from "../../json/walk.ts";
import type { Interface } from "../../records/interfaces.ts";
import { type BodyRules, INPUT_KINDS, type InputKind } from "../../records/request-policy.ts";
import { caseVariantError } from "../shared/case-variant-error.ts";
import {
  ADDRESS_MEMBER,
  GEMINI_MEDIA_MEMBER_NAMES,
  GEMINI_MEDIA_MEMBERS,
  MEDIA_BY_NAME,
  MEDIA_MEMBER_NAMES,
  MEDIA_MEMBERS,
  type MediaKind,
} from "../shared/media-members.ts";
import { repeatedError } from "../shared/repeated-error.ts";
import { type PolicyBody, violation } from "./policy-body.ts";

type InputCounts = Record<InputKind, number>;

/** The members that contain inputs. Null: all inputs of the interface are text. */
export const INPUT_PLACES: Readonly<Record<Interface, readonly string[] | null>> = {
  responses: ["input", "prompt.variables"],
  chat: ["messages"],
  messages: ["messages"],
  gemini: ["contents"],
  // Of Gemini. Other APIs embed text only.
  embeddings: ["content", "requests"],
  // Not a member that its reader knows: it may be a file of a form, so the gateway counts images by their reader.
  images: ["image"],
};

export function applyInputs(body: PolicyBody, inputsMax: BodyRules["inputsMax"]): void {
  const counts: InputCounts = { images: 0, files: 0, urls: 0, audio: 0 };
  const places = INPUT_PLACES[body.interface] ?? [];
  for (const place of places) {
    const [name = "", inner] = place.split(".");
    const value = body.member(name);
    if (value === null) continue;
    const count = new InputCount(body, counts);
    if (inner === undefined) count.walk(value.start);
    else count.walkVariables(value, name, inner);
  }
  rejectInputs(counts, inputsMax, places[0] ?? "input");
}

/** Throws if there are more inputs than allowed. */
export function rejectInputs(counts: InputCounts, inputsMax: BodyRules["inputsMax"], param: string): void {
  for (const kind of INPUT_KINDS) {
    const max = inputsMax[kind];
    if (max === undefined || counts[kind] <= max) continue;
    const rule = max === 0 ? "none is allowed" : `at most ${max} are allowed`;
    throw violation("inputs", param, `the request has ${counts[kind]} ${NAMES[kind]}, and ${rule}.`);
  }
}

const NAMES: Readonly<Record<InputKind, string>> = {
  images: "images",
  files: "files",
  urls: "images or files at a URL",
  audio: "audio or video inputs",
};

/** The types of parts that are no text. They are compared as bytes: nearly all parts are text. */
const MEDIA_TYPES: ReadonlyMap<string, InputKind> = new Map<string, InputKind>([
  ["image", "images"],
  ["input_image", "images"],
  ["computer_screenshot", "images"],
  ["audio", "audio"],
  ["video", "audio"],
  ["input_video", "audio"],
  ["file", "files"],
  ["input_file", "files"],
  ["document", "files"],
  ["container_upload", "files"],
  ...MEDIA_MEMBERS.filter(({ isPartType }) => isPartType).map(({ name, kind }) => [name, kind] as const),
]);
const WANTED_TYPES = wantedFields([...MEDIA_TYPES.keys()]);

/** Parts of a conversation that contain others. Arguments of calls are not descended into: they are data. */
const CONTAINERS = ["content", "output", "parts", "functionResponse", "function_response"] as const;
const MEMBERS = [...CONTAINERS, "type", "source", ...MEDIA_MEMBER_NAMES] as const;
const GEMINI_MEMBERS = [...CONTAINERS, ...GEMINI_MEDIA_MEMBER_NAMES] as const;
type Member = (typeof MEMBERS)[number] | (typeof GEMINI_MEMBERS)[number];
type Part = ObjectReading<Member>["fields"];

const WANTED = wantedFields<Member>(MEMBERS, { rejectsCaseVariants: true });
/** Of the source of an image or a document. */
const SOURCE_WANTED = wantedFields(["type", "content"], { rejectsCaseVariants: true });
const GEMINI_WANTED = wantedFields<Member>(GEMINI_MEMBERS);
const CONTAINER_NAMES: ReadonlySet<string> = new Set(CONTAINERS);
const ADDRESSES = MEDIA_MEMBERS.filter(({ holds }) => holds === "address");
/** A part with members of several kinds is of the first of them. */
const KIND_ORDER: Readonly<Record<MediaKind, number>> = { images: 0, audio: 1, files: 2 };

/** Counts in one pass over the conversation. */
class InputCount {
  readonly #body: PolicyBody;
  readonly #counts: InputCounts;
  readonly #visitor: ObjectVisitor<Member>;
  readonly #sourceVisitor: ObjectVisitor<"type" | "content">;
  /** The type of the source of the part that is being read; null if it has none. */
  #sourceType: string | null = null;

  constructor(body: PolicyBody, counts: InputCounts) {
    this.#body = body;
    this.#counts = counts;
    this.#visitor = {
      wanted: body.isGoogle ? GEMINI_WANTED : WANTED,
      onRepeated: rejectRepeated,
      onVariant: rejectVariant,
      descend: (name, at) => {
        if (CONTAINER_NAMES.has(name)) return this.walk(at);
        return name === "source" && body.bytes[at] === OBJECT_OPEN ? this.#readSource(at) : null;
      },
    };
    this.#sourceVisitor = {
      wanted: SOURCE_WANTED,
      onRepeated: (name) => rejectRepeated(`source.${name}`),
      onVariant: (name) => rejectVariant(`source.${name}`),
      // A document may consist of parts. Read here, so that nested documents are read once.
      descend: (name, at) => (name === "content" ? this.walk(at) : null),
    };
  }

  /** Returns the end of the value. */
  readonly walk = (at: number): number => {
    const { bytes } = this.#body;
    if (bytes[at] === ARRAY_OPEN) return readArray(bytes, at, this.walk);
    if (bytes[at] !== OBJECT_OPEN) return skipValue(bytes, at);
    const outerSourceType = this.#sourceType;
    this.#sourceType = null;
    const { fields, end } = readObject(bytes, at, this.#visitor);
    if (this.#body.isGoogle) this.#countGeminiPart(fields);
    else this.#countPart(fields);
    this.#sourceType = outerSourceType;
    return end;
  };

  /** The variables of a stored prompt, which have names of their own, may be images and files. */
  walkVariables(prompt: JsonValue, path: string, name: string): void {
    if (prompt.kind !== "object") return;
    const variables = this.#body.members(prompt, [name], path).get(name);
    if (variables?.kind !== "object") return;
    for (const { start } of listMembers(this.#body.bytes, variables)) this.walk(start);
  }

  #countPart(part: Part): void {
    const kind = this.#findKind(part.type) ?? findMemberKind(part);
    if (kind === null) return;
    const sourceType = this.#sourceType;
    // A document of plain text, and one that consists of other parts, is no file.
    if (kind === "files" && (sourceType === "text" || sourceType === "content")) return;
    this.#counts[kind]++;
    if (kind === "images" && (isSet(part.file_id) || sourceType === "file")) this.#counts.files++;
    if (sourceType === "url" || ADDRESSES.some(({ name }) => this.#isRemote(part[name]))) this.#counts.urls++;
  }

  #findKind(type: JsonValue | undefined): InputKind | null {
    if (type?.kind !== "string") return null;
    const media = wantedString(this.#body.bytes, type.start, type.end, WANTED_TYPES);
    return media === undefined ? null : (MEDIA_TYPES.get(media) ?? null);
  }

  /** Returns the end of the source, and keeps its type for the part that contains it. */
  #readSource(at: number): number {
    const { fields, end } = readObject(this.#body.bytes, at, this.#sourceVisitor);
    this.#sourceType = fields.type === undefined ? null : this.#body.text(fields.type);
    return end;
  }

  /** A string, or an object with an address; not one with the data itself. */
  #isRemote(value: JsonValue | undefined): boolean {
    if (value === undefined) return false;
    if (value.kind === "string") return !isDataUrl(this.#body.bytes, value);
    if (value.kind !== "object") return false;
    const url = this.#body.members(value, [ADDRESS_MEMBER], "image_url").get(ADDRESS_MEMBER);
    return url?.kind === "string" && !isDataUrl(this.#body.bytes, url);
  }

  #countGeminiPart(part: Part): void {
    for (const { name, snakeName, holds } of GEMINI_MEDIA_MEMBERS) {
      const { [name]: camel, [snakeName]: snake } = part;
      if (camel !== undefined && snake !== undefined) rejectRepeated(name);
      const media = camel ?? snake;
      if (media?.kind !== "object") continue;
      const mimeType = this.#body.members(media, ["mimeType"], name).get("mimeType");
      this.#counts[mediaKind((mimeType === undefined ? null : this.#body.text(mimeType)) ?? "")]++;
      // A file that Google stores, or a video at a URL.
      if (holds === "reference") this.#counts.urls++;
    }
  }
}

/** A part without a known type, by the members that only media have. Nearly all parts have hardly any member. */
function findMemberKind(part: Part): MediaKind | null {
  let found: MediaKind | null = null;
  for (const name in part) {
    const member = MEDIA_BY_NAME.get(name);
    if (member === undefined || !isSet(part[member.name])) continue;
    if (found === null || KIND_ORDER[member.kind] < KIND_ORDER[found]) found = member.kind;
  }
  return found;
}

function rejectRepeated(name: string): never {
  throw repeatedError(name);
}

function rejectVariant(name: string): never {
  throw caseVariantError(name, "in the conversation");
}

function isSet(value: JsonValue | undefined): boolean {
  return value !== undefined && value.kind !== "null";
}

function mediaKind(mimeType: string): InputKind {
  if (/^image\//i.test(mimeType)) return "images";
  return /^(?:audio|video)\//i.test(mimeType) ? "audio" : "files";
}

const DATA_URL_CHARS = 5;

function isDataUrl(bytes: Uint8Array, { start }: JsonValue): boolean {
  return decodeText(bytes, start + 1, start + 1 + DATA_URL_CHARS).toLowerCase() === "data:";
}
