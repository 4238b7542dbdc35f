/** Builds the body that `POST /responses` would have had, from a client's frame and the remembered conversation. */

import { joinPartsInTurns } from "../base/next-turn.ts";
import { joinParts, type Part, partsLength } from "../base/parts.ts";
import { ApiError, paramError } from "../errors.ts";
import type { JsonField } from "../json/scan.ts";
import { editMembers, spliceParts } from "../json/splice.ts";
import { COMMA, skipSpace } from "../json/walk.ts";
import type { KnownPrefix } from "../protocols/shared/request.ts";
import type { CreateFrame, FrameField, FrameMetadata } from "./client-frame.ts";
import type { RememberedItems, RememberedTurns } from "./lane-memory.ts";
import { findToolCalls, type ToolCalls } from "./tool-calls.ts";

const TRUE = new TextEncoder().encode("true");
const USER_MESSAGE = new TextEncoder().encode('{"type":"message","role":"user","content":');
const OBJECT_CLOSE = Uint8Array.of(0x7d);
const ARRAY_OPENING = Uint8Array.of(0x5b);
const ARRAY_CLOSING = Uint8Array.of(0x5d);
const SEPARATOR = Uint8Array.of(COMMA);
/** Pieces up to this size are joined: a conversation of short turns has no countless pieces. */
const PIECE_BYTES_MAX = 64 * 1024;
/** Approximate memory of a piece in addition to its JSON. `CALL_BYTES` is the same for a tool call. */
const PIECE_BYTES = 256;
/** Copying this many bytes takes about one millisecond. */
const SYNC_COPY_BYTES_MAX = 256 * 1024;
const CALL_BYTES = 128;

export interface TurnLimits {
  readonly jsonBodyBytesMax: number;
  readonly jsonDepthMax: number;
}

export interface TurnBody {
  readonly bytes: Uint8Array;
  /** The part of the input that precedes this turn. */
  readonly knownPrefix: KnownPrefix | null;
}

/** The content of a turn's body, before anything is copied. */
interface TurnPlan {
  /** The conversation so far and the new items; null if the frame's own input is used unchanged. */
  readonly input: readonly Part[] | null;
  readonly knownPrefix: KnownPrefix | null;
}

/** Works in slices if the frame or the remembered conversation is long. */
export function buildTurnBody(
  frame: CreateFrame,
  stored: RememberedTurns | null,
  metadata: FrameMetadata | null,
  limits: TurnLimits,
): TurnBody | Promise<TurnBody> {
  const isLong = frame.inspection !== null || (stored !== null && stored.bytes > SYNC_COPY_BYTES_MAX);
  return (isLong ? buildTurnBodyInSlices : turnBody)(frame, stored, metadata, limits);
}

/** `stored` is the response that the frame continues, if the connection remembers it. */
export function turnBody(
  frame: CreateFrame,
  stored: RememberedTurns | null,
  metadata: FrameMetadata | null,
  limits: TurnLimits,
): TurnBody {
  const plan = planTurn(frame, stored, limits);
  const input = plan.input && joinParts(plan.input);
  return { bytes: joinParts(bodyParts(frame, input, metadata, limits)), knownPrefix: plan.knownPrefix };
}

async function buildTurnBodyInSlices(
  frame: CreateFrame,
  stored: RememberedTurns | null,
  metadata: FrameMetadata | null,
  limits: TurnLimits,
): Promise<TurnBody> {
  const plan = planTurn(frame, stored, limits);
  const input = plan.input && (await joinPartsInTurns(plan.input));
  return {
    bytes: await joinPartsInTurns(bodyParts(frame, input, metadata, limits)),
    knownPrefix: plan.knownPrefix,
  };
}

function planTurn(frame: CreateFrame, stored: RememberedTurns | null, limits: TurnLimits): TurnPlan {
  if (stored === null) return { input: null, knownPrefix: null };
  rejectOrphans(frame, stored, limits.jsonDepthMax);
  const joined = joinInput(stored, inputItems(frame.bytes, frame.scan.fields.input), limits.jsonBodyBytesMax);
  return {
    input: joined.input,
    knownPrefix: { responseId: stored.responseId, inputBytes: joined.knownBytes },
  };
}

function bodyParts(
  { bytes, scan }: CreateFrame,
  input: Uint8Array | null,
  metadata: FrameMetadata | null,
  { jsonBodyBytesMax }: TurnLimits,
): Part[] {
  const edits: { [name in FrameField]?: Uint8Array | null } = {
    type: null,
    generate: null,
    stream_id: null,
    background: null,
    stream: TRUE,
    ...(input === null ? {} : { previous_response_id: null, input }),
  };
  const splices = editMembers(bytes, scan, edits);
  // A token of this gateway has no meaning upstream.
  if (metadata !== null && metadata.conversationName !== null) {
    splices.push(...editMembers(bytes, metadata.scan, { "x-codex-turn-state": null }));
  }
  const parts = spliceParts(bytes, splices);
  if (partsLength(parts) > jsonBodyBytesMax) throw tooLargeError(jsonBodyBytesMax);
  return parts;
}

/** The parts of a response that the next turn needs. */
interface SentResponse {
  readonly responseId: string;
  readonly outputs: readonly Uint8Array[];
  /** Ids of the tool calls among the outputs. */
  readonly calls: readonly string[];
}

/** Returns the conversation up to and including this response. Works in slices for a long frame. */
export function storeAfter(
  previous: RememberedTurns | null,
  frame: CreateFrame,
  response: SentResponse,
  depthMax: number,
): RememberedTurns | Promise<RememberedTurns> {
  return (frame.inspection === null ? extendTurns : extendTurnsInSlices)(previous, frame, response, depthMax);
}

export function extendTurns(
  previous: RememberedTurns | null,
  frame: CreateFrame,
  response: SentResponse,
  depthMax: number,
): RememberedTurns {
  return joinTurns(previous, newParts(frame, response), frame, response, depthMax);
}

async function extendTurnsInSlices(
  previous: RememberedTurns | null,
  frame: CreateFrame,
  response: SentResponse,
  depthMax: number,
): Promise<RememberedTurns> {
  const joined = await joinPartsInTurns(newParts(frame, response));
  return joinTurns(previous, joined.length > 0 ? [wholeBody(joined)] : [], frame, response, depthMax);
}

/** Returns the items that the turn adds to its conversation. */
function newParts(frame: CreateFrame, { outputs }: SentResponse): Part[] {
  const parts = inputItems(frame.bytes, frame.scan.fields.input);
  for (const bytes of outputs) {
    if (parts.length > 0) parts.push(wholeBody(SEPARATOR));
    parts.push(wholeBody(bytes));
  }
  return parts;
}

function joinTurns(
  previous: RememberedTurns | null,
  parts: readonly Part[],
  frame: CreateFrame,
  { responseId, calls: outputCalls }: SentResponse,
  depthMax: number,
): RememberedTurns {
  const pieces = previous === null ? [] : [...previous.pieces];
  if (parts.length > 0) append(pieces, parts, [...findCalls(frame, depthMax).made, ...outputCalls]);
  let bytes = 0;
  for (const { json, calls } of pieces) bytes += PIECE_BYTES + json.length + calls.size * CALL_BYTES;
  return { responseId, pieces, bytes };
}

const NO_CALLS: ToolCalls = { made: [], completed: [] };

/** For a long frame, the inspector has found the calls already. */
function findCalls({ bytes, scan, inspection: inspected }: CreateFrame, depthMax: number): ToolCalls {
  if (inspected !== null) return inspected.calls;
  const { input } = scan.fields;
  return input?.kind === "array" ? findToolCalls(bytes, input, depthMax) : NO_CALLS;
}

/** The last piece may also belong to another conversation, so it is replaced instead of modified. */
function append(pieces: RememberedItems[], parts: readonly Part[], calls: readonly string[]): void {
  const last = pieces.at(-1);
  if (last === undefined || last.json.length + partsLength(parts) > PIECE_BYTES_MAX) {
    const [only] = parts;
    const isWhole = parts.length === 1 && only !== undefined && only.end - only.start === only.bytes.length;
    pieces.push({ json: isWhole ? only.bytes : joinParts(parts), calls: new Set(calls) });
    return;
  }
  const json = joinParts([wholeBody(last.json), wholeBody(SEPARATOR), ...parts]);
  pieces[pieces.length - 1] = { json, calls: new Set([...last.calls, ...calls]) };
}

function wholeBody(bytes: Uint8Array): Part {
  return { bytes, start: 0, end: bytes.length };
}

/** Returns the items of an input unchanged, without the brackets. A string becomes a user message. */
function inputItems(bytes: Uint8Array, input: JsonField | undefined): Part[] {
  if (input?.kind === "string") {
    return [wholeBody(USER_MESSAGE), { bytes, start: input.start, end: input.end }, wholeBody(OBJECT_CLOSE)];
  }
  if (input?.kind !== "array") return [];
  const start = skipSpace(bytes, input.start + 1, input.end);
  return start >= input.end - 1 ? [] : [{ bytes, start, end: input.end - 1 }];
}

function joinInput(
  stored: RememberedTurns,
  items: readonly Part[],
  bytesMax: number,
): { input: readonly Part[]; knownBytes: number } {
  const earlier: Part[] = [];
  for (const { json } of stored.pieces) {
    if (earlier.length > 0) earlier.push(wholeBody(SEPARATOR));
    earlier.push(wholeBody(json));
  }
  if (items.length > 0 && earlier.length > 0) earlier.push(wholeBody(SEPARATOR));
  const input = [wholeBody(ARRAY_OPENING), ...earlier, ...items, wholeBody(ARRAY_CLOSING)];
  if (partsLength(input) > bytesMax) throw tooLargeError(bytesMax);
  return { input, knownBytes: partsLength(earlier) };
}

/** Rejects an output without a tool call. Upstreams handle this differently, so the gateway checks it. */
export function rejectOrphans(frame: CreateFrame, stored: RememberedTurns, depthMax: number): void {
  const { made, completed } = findCalls(frame, depthMax);
  const orphans = new Set(completed);
  remove(orphans, new Set(made));
  // Most outputs belong to the latest calls.
  for (const { calls } of stored.pieces.toReversed()) {
    if (orphans.size === 0) return;
    remove(orphans, calls);
  }
  const [orphan] = orphans;
  if (orphan === undefined) return;
  throw paramError(
    "input",
    "invalid_value",
    `No tool call found for the output with call_id '${orphan.slice(0, 128)}'. Send only outputs of calls that the model made in this conversation.`,
  );
}

/** Iterates over the smaller of the two sets, because either may be very large. */
function remove(from: Set<string>, calls: ReadonlySet<string>): void {
  if (calls.size <= from.size) for (const callId of calls) from.delete(callId);
  else for (const callId of from) if (calls.has(callId)) from.delete(callId);
}

function tooLargeError(bytesMax: number): ApiError {
  return new ApiError(
    "request_too_large",
    `The conversation exceeds the maximum request size of ${Math.floor(bytesMax / 2 ** 20)} MiB. Start a new conversation, or shorten this one.`,
  );
}
