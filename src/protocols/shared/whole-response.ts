/** A whole (not streamed) answer: the public model name goes in, the usage comes out, the rest stays as it came. */

import { isObject, parseJson } from "../../json/parse.ts";
import {
  BOM_BYTES,
  type JsonField,
  scanObject,
  startsWithBom,
  stringValue,
  wantedFields,
} from "../../json/scan.ts";
import { jsonString, replaceValue, type Splice, spliceParts } from "../../json/splice.ts";
import { joinParts, type Part } from "../../net/wire/parts.ts";
import { packVectors } from "../embeddings/vectors.ts";
import { readImageKind } from "./image-kind.ts";
import { publicError, rewriteInnerErrors } from "./inner-errors.ts";
import { publicMessage } from "./public-message.ts";
import type { EndpointName } from "./request.ts";
import { type Audience, readUpstreamError, type UpstreamError } from "./upstream-error.ts";
import { readUsage, type TokenUsage } from "./usage.ts";

const ANSWER = wantedFields([
  "id",
  "model",
  "status",
  "usage",
  "error",
  "data",
  "choices",
  "output",
  "input_tokens",
]);

/** What an answer is made of: without it, it is none. */
const SUBSTANCE = {
  "chat.completions": "choices",
  responses: "output",
  "responses.compact": "output",
  "responses.input_tokens": "input_tokens",
  embeddings: "data",
  "images.generations": "data",
  "images.edits": "data",
} as const satisfies Record<EndpointName, string>;

const PICTURES = wantedFields(["size", "quality"]);

export interface UpstreamResponse {
  kind: "answer";
  /** Slices of what the upstream sent, with the public model name between them: nothing is copied. */
  body: readonly Part[];
  usage: TokenUsage | null;
  images: number;
  /** Size and quality of those images, as far as the answer says (`image-kind.ts`). */
  imageKind: string | null;
  /** Responses only: the id that later calls may name, and how far the response is. */
  responseId: string | null;
  status: string | null;
  /** It has what answers of the endpoint are made of; a response may also say only how far it is. */
  hasSubstance: boolean;
}

export type WholeResponseResult =
  | UpstreamResponse
  | { kind: "error"; error: UpstreamError }
  | { kind: "malformed" };

const ENDS = ["completed", "incomplete", "failed", "cancelled"] as const;
export type ResponseEnd = (typeof ENDS)[number];

/** How a response ended, by its status; null while it is still being made. */
export function readResponseEnd({ status }: Pick<UpstreamResponse, "status">): ResponseEnd | null {
  return ENDS.find((end) => end === status) ?? null;
}

/** Whether it is what a response says of how far it is. */
function isStanding(status: string | null): boolean {
  return status === "queued" || status === "in_progress" || readResponseEnd({ status }) !== null;
}

export function readWholeResponse(
  { bytes, start: from, end }: Part,
  endpoint: EndpointName,
  audience: Audience,
  depthMax: number,
): WholeResponseResult {
  // Clients ignore a byte order mark, and so must we.
  const start = startsWithBom(bytes, from, end) ? from + BOM_BYTES : from;
  const scan = scanObject(bytes, start, end, ANSWER, { depthMax });
  if (!scan.ok) return { kind: "malformed" };
  const { id, model, status, usage, error, data } = scan.fields;
  const isResponse = endpoint === "responses";
  const tellsError = error?.kind === "object" || error?.kind === "string";
  // A response object has an `error` of its own and is an answer all the same; elsewhere it means failure.
  if (tellsError && !(isResponse && status?.kind === "string")) {
    const found = readUpstreamError(parseJson(bytes, start, end));
    return { kind: "error", error: found ?? { code: null, type: null, param: null, message: "" } };
  }
  const splices: Splice[] = [];
  if (model?.kind === "string") splices.push(replaceValue(model, jsonString(audience.publicModel)));
  if (data?.kind === "array" && audience.wantsBase64) splices.push(...packVectors(bytes, data, depthMax));
  const words = (message: string) => publicMessage(message, audience);
  if (error && tellsError) {
    const told = publicError(parseJson(bytes, error.start, error.end), words);
    splices.push(replaceValue(error, Buffer.from(JSON.stringify(told))));
  }
  if (endpoint === "chat.completions") {
    splices.push(...rewriteInnerErrors({ bytes, start, end }, scan.fields.choices, depthMax, words));
  }
  const isPictures = endpoint.startsWith("images.");
  const standing = isResponse && status ? stringValue(bytes, status) : null;
  return {
    kind: "answer",
    body: spliceParts(bytes, splices, start, end),
    usage: usage?.kind === "object" ? readUsage(parseJson(bytes, usage.start, usage.end)) : null,
    images: isPictures && data?.kind === "array" ? countObjects(bytes, data) : 0,
    imageKind: isPictures ? toldKind(bytes, start, end, depthMax) : null,
    responseId: isResponse && id ? stringValue(bytes, id) : null,
    status: standing,
    hasSubstance: scan.fields[SUBSTANCE[endpoint]] !== undefined || isStanding(standing),
  };
}

/** A walk of its own, so that answers without pictures are not searched for it. */
function toldKind(bytes: Uint8Array, start: number, end: number, depthMax: number): string | null {
  const scan = scanObject(bytes, start, end, PICTURES, { depthMax });
  if (!scan.ok) return null;
  const { size, quality } = scan.fields;
  return readImageKind(size ? stringValue(bytes, size) : null, quality ? stringValue(bytes, quality) : null);
}

/** True for a chat completion whose choices are all blank, and for a response without output. */
export function isEmptyResponse(body: readonly Part[]): boolean {
  const json = parseJson(joinParts(body));
  if (!isObject(json)) return true;
  if (Array.isArray(json.output)) return json.output.length === 0;
  const choices = Array.isArray(json.choices) ? json.choices.filter(isObject) : [];
  return choices.every(({ message }) => {
    if (!isObject(message)) return true;
    return Object.entries(message).every(
      ([field, value]) => field === "role" || !value || (Array.isArray(value) && value.length === 0),
    );
  });
}

/** Elements of an array of objects; an image is megabytes of base64, so strings are jumped over. */
function countObjects(bytes: Uint8Array, array: JsonField): number {
  let depth = 0;
  let count = 0;
  for (let at = array.start; at < array.end; at++) {
    const byte = bytes[at];
    if (byte === 0x22) {
      at = endOfString(bytes, at);
    } else if (byte === 0x7b || byte === 0x5b) {
      if (byte === 0x7b && depth === 1) count++;
      depth++;
    } else if (byte === 0x7d || byte === 0x5d) {
      depth--;
    }
  }
  return count;
}

function endOfString(bytes: Uint8Array, quote: number): number {
  for (let at = bytes.indexOf(0x22, quote + 1); at !== -1; at = bytes.indexOf(0x22, at + 1)) {
    let slashes = 0;
    while (bytes[at - 1 - slashes] === 0x5c) slashes++;
    if (slashes % 2 === 0) return at;
  }
  return bytes.length;
}
