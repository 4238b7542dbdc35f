/** Reads a whole response: inserts the public model name, extracts the usage, leaves the rest. */

import { joinParts, type Part, partsLength, wholeBytesPart } from "../base/parts.ts";
import { responseBounds } from "../count-limits.ts";
import { isObject, parseJson } from "../json/parse.ts";
import {
  BOM_BYTES,
  type JsonField,
  scanObject,
  startsWithBom,
  stringValue,
  wantedFields,
} from "../json/scan.ts";
import { jsonString, replaceValue, type Splice, spliceParts } from "../json/splice.ts";
import { publicError } from "./chat/inner-errors.ts";
import type { BodyFields, Endpoint } from "./shared/endpoint.ts";
import { findEventFault, PARSED_EVENT, parseMember } from "./shared/event-bounds.ts";
import { readImageKind } from "./shared/image-kind.ts";
import { publicMessage } from "./shared/public-message.ts";
import { type ResponseFacts, readResponseFacts } from "./shared/response-facts.ts";
import { type Audience, readFailure, type UpstreamError } from "./shared/upstream-error.ts";
import type { TokenUsage } from "./shared/usage.ts";

const RESPONSE_FIELDS = wantedFields([
  "id",
  "model",
  "status",
  "usage",
  "service_tier",
  "error",
  "data",
  "choices",
  "output",
  "content",
  "input_tokens",
  "modelVersion",
  "usageMetadata",
  "candidates",
  "promptFeedback",
  "totalTokens",
  "embedding",
  "embeddings",
]);

const IMAGE_FIELDS = wantedFields(["size", "quality"]);

export interface UpstreamResponse {
  kind: "response";
  /** Slices of the upstream's bytes with the public model name between them, without copying. */
  body: readonly Part[];
  usage: TokenUsage | null;
  images: number;
  /** Size and quality of those images, as far as they are reported (`image-kind.ts`). */
  imageKind: string | null;
  /** Responses and Messages: the id that later requests may reference. */
  responseId: string | null;
  /** Responses only. */
  status: string | null;
  /** The required member of the endpoint is present. A response may also have only a status. */
  hasExpectedContent: boolean;
  /** Translated responses: the upstream gave a reason for a response without output, or the output was dropped. */
  mayBeEmpty?: boolean;
  /** For traces; absent for translated embeddings. */
  describe?: () => ResponseFacts;
}

export type WholeResponseResult =
  | UpstreamResponse
  | { kind: "error"; error: UpstreamError }
  | { kind: "malformed" };

const RESPONSE_ENDS = ["completed", "incomplete", "failed", "cancelled"] as const;
type ResponseEnd = (typeof RESPONSE_ENDS)[number];

export interface EndedResponse {
  readonly outcome: ResponseEnd;
  readonly response: UpstreamResponse;
}

/** How a response ended, by its status; null while it is in progress. */
export function readResponseEnd({ status }: Pick<UpstreamResponse, "status">): ResponseEnd | null {
  return RESPONSE_ENDS.find((end) => end === status) ?? null;
}

function isKnownStatus(status: string | null): boolean {
  return status === "queued" || status === "in_progress" || readResponseEnd({ status }) !== null;
}

export function readWholeResponse(
  { bytes, start: from, end }: Part,
  endpoint: Endpoint,
  audience: Audience,
  depthMax: number,
): WholeResponseResult {
  // Clients ignore a byte order mark, so the gateway does too.
  const start = startsWithBom(bytes, from, end) ? from + BOM_BYTES : from;
  const scan = scanObject(bytes, start, end, RESPONSE_FIELDS, { depthMax });
  if (!scan.ok) return { kind: "malformed" };
  const fields: BodyFields = scan.fields;
  const { id, model, modelVersion, status, error, data } = scan.fields;
  const hasError = error?.kind === "object" || error?.kind === "string";
  // A response object has its own `error` and is a response all the same. Elsewhere an error means failure.
  if (hasError && !(endpoint.hasStatus && status?.kind === "string")) {
    return { kind: "error", error: readFailure({ bytes, start, end }) };
  }
  const splices: Splice[] = [];
  for (const name of [model, modelVersion]) {
    if (name?.kind === "string") splices.push(replaceValue(name, jsonString(audience.publicModel)));
  }
  const toPublicMessage = (message: string) => publicMessage(message, audience);
  if (error && hasError) {
    const errorForClient = publicError(parseMember(bytes, error), toPublicMessage);
    splices.push(replaceValue(error, Buffer.from(JSON.stringify(errorForClient))));
  }
  if (endpoint.editWhole !== null) {
    const whole = { bytes, start, end };
    splices.push(...endpoint.editWhole({ whole, fields, audience, depthMax, toPublicMessage }));
  }
  const isImages = endpoint.output === "image";
  const statusText = endpoint.hasStatus && status ? stringValue(bytes, status) : null;
  return {
    kind: "response",
    body: spliceParts(bytes, splices, start, end),
    usage: endpoint.readUsage(bytes, fields),
    images: isImages && data?.kind === "array" ? countObjects(bytes, data) : 0,
    imageKind: isImages ? readReportedKind(bytes, start, end, depthMax) : null,
    responseId: id && endpoint.stores !== "never" ? stringValue(bytes, id) : null,
    status: statusText,
    hasExpectedContent:
      fields[endpoint.responseMember] !== undefined ||
      isKnownStatus(statusText) ||
      // Gemini responds to a blocked prompt without candidates.
      scan.fields.promptFeedback !== undefined,
    describe: () => readResponseFacts({ bytes, start, end }, depthMax),
  };
}

/** A separate scan, so that responses without images are not searched for it. */
function readReportedKind(bytes: Uint8Array, start: number, end: number, depthMax: number): string | null {
  const scan = scanObject(bytes, start, end, IMAGE_FIELDS, { depthMax });
  if (!scan.ok) return null;
  const { size, quality } = scan.fields;
  return readImageKind(size ? stringValue(bytes, size) : null, quality ? stringValue(bytes, quality) : null);
}

/** True for a chat completion or Gemini response whose choices are all blank, and for a message or a response without content. */
export function isEmptyResponse(body: readonly Part[]): boolean {
  // A longer one has content, and joining it would hold the event loop.
  if (partsLength(body) > responseBounds.eventParsedBytesMax) return false;
  const whole = joinParts(body);
  if (findEventFault(wholeBytesPart(whole), PARSED_EVENT) !== null) return false;
  const json = parseJson(whole);
  if (!isObject(json)) return true;
  if (Array.isArray(json.output)) return json.output.length === 0;
  if (Array.isArray(json.candidates)) return json.candidates.every(isEmptyCandidate);
  if (Array.isArray(json.content)) return json.content.length === 0 && json.stop_reason === "end_turn";
  const choices = Array.isArray(json.choices) ? json.choices.filter(isObject) : [];
  return choices.every(({ message, finish_reason }) => {
    if (finish_reason === "content_filter") return false;
    if (!isObject(message)) return true;
    return Object.entries(message).every(
      ([field, value]) => field === "role" || !value || (Array.isArray(value) && value.length === 0),
    );
  });
}

/** Gemini sometimes finishes normally without any part. A candidate that was stopped for a reason is a response. */
function isEmptyCandidate(candidate: unknown): boolean {
  if (!isObject(candidate)) return true;
  const { content, finishReason } = candidate;
  if (finishReason !== undefined && finishReason !== "STOP") return false;
  return !isObject(content) || !Array.isArray(content.parts) || content.parts.length === 0;
}

/** Counts the elements of an array of objects. An image is megabytes of base64, so strings are skipped. */
function countObjects(bytes: Uint8Array, array: JsonField): number {
  let depth = 0;
  let count = 0;
  for (let at = array.start; at < array.end; at++) {
    const byte = bytes[at];
    if (byte === 0x22) {
      at = findStringEnd(bytes, at);
    } else if (byte === 0x7b || byte === 0x5b) {
      if (byte === 0x7b && depth === 1) count++;
      depth++;
    } else if (byte === 0x7d || byte === 0x5d) {
      depth--;
    }
  }
  return count;
}

function findStringEnd(bytes: Uint8Array, quote: number): number {
  for (let at = bytes.indexOf(0x22, quote + 1); at !== -1; at = bytes.indexOf(0x22, at + 1)) {
    let slashes = 0;
    while (bytes[at - 1 - slashes] === 0x5c) slashes++;
    if (slashes % 2 === 0) return at;
  }
  return bytes.length;
}
