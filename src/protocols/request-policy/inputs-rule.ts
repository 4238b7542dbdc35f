/** Counts the inputs of a request besides its text, and rejects more than a policy allows. */

import { decodeText } from "../../base/bytes.ts";
import { type JsonMember, type JsonValue, listElements } from "../../json/members.ts";
import type { Interface } from "../../records/interfaces.ts";
import { type BodyRules, INPUT_KINDS, type InputKind } from "../../records/request-policy.ts";
import { type PolicyBody, violation } from "./policy-body.ts";

export type InputCounts = Record<InputKind, number>;

/** The members that contain inputs. Null: all inputs of the interface are text. */
export const INPUT_PLACES: Readonly<Record<Interface, readonly string[] | null>> = {
  responses: ["input"],
  chat: ["messages"],
  messages: ["messages"],
  gemini: ["contents"],
  embeddings: null,
  // Not a member that its reader knows: it may be a file of a form, so the gateway counts images by their reader.
  images: ["image"],
};

export function applyInputs(body: PolicyBody, inputsMax: BodyRules["inputsMax"]): void {
  const counts: InputCounts = { images: 0, files: 0, urls: 0, audio: 0 };
  const places = INPUT_PLACES[body.interface] ?? [];
  for (const name of places) {
    const value = body.member(name);
    if (value !== null) new InputCount(body, counts).walk(value, name);
  }
  rejectInputs(counts, inputsMax, places[0] ?? "input");
}

/** Throws if there are more inputs than allowed. */
export function rejectInputs(counts: InputCounts, inputsMax: BodyRules["inputsMax"], param: string): void {
  for (const kind of INPUT_KINDS) {
    const max = inputsMax[kind];
    if (max === undefined || counts[kind] <= max) continue;
    const rule = max === 0 ? "none is allowed" : `at most ${max} are allowed`;
    throw violation(param, `the request has ${counts[kind]} ${NAMES[kind]}, and ${rule}.`);
  }
}

const NAMES: Readonly<Record<InputKind, string>> = {
  images: "images",
  files: "files",
  urls: "images or files at a URL",
  audio: "audio or video inputs",
};

/** Parts of a conversation that contain others. Arguments of calls are not descended into: they are data. */
const CONTAINERS = ["content", "output", "parts", "functionResponse"];
const IMAGE_TYPES = new Set(["image", "input_image", "image_url", "computer_screenshot"]);
const FILE_TYPES = new Set(["file", "input_file", "document", "container_upload"]);
const AUDIO_TYPES = new Set(["audio", "input_audio", "audio_url", "video", "input_video", "video_url"]);
const IMAGE_MEMBERS = ["image_url"];
const FILE_MEMBERS = ["file_data", "file_id", "file_url"];
const AUDIO_MEMBERS = ["input_audio", "audio_url", "video_url"];
const URL_MEMBERS = ["image_url", "file_url", "audio_url", "video_url"];
const GEMINI_MEDIA = ["inlineData", "fileData"];
const READ_MEMBERS = [
  "type",
  "source",
  ...CONTAINERS,
  ...IMAGE_MEMBERS,
  ...FILE_MEMBERS,
  ...AUDIO_MEMBERS,
  ...GEMINI_MEDIA,
  "file",
];

class InputCount {
  readonly #body: PolicyBody;
  readonly #counts: InputCounts;

  constructor(body: PolicyBody, counts: InputCounts) {
    this.#body = body;
    this.#counts = counts;
  }

  walk(value: JsonValue, path: string): void {
    if (value.kind === "array") {
      for (const element of listElements(this.#body.bytes, value)) this.walk(element, path);
      return;
    }
    if (value.kind !== "object") return;
    const members = this.#body.members(value, READ_MEMBERS, path);
    if (this.#body.isGoogle) this.#countGeminiPart(members, path);
    else this.#countPart(members, path);
    for (const name of CONTAINERS) {
      const inner = members.get(name);
      if (inner !== undefined) this.walk(inner, `${path}.${name}`);
    }
  }

  #countPart(members: ReadonlyMap<string, JsonMember>, path: string): void {
    const type = members.get("type");
    const typeText = (type === undefined ? null : this.#body.text(type)) ?? "";
    const has = (names: readonly string[]) => names.some((name) => isSet(members.get(name)));
    const kind: InputKind | null =
      IMAGE_TYPES.has(typeText) || has(IMAGE_MEMBERS)
        ? "images"
        : AUDIO_TYPES.has(typeText) || has(AUDIO_MEMBERS)
          ? "audio"
          : FILE_TYPES.has(typeText) || has(FILE_MEMBERS)
            ? "files"
            : null;
    const source = members.get("source");
    const sourceType = this.#sourceType(source, path);
    if (sourceType === "content" && source !== undefined) this.walk(source, `${path}.source`);
    // A document of plain text, and one that consists of other parts, is no file.
    if (kind === null || (kind === "files" && (sourceType === "text" || sourceType === "content"))) return;
    this.#counts[kind]++;
    if (kind === "images" && (has(["file_id"]) || sourceType === "file")) this.#counts.files++;
    if (sourceType === "url" || URL_MEMBERS.some((name) => this.#isRemote(members.get(name))))
      this.#counts.urls++;
  }

  #sourceType(source: JsonMember | undefined, path: string): string | null {
    if (source?.kind !== "object") return null;
    const type = this.#body.members(source, ["type"], `${path}.source`).get("type");
    return type === undefined ? null : this.#body.text(type);
  }

  /** A string, or an object with `url`; not one with the data itself. */
  #isRemote(value: JsonMember | undefined): boolean {
    if (value === undefined) return false;
    if (value.kind === "string") return !isDataUrl(this.#body.bytes, value);
    if (value.kind !== "object") return false;
    const url = this.#body.members(value, ["url"], value.name).get("url");
    return url?.kind === "string" && !isDataUrl(this.#body.bytes, url);
  }

  #countGeminiPart(members: ReadonlyMap<string, JsonMember>, path: string): void {
    for (const name of GEMINI_MEDIA) {
      const media = members.get(name);
      if (media?.kind !== "object") continue;
      const mimeType = this.#body.members(media, ["mimeType"], `${path}.${name}`).get("mimeType");
      this.#counts[mediaKind((mimeType === undefined ? null : this.#body.text(mimeType)) ?? "")]++;
      // A file that Google stores, or a video at a URL.
      if (name === "fileData") this.#counts.urls++;
    }
  }
}

function isSet(member: JsonMember | undefined): boolean {
  return member !== undefined && member.kind !== "null";
}

function mediaKind(mimeType: string): InputKind {
  if (/^image\//i.test(mimeType)) return "images";
  return /^(?:audio|video)\//i.test(mimeType) ? "audio" : "files";
}

const DATA_URL_CHARS = 5;

function isDataUrl(bytes: Uint8Array, { start }: JsonValue): boolean {
  return decodeText(bytes, start + 1, start + 1 + DATA_URL_CHARS).toLowerCase() === "data:";
}
