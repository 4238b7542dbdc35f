/**
 * A JSON body → what routing, metering and admission need, without parsing it: the scanner finds the few
 * fields that matter, and the bytes go on as they came but for the splices.
 */

import { ApiError } from "../errors.ts";
import { find } from "../wire/bytes.ts";
import {
  booleanValue,
  describeScanError,
  type Field,
  integerValue,
  isValidUtf8,
  type ObjectScan,
  scanObject,
  stringValue,
  type ValueKind,
  wantedFields,
} from "../wire/json-scan.ts";
import { editMembers, jsonString, type Splice, spliceParts } from "../wire/splice.ts";
import { beginningOf } from "./conversation.ts";
import { dropEncryptedReasoning } from "./foreign-reasoning.ts";
import type { Endpoint, EndpointName, ModelRequest, RequestBody } from "./request.ts";

/** Fields the gateway acts on or meters by. None may appear twice: parsers differ in which one they keep. */
const ROUTING_FIELDS = [
  "model",
  "stream",
  "stream_options",
  "n",
  "input",
  "messages",
  "prompt",
  "store",
  "background",
  "conversation",
  "previous_response_id",
  "prompt_cache_key",
  "max_output_tokens",
  "max_completion_tokens",
  "max_tokens",
] as const;
type RoutingField = (typeof ROUTING_FIELDS)[number];
type RoutingScan = ObjectScan<RoutingField>;

const ROUTING = wantedFields(ROUTING_FIELDS);
const STREAM_OPTIONS = wantedFields(["include_usage"]);
const BYTES_PER_TOKEN = 4;
/** Smaller bodies hold no picture worth looking for. */
const PICTURE_BODY_BYTES_MIN = 16 * 1024;
/** About a thousand tokens, which is what one usually takes. */
const PICTURE_BYTES_COUNTED = 4_000;
const BASE64_MARK = Buffer.from(";base64,");
const OUTPUT_TOKENS_USUAL = 500;
const TRUE = new TextEncoder().encode("true");
const INCLUDE_USAGE = new TextEncoder().encode('{"include_usage":true}');

export interface JsonRequestLimits {
  depthMax: number;
  modelNameCharsMax: number;
}

export function readJsonRequest(
  bytes: Uint8Array,
  endpoint: Endpoint,
  limits: JsonRequestLimits,
): ModelRequest {
  const scan = scanRouting(bytes, limits.depthMax);
  const { fields } = scan;
  const publicModel = readModel(bytes, fields.model, limits.modelNameCharsMax);
  const stream = readBoolean(fields.stream, "stream");
  checkContent(bytes, scan, endpoint.name);
  const usage =
    endpoint.name === "chat.completions" && stream ? forceUsage(bytes, scan, limits.depthMax) : null;
  const background = readBoolean(fields.background, "background");
  return {
    publicModel,
    stream,
    hidesUsage: usage !== null,
    choices: fields.n ? readCount(bytes, fields.n) : 1,
    previousResponseId: readPreviousResponse(bytes, fields.previous_response_id),
    keepsResponse: endpoint.name === "responses" && fields.store?.kind !== "false",
    background,
    tokensEstimate: estimateTokens(bytes, fields),
    conversation: () =>
      textOf(bytes, fields.prompt_cache_key) ?? beginningOf(bytes, fields.messages ?? fields.input),
    body: jsonBody(bytes, scan, usage ?? [], limits.depthMax),
  };
}

function scanRouting(bytes: Uint8Array, depthMax: number): RoutingScan {
  if (!isValidUtf8(bytes)) {
    throw new ApiError("invalid_json", "The request body is not valid UTF-8. Send JSON encoded as UTF-8.");
  }
  const scan = scanObject(bytes, 0, bytes.length, ROUTING, { depthMax });
  if (scan.ok) return scan;
  if (scan.reason === "duplicate_field") {
    const field = scan.field ?? "";
    throw new ApiError(
      "duplicate_parameter",
      `The field \`${field}\` appears more than once (${describeScanError(bytes, scan)}). Send it once, so that what is checked is what is served.`,
      { param: field },
    );
  }
  throw new ApiError(
    "invalid_json",
    `The request body is not a valid JSON object: ${describeScanError(bytes, scan)}.`,
  );
}

function readModel(bytes: Uint8Array, field: Field | undefined, charsMax: number): string {
  if (!field || field.kind === "null") throw missing("model", "an id from GET /v1/models");
  const model = readString(bytes, field, "model");
  if (model === "" || model.length > charsMax) {
    throw new ApiError("invalid_value", `\`model\` must be 1 to ${charsMax} characters long.`, {
      param: "model",
    });
  }
  return model;
}

function readBoolean(field: Field | undefined, name: string): boolean {
  if (!field || field.kind === "null") return false;
  const value = booleanValue(field);
  if (value === null) throw wrongType(name, "a boolean", field.kind);
  return value;
}

function readCount(bytes: Uint8Array, field: Field): number {
  if (field.kind === "null") return 1;
  const count = integerValue(bytes, field);
  if (count === null) throw wrongType("n", "an integer", field.kind);
  if (count < 1 || count > 128) {
    throw new ApiError("invalid_value", "`n` must be between 1 and 128.", { param: "n" });
  }
  return count;
}

function readPreviousResponse(bytes: Uint8Array, field: Field | undefined): string | null {
  if (!field || field.kind === "null") return null;
  return readString(bytes, field, "previous_response_id");
}

function readString(bytes: Uint8Array, field: Field, name: RoutingField): string {
  if (field.kind !== "string") throw wrongType(name, "a string", field.kind);
  const value = stringValue(bytes, field);
  if (value !== null) return value;
  throw new ApiError("invalid_json", `The value of \`${name}\` is not a valid JSON string.`, { param: name });
}

/** The fields without which no upstream could answer; anything finer is for the upstream to say. */
function checkContent(bytes: Uint8Array, { fields }: RoutingScan, endpoint: EndpointName): void {
  switch (endpoint) {
    case "chat.completions":
      requireKind(bytes, fields.messages, "messages", ["array"], "an array of messages");
      return;
    case "embeddings":
      requireKind(bytes, fields.input, "input", ["string", "array"], "a string or an array");
      return;
    case "images.generations":
    case "images.edits":
      requireKind(bytes, fields.prompt, "prompt", ["string"], "a string");
      return;
    case "responses":
    case "responses.compact":
    case "responses.input_tokens": {
      const continues = [fields.previous_response_id, fields.conversation, fields.prompt].some(
        (field) => field && field.kind !== "null",
      );
      if (continues && (!fields.input || fields.input.kind === "null")) return;
      requireKind(bytes, fields.input, "input", ["string", "array"], "a string or an array of items");
    }
  }
}

function requireKind(
  bytes: Uint8Array,
  field: Field | undefined,
  name: RoutingField,
  kinds: readonly ValueKind[],
  described: string,
): void {
  if (!field || field.kind === "null") throw missing(name, described);
  if (!kinds.includes(field.kind)) throw wrongType(name, described, field.kind);
  if (name === "messages" && isEmptyArray(bytes, field)) {
    throw new ApiError("invalid_value", "`messages` is empty. Send at least one message.", { param: name });
  }
}

function isEmptyArray(bytes: Uint8Array, field: Field): boolean {
  for (let at = field.start + 1; at < field.end - 1; at++) {
    const byte = bytes[at];
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return false;
  }
  return true;
}

/** Splices that make a chat upstream report usage; null when the client asks for it itself. */
function forceUsage(bytes: Uint8Array, scan: RoutingScan, depthMax: number): Splice[] | null {
  const field = scan.fields.stream_options;
  if (!field || field.kind === "null") return editMembers(bytes, scan, { stream_options: INCLUDE_USAGE });
  if (field.kind !== "object") throw wrongType("stream_options", "an object", field.kind);
  const options = scanObject(bytes, field.start, field.end, STREAM_OPTIONS, { depthMax });
  if (!options.ok) {
    throw new ApiError("duplicate_parameter", "`stream_options.include_usage` appears more than once.", {
      param: "stream_options",
    });
  }
  if (options.fields.include_usage?.kind === "true") return null;
  return editMembers(bytes, options, { include_usage: TRUE });
}

/**
 * Text is about four bytes a token; an answer without a bound of its own is taken to be of ordinary length. A picture
 * is not counted by its bytes.
 */
function estimateTokens(bytes: Uint8Array, fields: RoutingScan["fields"]): number {
  const bound = fields.max_output_tokens ?? fields.max_completion_tokens ?? fields.max_tokens;
  const output = bound === undefined ? null : integerValue(bytes, bound);
  return Math.ceil(textBytes(bytes) / BYTES_PER_TOKEN) + Math.max(0, output ?? OUTPUT_TOKENS_USUAL);
}

function textBytes(bytes: Uint8Array): number {
  if (bytes.length < PICTURE_BODY_BYTES_MIN) return bytes.length;
  let total = bytes.length;
  for (let at = find(bytes, BASE64_MARK, 0); at !== -1; at = find(bytes, BASE64_MARK, at)) {
    const end = bytes.indexOf(0x22, at);
    if (end === -1) break;
    total -= Math.max(0, end - at - PICTURE_BYTES_COUNTED);
    at = end;
  }
  return total;
}

function textOf(bytes: Uint8Array, field: Field | undefined): string | null {
  return field === undefined ? null : stringValue(bytes, field);
}

function jsonBody(
  bytes: Uint8Array,
  scan: RoutingScan,
  always: readonly Splice[],
  depthMax: number,
): RequestBody {
  return {
    contentType: "application/json",
    forUpstream(upstreamModel) {
      const model = editMembers(bytes, scan, { model: jsonString(upstreamModel) });
      return spliceParts(bytes, [...model, ...always]);
    },
    withoutEncryptedReasoning() {
      const dropped = dropEncryptedReasoning(bytes, scan.fields.input, depthMax);
      if (dropped.length === 0) return null;
      const rest = jsonBody(bytes, scan, [...always, ...dropped], depthMax);
      return { ...rest, withoutEncryptedReasoning: () => null };
    },
    mentions: (word) => find(bytes, Buffer.from(word), 0) !== -1,
    dispose: async () => {},
  };
}

function missing(name: string, described: string): ApiError {
  return new ApiError(
    "missing_required_parameter",
    `Missing required parameter: \`${name}\` (${described}).`,
    {
      param: name,
    },
  );
}

function wrongType(name: string, wanted: string, kind: ValueKind): ApiError {
  return new ApiError(
    "invalid_type",
    `Invalid type for \`${name}\`: expected ${wanted}, got ${KIND_NAMES[kind]}.`,
    { param: name },
  );
}

const KIND_NAMES: Readonly<Record<ValueKind, string>> = {
  string: "a string",
  number: "a number",
  true: "a boolean",
  false: "a boolean",
  null: "null",
  object: "an object",
  array: "an array",
};
