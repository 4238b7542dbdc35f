/** A client's frame, and what its connection remembers → the body that `POST /responses` would have had. */

import { ApiError } from "../errors.ts";
import type { JsonField } from "../json/scan.ts";
import { editMembers, spliceParts } from "../json/splice.ts";
import { COMMA, skipSpace } from "../json/walk.ts";
import { joinPartsInTurns } from "../net/wire/next-turn.ts";
import { joinParts, type Part, partsLength } from "../net/wire/parts.ts";
import type { UpstreamRejection } from "../protocols/shared/request.ts";
import type { CreateFrame, FrameField, FrameMetadata } from "./client-frame.ts";
import type { ConversationPiece, StoredConversation } from "./memory.ts";
import { type ToolCalls, toolCallsIn } from "./tool-calls.ts";

const TRUE = new TextEncoder().encode("true");
const USER_MESSAGE = new TextEncoder().encode('{"type":"message","role":"user","content":');
const OBJECT_CLOSE = Uint8Array.of(0x7d);
const ARRAY_OPENING = Uint8Array.of(0x5b);
const ARRAY_CLOSING = Uint8Array.of(0x5d);
const BETWEEN = Uint8Array.of(COMMA);
/** Shorter pieces become one, so that a long conversation of short turns is not one of countless pieces. */
const PIECE_BYTES_MAX = 64 * 1024;
/** About what a piece, and a tool call of it, take up beside the JSON. */
const PIECE_BYTES = 256;
/** Copying so much takes about a millisecond. */
const COPIED_AT_ONCE_BYTES_MAX = 256 * 1024;
const CALL_BYTES = 128;

export interface TurnLimits {
  readonly jsonBodyBytesMax: number;
  readonly jsonDepthMax: number;
}

export interface TurnBody {
  readonly bytes: Uint8Array;
  /** What of it was said before this turn. */
  readonly heard: UpstreamRejection | null;
}

/** What a turn's body is made of, before anything is copied. */
interface TurnPlan {
  /** The conversation so far and what is new; null where the frame's own input stays. */
  readonly input: readonly Part[] | null;
  readonly heard: UpstreamRejection | null;
}

/** In slices where the frame, or what it goes on from, is long. */
export function buildTurnBody(
  frame: CreateFrame,
  kept: StoredConversation | null,
  metadata: FrameMetadata | null,
  limits: TurnLimits,
): TurnBody | Promise<TurnBody> {
  const isLong = frame.inspected !== null || (kept !== null && kept.bytes > COPIED_AT_ONCE_BYTES_MAX);
  return (isLong ? turnBodyInTurns : turnBody)(frame, kept, metadata, limits);
}

/** `kept` is the response that the frame goes on from, if its connection remembers it. */
export function turnBody(
  frame: CreateFrame,
  kept: StoredConversation | null,
  metadata: FrameMetadata | null,
  limits: TurnLimits,
): TurnBody {
  const plan = planTurn(frame, kept, limits);
  const input = plan.input && joinParts(plan.input);
  return { bytes: joinParts(bodyParts(frame, input, metadata, limits)), heard: plan.heard };
}

async function turnBodyInTurns(
  frame: CreateFrame,
  kept: StoredConversation | null,
  metadata: FrameMetadata | null,
  limits: TurnLimits,
): Promise<TurnBody> {
  const plan = planTurn(frame, kept, limits);
  const input = plan.input && (await joinPartsInTurns(plan.input));
  return {
    bytes: await joinPartsInTurns(bodyParts(frame, input, metadata, limits)),
    heard: plan.heard,
  };
}

function planTurn(frame: CreateFrame, kept: StoredConversation | null, limits: TurnLimits): TurnPlan {
  if (kept === null) return { input: null, heard: null };
  refuseOrphans(frame, kept, limits.jsonDepthMax);
  const stitched = stitchedInput(
    kept,
    itemsOf(frame.bytes, frame.scan.fields.input),
    limits.jsonBodyBytesMax,
  );
  return {
    input: stitched.input,
    heard: { responseId: kept.responseId, inputBytes: stitched.heardBytes },
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
  // A token of ours is of no use to anybody upstream.
  if (metadata !== null && metadata.conversation !== null) {
    splices.push(...editMembers(bytes, metadata.scan, { "x-codex-turn-state": null }));
  }
  const parts = spliceParts(bytes, splices);
  if (partsLength(parts) > jsonBodyBytesMax) throw tooLarge(jsonBodyBytesMax);
  return parts;
}

/** A response as far as the turn after it needs to know it. */
interface SaidResponse {
  readonly responseId: string;
  readonly outputs: readonly Uint8Array[];
  /** Ids of the tool calls among the outputs. */
  readonly calls: readonly string[];
}

/** The conversation up to and including this response; of a long frame in slices. */
export function keepAfter(
  before: StoredConversation | null,
  frame: CreateFrame,
  said: SaidResponse,
  depthMax: number,
): StoredConversation | Promise<StoredConversation> {
  return (frame.inspected === null ? conversationAfter : keptAfterInTurns)(before, frame, said, depthMax);
}

export function conversationAfter(
  before: StoredConversation | null,
  frame: CreateFrame,
  said: SaidResponse,
  depthMax: number,
): StoredConversation {
  return keptWith(before, partsAfter(frame, said), frame, said, depthMax);
}

async function keptAfterInTurns(
  before: StoredConversation | null,
  frame: CreateFrame,
  said: SaidResponse,
  depthMax: number,
): Promise<StoredConversation> {
  const joined = await joinPartsInTurns(partsAfter(frame, said));
  return keptWith(before, joined.length > 0 ? [whole(joined)] : [], frame, said, depthMax);
}

/** What the turn adds to its conversation. */
function partsAfter(frame: CreateFrame, { outputs }: SaidResponse): Part[] {
  const parts = itemsOf(frame.bytes, frame.scan.fields.input);
  for (const bytes of outputs) {
    if (parts.length > 0) parts.push(whole(BETWEEN));
    parts.push(whole(bytes));
  }
  return parts;
}

function keptWith(
  before: StoredConversation | null,
  parts: readonly Part[],
  frame: CreateFrame,
  { responseId, calls: outputCalls }: SaidResponse,
  depthMax: number,
): StoredConversation {
  const pieces = before === null ? [] : [...before.pieces];
  if (parts.length > 0) append(pieces, parts, [...callsIn(frame, depthMax).made, ...outputCalls]);
  let bytes = 0;
  for (const { json, calls } of pieces) bytes += PIECE_BYTES + json.length + calls.size * CALL_BYTES;
  return { responseId, pieces, bytes };
}

const NO_CALLS: ToolCalls = { made: [], answered: [] };

/** Of a long frame they are known already. */
function callsIn({ bytes, scan, inspected }: CreateFrame, depthMax: number): ToolCalls {
  if (inspected !== null) return inspected.calls;
  const { input } = scan.fields;
  return input?.kind === "array" ? toolCallsIn(bytes, input, depthMax) : NO_CALLS;
}

/** The last piece may belong to another conversation too, so it is replaced and not changed. */
function append(pieces: ConversationPiece[], parts: readonly Part[], calls: readonly string[]): void {
  const last = pieces.at(-1);
  if (last === undefined || last.json.length + partsLength(parts) > PIECE_BYTES_MAX) {
    const [only] = parts;
    const isWhole = parts.length === 1 && only !== undefined && only.end - only.start === only.bytes.length;
    pieces.push({ json: isWhole ? only.bytes : joinParts(parts), calls: new Set(calls) });
    return;
  }
  const json = joinParts([whole(last.json), whole(BETWEEN), ...parts]);
  pieces[pieces.length - 1] = { json, calls: new Set([...last.calls, ...calls]) };
}

function whole(bytes: Uint8Array): Part {
  return { bytes, start: 0, end: bytes.length };
}

/** The items of an input as they stand, without the brackets. A text is the message of a user. */
function itemsOf(bytes: Uint8Array, input: JsonField | undefined): Part[] {
  if (input?.kind === "string") {
    return [whole(USER_MESSAGE), { bytes, start: input.start, end: input.end }, whole(OBJECT_CLOSE)];
  }
  if (input?.kind !== "array") return [];
  const start = skipSpace(bytes, input.start + 1, input.end);
  return start >= input.end - 1 ? [] : [{ bytes, start, end: input.end - 1 }];
}

function stitchedInput(
  kept: StoredConversation,
  items: readonly Part[],
  bytesMax: number,
): { input: readonly Part[]; heardBytes: number } {
  const heard: Part[] = [];
  for (const { json } of kept.pieces) {
    if (heard.length > 0) heard.push(whole(BETWEEN));
    heard.push(whole(json));
  }
  if (items.length > 0 && heard.length > 0) heard.push(whole(BETWEEN));
  const input = [whole(ARRAY_OPENING), ...heard, ...items, whole(ARRAY_CLOSING)];
  if (partsLength(input) > bytesMax) throw tooLarge(bytesMax);
  return { input, heardBytes: partsLength(heard) };
}

/** The result of a call that nobody made: upstreams differ in what they make of it, so we say it. */
export function refuseOrphans(frame: CreateFrame, kept: StoredConversation, depthMax: number): void {
  const { made, answered } = callsIn(frame, depthMax);
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
