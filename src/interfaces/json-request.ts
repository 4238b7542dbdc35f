/**
 * A JSON body → what routing, metering and admission need, without parsing it: the scanner finds the few
 * fields that matter, and the bytes go on as they came but for the splices.
 */

import { ApiError } from "../errors.ts";
import {
  booleanValue,
  describeScanError,
  type Field,
  integerValue,
  isValidUtf8,
  scanObject,
  stringValue,
  type ValueKind,
  wantedFields,
} from "../wire/json-scan.ts";
import { openKnownStrings } from "../wire/known-strings.ts";
import { bytesOf, editMembers, type Part, type Splice } from "../wire/splice.ts";
import { beginningOf } from "./conversation.ts";
import { imageKindOf } from "./image-kind.ts";
import { type InputReach, inputReachOf } from "./input-reach.ts";
import { type InputSize, inputSizeOf } from "./input-size.ts";
import {
  checkBounds,
  isThere,
  JsonBody,
  notJson,
  outputBound,
  ROUTING,
  type RoutingField,
  type RoutingScan,
} from "./json-body.ts";
import type { Endpoint, EndpointName, InputText, ModelRequest, RequestBody } from "./request.ts";

const STREAM_OPTIONS = wantedFields(["include_usage"]);
const BYTES_PER_TOKEN = 4;
/** What a picture usually takes. */
const PICTURE_TOKENS = 1_000;
const OUTPUT_TOKENS_USUAL = 500;
const TRUE = new TextEncoder().encode("true");
const INCLUDE_USAGE = new TextEncoder().encode('{"include_usage":true}');

export interface JsonRequestLimits {
  depthMax: number;
  modelNameCharsMax: number;
}

/**
 * The body ends where its array does; what may stand before it there is nobody's business here. `disposed` is told when
 * the body is not needed any more; it may be more than once.
 */
export function readJsonRequest(
  body: Part,
  endpoint: Endpoint,
  limits: JsonRequestLimits,
  disposed: (() => void) | null = null,
): ModelRequest {
  return new JsonRequest(body, scanRouting(body, limits.depthMax), endpoint, limits, disposed);
}

/** A class, so that a request costs a few objects and no closures. */
class JsonRequest implements ModelRequest {
  readonly publicModel: string;
  readonly stream: boolean;
  readonly hidesUsage: boolean;
  readonly wantsBase64: boolean;
  readonly choices: number;
  readonly previousResponseId: string | null;
  readonly readsKept: boolean;
  readonly keepsResponse: boolean;
  readonly background: boolean;
  readonly outputTokensMax: number | null;
  readonly imageKind: string | null;
  readonly inputText: InputText;
  readonly body: RequestBody;
  private readonly part: Part;
  private readonly endpoint: Endpoint;
  private readonly fields: RoutingScan["fields"];
  private size: InputSize | null = null;
  private reach: InputReach | null = null;
  private own: Uint8Array | null = null;

  constructor(
    part: Part,
    scan: RoutingScan,
    endpoint: Endpoint,
    limits: JsonRequestLimits,
    disposed: (() => void) | null,
  ) {
    const { bytes } = part;
    const { fields } = scan;
    this.part = part;
    this.endpoint = endpoint;
    this.fields = fields;
    this.publicModel = readModel(bytes, fields.model, limits.modelNameCharsMax);
    this.stream = readStream(fields.stream, endpoint);
    checkContent(bytes, scan, endpoint.name);
    const usage =
      endpoint.name === "chat.completions" && this.stream ? forceUsage(bytes, scan, limits.depthMax) : null;
    this.hidesUsage = usage !== null;
    this.wantsBase64 = endpoint.name === "embeddings" && textOf(bytes, fields.encoding_format) === "base64";
    this.background = readBoolean(fields.background, "background");
    this.outputTokensMax = outputBound(bytes, endpoint, fields);
    this.choices = fields.n ? readCount(bytes, fields.n) : 1;
    this.previousResponseId = readPreviousResponse(bytes, fields.previous_response_id);
    this.readsKept = endpoint.interface === "responses" && continues(fields);
    this.keepsResponse = endpoint.name === "responses" && fields.store?.kind !== "false";
    this.imageKind =
      endpoint.interface === "images"
        ? imageKindOf(textOf(bytes, fields.size), textOf(bytes, fields.quality))
        : null;
    this.inputText = { kind: "json", body: part };
    this.body = new JsonBody(part, scan, endpoint, usage ?? [], limits.depthMax, false, disposed);
  }

  checkBounds(): void {
    checkBounds(this.part.bytes, this.endpoint, this.fields);
  }

  tokensEstimate(): number {
    return estimateTokens(this.inputSize(), this.outputTokensMax, this.choices);
  }

  /** The whole body is searched for it, so only whoever limits or charges tokens asks. */
  inputSize(): InputSize {
    this.size ??= inputSizeOf(this.alone());
    return this.size;
  }

  inputReach(): InputReach {
    this.reach ??= inputReachOf(this.alone(), this.inputSize());
    return this.reach;
  }

  /** Whoever looks through all of it needs it as an array of its own. */
  private alone(): Uint8Array {
    this.own ??= bytesOf(this.part);
    return this.own;
  }

  conversation(): string | null {
    const { part, fields } = this;
    const { bytes } = part;
    return textOf(bytes, fields.prompt_cache_key) ?? beginningOf(bytes, fields.messages ?? fields.input);
  }
}

function scanRouting({ bytes, start, end }: Part, depthMax: number): RoutingScan {
  if (!isValidUtf8(bytes, start)) {
    throw new ApiError("invalid_json", "The request body is not valid UTF-8. Send JSON encoded as UTF-8.");
  }
  const scan = scanObject(bytes, start, end, ROUTING, { depthMax });
  if (scan.ok) return scan;
  if (scan.reason === "duplicate_field") {
    const field = scan.field ?? "";
    throw new ApiError(
      "duplicate_parameter",
      `The field \`${field}\` appears more than once (${describeScanError(bytes, scan, start)}). Send it once, so that what is checked is what is served.`,
      { param: field },
    );
  }
  throw notJson(bytes, scan, start);
}

const heardModels = openKnownStrings();

function readModel(bytes: Uint8Array, field: Field | undefined, charsMax: number): string {
  if (!field || field.kind === "null") throw missing("model", "an id from GET /v1/models");
  const heard = heardModels.find(bytes, field);
  if (heard !== null) return heard;
  const model = readString(bytes, field, "model");
  if (model === "" || model.length > charsMax) {
    throw new ApiError("invalid_value", `\`model\` must be 1 to ${charsMax} characters long.`, {
      param: "model",
    });
  }
  heardModels.add(bytes, field, model);
  return model;
}

function readBoolean(field: Field | undefined, name: string): boolean {
  if (!field || field.kind === "null") return false;
  const value = booleanValue(field);
  if (value === null) throw wrongType(name, "a boolean", field.kind);
  return value;
}

/** Endpoints whose answers come whole. */
const WHOLE: ReadonlySet<EndpointName> = new Set([
  "embeddings",
  "responses.compact",
  "responses.input_tokens",
]);

/** An upstream that does not stream what never streams has done nothing wrong, so it is not asked to. */
function readStream(field: Field | undefined, { name, path }: Endpoint): boolean {
  const stream = readBoolean(field, "stream");
  if (stream && WHOLE.has(name)) {
    throw new ApiError(
      "unsupported_parameter",
      `The answer of POST /v1${path} comes whole. Leave \`stream\` out.`,
      { param: "stream" },
    );
  }
  return stream;
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
function estimateTokens(
  { textBytes, media }: InputSize,
  outputTokensMax: number | null,
  choices: number,
): number {
  const input = Math.ceil(textBytes / BYTES_PER_TOKEN) + media * PICTURE_TOKENS;
  return input + (outputTokensMax ?? OUTPUT_TOKENS_USUAL) * choices;
}

function textOf(bytes: Uint8Array, field: Field | undefined): string | null {
  return field === undefined ? null : stringValue(bytes, field);
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
