/** A client's frame, and what its connection remembers → the body that `POST /responses` would have had. */

import { ApiError } from "../errors.ts";
import type { Heard } from "../interfaces/request.ts";
import { put } from "../wire/bytes.ts";
import type { Field } from "../wire/json-scan.ts";
import { ARRAY_OPEN, COMMA, skipSpace } from "../wire/json-walk.ts";
import { applySplices, editMembers, joinParts, lengthOf, type Part } from "../wire/splice.ts";
import type { CreateFrame, FrameField, FrameMetadata } from "./client-frame.ts";
import type { Kept, Piece } from "./memory.ts";
import { toolCallsIn } from "./tool-calls.ts";

const TRUE = new TextEncoder().encode("true");
const USER_MESSAGE = new TextEncoder().encode('{"type":"message","role":"user","content":');
const OBJECT_CLOSE = Uint8Array.of(0x7d);
const ARRAY_CLOSE = 0x5d;
const BETWEEN = Uint8Array.of(COMMA);
/** Shorter pieces become one, so that a long conversation of short turns is not one of countless pieces. */
const PIECE_BYTES_MAX = 64 * 1024;
/** About what a piece, and a tool call of it, take up beside the JSON. */
const PIECE_BYTES = 256;
const CALL_BYTES = 128;

export interface TurnLimits {
  readonly jsonBodyBytesMax: number;
  readonly jsonDepthMax: number;
}

export interface TurnBody {
  readonly bytes: Uint8Array;
  /** What of it was said before this turn. */
  readonly heard: Heard | null;
}

/** `kept` is the response that the frame goes on from, if its connection remembers it. */
export function turnBody(
  frame: CreateFrame,
  kept: Kept | null,
  metadata: FrameMetadata | null,
  limits: TurnLimits,
): TurnBody {
  const { bytes, scan } = frame;
  const edits: { [name in FrameField]?: Uint8Array | null } = {
    type: null,
    generate: null,
    stream_id: null,
    background: null,
    stream: TRUE,
  };
  let heard: Heard | null = null;
  if (kept !== null) {
    refuseOrphans(frame, kept, limits.jsonDepthMax);
    const stitched = stitchedInput(kept, itemsOf(bytes, scan.fields.input), limits.jsonBodyBytesMax);
    edits.previous_response_id = null;
    edits.input = stitched.input;
    heard = { responseId: kept.responseId, inputBytes: stitched.heardBytes };
  }
  const splices = editMembers(bytes, scan, edits);
  // A token of ours is of no use to anybody upstream.
  if (metadata !== null && metadata.conversation !== null) {
    splices.push(...editMembers(bytes, metadata.scan, { "x-codex-turn-state": null }));
  }
  const body = applySplices(bytes, splices);
  if (body.length > limits.jsonBodyBytesMax) throw tooLarge(limits.jsonBodyBytesMax);
  return { bytes: body, heard };
}

/** A response as far as the turn after it needs to know it. */
interface SaidResponse {
  readonly responseId: string;
  readonly outputs: readonly Uint8Array[];
  /** Ids of the tool calls among the outputs. */
  readonly calls: readonly string[];
}

/** The conversation up to and including this response. */
export function keptAfter(
  before: Kept | null,
  frame: CreateFrame,
  { responseId, outputs, calls: outputCalls }: SaidResponse,
  depthMax: number,
): Kept {
  const { input } = frame.scan.fields;
  const parts = itemsOf(frame.bytes, input);
  for (const bytes of outputs) {
    if (parts.length > 0) parts.push(whole(BETWEEN));
    parts.push(whole(bytes));
  }
  const pieces = before === null ? [] : [...before.pieces];
  if (parts.length > 0) {
    const inputCalls = input?.kind === "array" ? toolCallsIn(frame.bytes, input, depthMax).made : [];
    append(pieces, parts, [...inputCalls, ...outputCalls]);
  }
  let bytes = 0;
  for (const { json, calls } of pieces) bytes += PIECE_BYTES + json.length + calls.size * CALL_BYTES;
  return { responseId, pieces, bytes };
}

/** The last piece may belong to another conversation too, so it is replaced and not changed. */
function append(pieces: Piece[], parts: readonly Part[], calls: readonly string[]): void {
  const last = pieces.at(-1);
  if (last === undefined || last.json.length + lengthOf(parts) > PIECE_BYTES_MAX) {
    pieces.push({ json: joinParts(parts), calls: new Set(calls) });
    return;
  }
  const json = joinParts([whole(last.json), whole(BETWEEN), ...parts]);
  pieces[pieces.length - 1] = { json, calls: new Set([...last.calls, ...calls]) };
}

function whole(bytes: Uint8Array): Part {
  return { bytes, start: 0, end: bytes.length };
}

/** The items of an input as they stand, without the brackets. A text is the message of a user. */
function itemsOf(bytes: Uint8Array, input: Field | undefined): Part[] {
  if (input?.kind === "string") {
    return [whole(USER_MESSAGE), { bytes, start: input.start, end: input.end }, whole(OBJECT_CLOSE)];
  }
  if (input?.kind !== "array") return [];
  const start = skipSpace(bytes, input.start + 1, input.end);
  return start >= input.end - 1 ? [] : [{ bytes, start, end: input.end - 1 }];
}

function stitchedInput(
  kept: Kept,
  items: readonly Part[],
  bytesMax: number,
): { input: Uint8Array; heardBytes: number } {
  let length = 2 + lengthOf(items) + kept.pieces.length;
  for (const { json } of kept.pieces) length += json.length;
  if (length > bytesMax) throw tooLarge(bytesMax);
  const input = Buffer.allocUnsafe(length);
  input[0] = ARRAY_OPEN;
  let at = 1;
  for (const { json } of kept.pieces) {
    if (at > 1) input[at++] = COMMA;
    at = put(input, at, json);
  }
  if (items.length > 0 && at > 1) input[at++] = COMMA;
  const heardBytes = at - 1;
  for (const { bytes, start, end } of items) at = put(input, at, bytes, start, end);
  input[at++] = ARRAY_CLOSE;
  return { input: input.subarray(0, at), heardBytes };
}

/** The result of a call that nobody made: upstreams differ in what they make of it, so we say it. */
export function refuseOrphans({ bytes, scan }: CreateFrame, kept: Kept, depthMax: number): void {
  const { input } = scan.fields;
  if (input?.kind !== "array") return;
  const { made, answered } = toolCallsIn(bytes, input, depthMax);
  const orphans = new Set(answered);
  remove(orphans, new Set(made));
  // What was called last is answered most often.
  for (const { calls } of kept.pieces.toReversed()) {
    if (orphans.size === 0) return;
    remove(orphans, calls);
  }
  const [orphan] = orphans;
  if (orphan === undefined) return;
  throw new ApiError(
    "invalid_value",
    `No tool call found for the output with call_id '${orphan.slice(0, 128)}'. Send only outputs of calls that the model made in this conversation.`,
    { param: "input" },
  );
}

/** Goes through the smaller of the two: either may be very large. */
function remove(from: Set<string>, calls: ReadonlySet<string>): void {
  if (calls.size <= from.size) for (const callId of calls) from.delete(callId);
  else for (const callId of from) if (calls.has(callId)) from.delete(callId);
}

function tooLarge(bytesMax: number): ApiError {
  return new ApiError(
    "request_too_large",
    `The conversation is larger than the ${Math.floor(bytesMax / 2 ** 20)} MiB that one request may have. Begin a new one, or leave something out.`,
  );
}
