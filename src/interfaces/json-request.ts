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
import { type InputReach, inputReachOf } from "./input-reach.ts";
import { type InputSize, inputSizeOf } from "./input-size.ts";
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
  "size",
  "quality",
] as const;
type RoutingField = (typeof ROUTING_FIELDS)[number];
type RoutingScan = ObjectScan<RoutingField>;

const ROUTING = wantedFields(ROUTING_FIELDS);
const STREAM_OPTIONS = wantedFields(["include_usage"]);
const BYTES_PER_TOKEN = 4;
/** What a picture usually takes. */
const PICTURE_TOKENS = 1_000;
const OUTPUT_TOKENS_USUAL = 500;
const NOTHING = new Uint8Array(0);
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
  const outputTokensMax = outputBound(bytes, endpoint, fields);
  let size: InputSize | null = null;
  let reach: InputReach | null = null;
  // The whole body is searched for it, so only whoever limits or charges tokens asks.
  const inputSize = () => {
    size ??= inputSizeOf(bytes);
    return size;
  };
  return {
    publicModel,
    stream,
    hidesUsage: usage !== null,
    choices: fields.n ? readCount(bytes, fields.n) : 1,
    previousResponseId: readPreviousResponse(bytes, fields.previous_response_id),
    readsKept: endpoint.interface === "responses" && continues(fields),
    keepsResponse: endpoint.name === "responses" && fields.store?.kind !== "false",
    background,
    tokensEstimate: () => estimateTokens(inputSize(), outputTokensMax),
    inputSize,
    inputReach() {
      reach ??= inputReachOf(bytes, inputSize());
      return reach;
    },
    outputTokensMax,
    imageKind:
      endpoint.interface === "images"
        ? imageKindOf(textOf(bytes, fields.size), textOf(bytes, fields.quality))
        : null,
    inputText: { kind: "json", bytes },
    conversation: () =>
      textOf(bytes, fields.prompt_cache_key) ?? beginningOf(bytes, fields.messages ?? fields.input),
    body: jsonBody(bytes, scan, endpoint, usage ?? [], limits.depthMax),
  };
}

/** As prices name them: "1024x1024/high", or the size alone. */
export function imageKindOf(size: string | null, quality: string | null): string | null {
  if (size === null) return null;
  return quality === null ? size : `${size}/${quality}`;
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
      if (continues(fields) && !isThere(fields.input)) return;
      requireKind(bytes, fields.input, "input", ["string", "array"], "a string or an array of items");
    }
  }
}

/** A response that the upstream builds on something it keeps. */
function continues(fields: RoutingScan["fields"]): boolean {
  return isThere(fields.previous_response_id) || isThere(fields.conversation) || isThere(fields.prompt);
}

function isThere(field: Field | undefined): field is Field {
  return field !== undefined && field.kind !== "null";
}

function requireKind(
  bytes: Uint8Array,
  field: Field | undefined,
  name: RoutingField,
  kinds: readonly ValueKind[],
  described: string,
): void {
  if (!isThere(field)) throw missing(name, described);
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
function estimateTokens({ textBytes, media }: InputSize, outputTokensMax: number | null): number {
  const input = Math.ceil(textBytes / BYTES_PER_TOKEN) + media * PICTURE_TOKENS;
  return input + (outputTokensMax ?? OUTPUT_TOKENS_USUAL);
}

/** Fields that another family bounds its answers by mean nothing to an upstream, and must not lessen a hold. */
const CHAT_BOUNDS = ["max_completion_tokens", "max_tokens"] as const;
const RESPONSES_BOUNDS = ["max_output_tokens"] as const;

function boundsOf(endpoint: Endpoint): readonly RoutingField[] {
  return endpoint.interface === "responses" ? RESPONSES_BOUNDS : CHAT_BOUNDS;
}

/** Of two the larger: upstreams differ in which one they keep. */
function outputBound(bytes: Uint8Array, endpoint: Endpoint, fields: RoutingScan["fields"]): number | null {
  let most: number | null = null;
  for (const name of boundsOf(endpoint)) {
    const field = fields[name];
    if (!isThere(field)) continue;
    const tokens = integerValue(bytes, field);
    // Not a count: what an upstream makes of it is not known, and to some -1 is no bound at all.
    if (tokens === null || tokens < 1) return null;
    most = Math.max(most ?? 0, tokens);
  }
  return most;
}

/** Each bound that is there is lowered; the family's own is put in where there is none. */
function capEdits(
  bytes: Uint8Array,
  endpoint: Endpoint,
  fields: RoutingScan["fields"],
  tokens: number,
): { [name in RoutingField]?: Uint8Array } {
  const edits: { [name in RoutingField]?: Uint8Array } = {};
  const names = boundsOf(endpoint);
  const used = names.filter((name) => isThere(fields[name]));
  for (const name of used.length > 0 ? used : names.slice(0, 1)) {
    const field = fields[name];
    const own = field === undefined ? null : integerValue(bytes, field);
    edits[name] = Buffer.from(String(own === null || own < 1 ? tokens : Math.min(own, tokens)));
  }
  return edits;
}

function textOf(bytes: Uint8Array, field: Field | undefined): string | null {
  return field === undefined ? null : stringValue(bytes, field);
}

function jsonBody(
  bytes: Uint8Array,
  scan: RoutingScan,
  endpoint: Endpoint,
  always: readonly Splice[],
  depthMax: number,
): RequestBody {
  return {
    contentType: "application/json",
    forUpstream(upstreamModel) {
      const model = editMembers(bytes, scan, { model: jsonString(upstreamModel) });
      return spliceParts(bytes, [...model, ...always]);
    },
    forUpstreamAfter(upstreamModel, { responseId, inputBytes }) {
      const { input } = scan.fields;
      if (input?.kind !== "array" || scan.fields.previous_response_id !== undefined) return null;
      const edits = { model: jsonString(upstreamModel), previous_response_id: jsonString(responseId) };
      const heard: Splice = { start: input.start + 1, end: input.start + 1 + inputBytes, insert: NOTHING };
      return spliceParts(bytes, [...editMembers(bytes, scan, edits), heard, ...always]);
    },
    withoutEncryptedReasoning() {
      const dropped = dropEncryptedReasoning(bytes, scan.fields.input, depthMax);
      if (dropped.length === 0) return null;
      const rest = jsonBody(bytes, scan, endpoint, [...always, ...dropped], depthMax);
      return { ...rest, withoutEncryptedReasoning: () => null, forUpstreamAfter: () => null };
    },
    withOutputCap(tokens) {
      const cap = editMembers(bytes, scan, capEdits(bytes, endpoint, scan.fields, tokens));
      return jsonBody(bytes, scan, endpoint, [...always, ...cap], depthMax);
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
