/** Parses one message of a client, only as far as the gateway needs it. */

import { ApiError, paramError } from "../errors.ts";
import { parseJson } from "../json/parse.ts";
import {
  booleanValue,
  type JsonField,
  type ObjectScan,
  scanObject,
  stringValue,
  wantedFields,
} from "../json/scan.ts";
import { describeScanError } from "../json/scan-error.ts";
import { caseVariantError } from "../protocols/shared/case-variant-error.ts";
import { checkListBounds } from "../protocols/shared/list-bounds.ts";
import { readConversationName } from "./codex.ts";
import type { EchoedSettings } from "./echoed-settings.ts";
import type { ToolCalls } from "./tool-calls.ts";

const FRAME_FIELDS = [
  "type",
  "stream_id",
  "generate",
  "previous_response_id",
  "input",
  "response",
  "client_metadata",
  "model",
  "stream",
  "background",
] as const;
export type FrameField = (typeof FRAME_FIELDS)[number];
type FrameScan = ObjectScan<FrameField>;

const FRAME = wantedFields(FRAME_FIELDS, { rejectsCaseVariants: true });
const STREAM_ID = /^[A-Za-z0-9_.-]{1,256}$/;

export interface CreateFrame {
  readonly kind: "create";
  /** The name of the lane; null is the unnamed lane. */
  readonly streamId: string | null;
  /** False: a warm-up. The request is remembered, and no response is generated. */
  readonly generates: boolean;
  readonly previousId: string | null;
  /** An object with the fields of the request at top level, and the positions of the relevant ones. */
  readonly bytes: Uint8Array;
  readonly scan: FrameScan;
  /** The result of the inspector thread for a long frame; null for other frames, which are inspected on demand. */
  readonly inspection: FrameInspection | null;
}

interface FrameInspection {
  readonly calls: ToolCalls;
  readonly metadata: FrameMetadata | null;
  /** Of a warm-up; null for other frames. */
  readonly settings: EchoedSettings | null;
}

interface SteerFrame {
  readonly kind: "steer";
  readonly streamId: null;
  readonly previousId: string | null;
  readonly input: unknown;
}

interface BadFrame {
  readonly kind: "bad";
  readonly streamId: string | null;
  readonly error: ApiError;
}

export type MessageKind = "text" | "binary";

export type ClientFrame = CreateFrame | SteerFrame | BadFrame;

/** Fields of the frame are positions in `bytes`; nothing is copied. */
export function readClientFrame(kind: MessageKind, bytes: Uint8Array, depthMax: number): ClientFrame {
  let streamId: string | null = null;
  try {
    if (kind === "binary") throw binaryFrameError();
    const scan = scanFrame(bytes, depthMax);
    const type = readType(bytes, scan.fields.type);
    if (type === "response.steer") return readSteer(bytes, scan);
    streamId = readStreamId(bytes, scan.fields.stream_id);
    const inner = nestedRequest(bytes, scan);
    if (inner === null) return readCreate(bytes, scan, { streamId, generate: scan.fields.generate });
    const innerScan = scanFrame(inner, depthMax);
    streamId ??= readStreamId(inner, innerScan.fields.stream_id);
    const generate = scan.fields.generate ?? innerScan.fields.generate;
    return readCreate(inner, innerScan, { streamId, generate });
  } catch (thrown) {
    if (!(thrown instanceof ApiError)) throw thrown;
    return { kind: "bad", streamId, error: thrown };
  }
}

function scanFrame(bytes: Uint8Array, depthMax: number): FrameScan {
  const scan = scanObject(bytes, 0, bytes.length, FRAME, { depthMax });
  if (scan.ok) return scan;
  const where = describeScanError(bytes, scan);
  if (scan.reason === "duplicate_field") {
    const field = scan.field ?? "";
    throw paramError(
      field,
      "duplicate_parameter",
      `The field \`${field}\` appears more than once (${where}). Send it once.`,
    );
  }
  if (scan.reason === "case_variant") throw caseVariantError(scan.field ?? "", where);
  throw new ApiError("invalid_json", `The message is not a valid JSON object: ${where}.`);
}

function readType(bytes: Uint8Array, field: JsonField | undefined): "response.create" | "response.steer" {
  if (field === undefined) {
    throw paramError(
      "type",
      "missing_required_parameter",
      'The message has no `type`. Send {"type":"response.create",…} together with the fields of POST /v1/responses.',
    );
  }
  const type = stringValue(bytes, field);
  if (type === "response.create" || type === "response.steer") return type;
  throw paramError(
    "type",
    "invalid_value",
    "The message has an unknown `type`. Use response.create or response.steer.",
  );
}

function readStreamId(bytes: Uint8Array, field: JsonField | undefined): string | null {
  if (field === undefined || field.kind === "null") return null;
  const streamId = stringValue(bytes, field);
  if (streamId !== null && STREAM_ID.test(streamId)) return streamId;
  throw paramError(
    "stream_id",
    "invalid_stream_id",
    "`stream_id` must be a string of 1 to 256 letters, digits, dots, dashes or underscores.",
  );
}

/** Some clients nest the request: `{type, response: {…}}`. The outer fields are ignored. */
function nestedRequest(bytes: Uint8Array, { fields }: FrameScan): Uint8Array | null {
  const { response, model } = fields;
  return response?.kind === "object" && model === undefined
    ? Buffer.from(bytes.subarray(response.start, response.end))
    : null;
}

function binaryFrameError(): ApiError {
  return new ApiError(
    "invalid_request",
    "Binary messages are not supported. Send each JSON object as one text message.",
  );
}

function readCreate(
  bytes: Uint8Array,
  scan: FrameScan,
  { streamId, generate }: { readonly streamId: string | null; readonly generate: JsonField | undefined },
): CreateFrame {
  const { previous_response_id: previous } = scan.fields;
  if (generate !== undefined && generate.kind !== "null" && booleanValue(generate) === null) {
    throw paramError("generate", "invalid_type", "`generate` must be a boolean.");
  }
  rejectBackground(scan.fields.background);
  // All items of a turn are searched for tool calls, before its body is built and checked as a whole.
  checkListBounds(bytes, scan);
  return {
    kind: "create",
    streamId,
    generates: generate?.kind !== "false",
    previousId: readPreviousId(bytes, previous),
    bytes,
    scan,
    inspection: null,
  };
}

/** Open Responses: `background` must not be sent over a WebSocket. `false` has no effect and is accepted. */
function rejectBackground(field: JsonField | undefined): void {
  if (field === undefined || field.kind === "null" || field.kind === "false") return;
  throw paramError(
    "background",
    "unsupported_parameter",
    "`background` is not supported over a WebSocket. Remove it, or send the request to POST /v1/responses.",
  );
}

function readPreviousId(bytes: Uint8Array, field: JsonField | undefined): string | null {
  if (field === undefined || field.kind === "null") return null;
  const id = stringValue(bytes, field);
  if (id !== null) return id;
  throw paramError("previous_response_id", "invalid_type", "`previous_response_id` must be a string.");
}

/** A longer input is not repeated: the reply is free, so its work must be small. */
const STEER_INPUT_BYTES_MAX = 16 * 1024;

function readSteer(bytes: Uint8Array, { fields }: FrameScan): SteerFrame {
  const { input } = fields;
  const isRepeated = input !== undefined && input.end - input.start <= STEER_INPUT_BYTES_MAX;
  return {
    kind: "steer",
    streamId: null,
    previousId: readPreviousId(bytes, fields.previous_response_id),
    input: isRepeated ? parseJson(bytes, input.start, input.end) : null,
  };
}

const METADATA = wantedFields([
  "x-codex-turn-state",
  "ws_request_header_x_openai_internal_codex_responses_lite",
  "ws_request_header_traceparent",
]);
type MetadataScan = ObjectScan<
  | "x-codex-turn-state"
  | "ws_request_header_x_openai_internal_codex_responses_lite"
  | "ws_request_header_traceparent"
>;

/** Values that Codex puts into a frame, because it cannot send headers with one. */
export interface FrameMetadata {
  readonly scan: MetadataScan;
  /** The conversation name in a token that this gateway issued, or null. */
  readonly conversationName: string | null;
  readonly isLite: boolean;
  /** The W3C trace context of the turn; null if the client sends none, or none that can be a header. */
  readonly traceparent: string | null;
}

const HEADER_TEXT = /^[\x21-\x7e]{1,512}$/;

export function readFrameMetadata(
  { bytes, scan, inspection: inspected }: CreateFrame,
  depthMax: number,
): FrameMetadata | null {
  if (inspected !== null) return inspected.metadata;
  const field = scan.fields.client_metadata;
  if (field?.kind !== "object") return null;
  const inner = scanObject(bytes, field.start, field.end, METADATA, { depthMax });
  if (!inner.ok) return null;
  const state = inner.fields["x-codex-turn-state"];
  const lite = inner.fields.ws_request_header_x_openai_internal_codex_responses_lite;
  const context = inner.fields.ws_request_header_traceparent;
  const traceparent = context === undefined ? null : stringValue(bytes, context);
  return {
    scan: inner,
    conversationName: readConversationName((state && stringValue(bytes, state)) ?? ""),
    isLite: lite !== undefined && stringValue(bytes, lite) === "true",
    traceparent: traceparent === null || !HEADER_TEXT.test(traceparent) ? null : traceparent,
  };
}
