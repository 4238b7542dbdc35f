/**
 * `generate: false`, a warm-up: it generates nothing, calls no upstream and costs nothing. The input is remembered
 * for the turn that continues from it. Because it is free, its work is proportional to the frame alone: the
 * remembered conversation is not parsed again.
 */

import { ApiError } from "../errors.ts";
import { admit } from "../gateway/admission/admit.ts";
import type { Caller } from "../gateway/admission/authenticate.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { emptyResponse } from "../protocols/responses/responses-stream.ts";
import type { ModelRequest } from "../protocols/shared/request.ts";
import { readEchoedSettings } from "./echoed-settings.ts";
import type { ConversationMemory, StoredConversation } from "./memory.ts";
import { RESPONSES, SOCKET, type Turn } from "./turn.ts";
import { buildTurnBody, keepAfter, refuseOrphans, type TurnBody, type TurnLimits } from "./turn-body.ts";

export interface WarmUpLimits extends TurnLimits {
  readonly socketWarmUpEchoBytesMax: number;
}

const ZERO_USAGE = {
  input_tokens: 0,
  input_tokens_details: { cached_tokens: 0 },
  output_tokens: 0,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 0,
};

export interface WarmUp {
  /** A promise for a long frame. */
  readonly kept: StoredConversation | Promise<StoredConversation>;
  readonly frames: readonly string[];
}

/** Throws the error for the client, for example an unknown key or model, before a turn depends on it. */
export function answerWarmUp(
  gateway: Gateway,
  turn: Turn,
  memory: ConversationMemory,
  limits: WarmUpLimits,
): WarmUp | Promise<WarmUp> {
  const caller = SOCKET.identify(gateway, turn);
  const building = buildTurnBody(turn.frame, null, null, limits);
  const read = ({ bytes }: TurnBody) => gateway.requests.readJson(bytes, RESPONSES, null);
  const reading = building instanceof Promise ? building.then(read) : read(building);
  const respond = (request: ModelRequest) => buildWarmUp(gateway, turn, memory, limits, caller, request);
  return reading instanceof Promise ? reading.then(respond) : respond(reading);
}

function buildWarmUp(
  gateway: Gateway,
  { frame, requestId }: Turn,
  memory: ConversationMemory,
  limits: WarmUpLimits,
  caller: Caller,
  request: ModelRequest,
): WarmUp {
  const { id: publicModel } = admit(caller, RESPONSES, request.publicModel).model;
  const before = frame.previousId === null ? null : memory.find(frame.previousId);
  if (before !== null) refuseOrphans(frame, before, limits.jsonDepthMax);
  else if (frame.previousId !== null) throw notFound(frame.previousId);
  const seconds = Math.floor(gateway.clock.nowMs() / 1000);
  const created = {
    ...emptyResponse(publicModel, seconds, requestId),
    ...readEchoedSettings(frame, {
      depthMax: limits.jsonDepthMax,
      bytesMax: limits.socketWarmUpEchoBytesMax,
    }),
    previous_response_id: frame.previousId,
  };
  const completed = { ...created, status: "completed", completed_at: seconds, usage: ZERO_USAGE };
  return {
    kept: keepAfter(before, frame, { responseId: created.id, outputs: [], calls: [] }, limits.jsonDepthMax),
    frames: [
      eventFrame("response.created", frame.streamId, 0, created, { "x-request-id": requestId }),
      eventFrame("response.completed", frame.streamId, 1, completed),
    ],
  };
}

function eventFrame(
  type: string,
  streamId: string | null,
  sequence: number,
  response: object,
  headers?: object,
): string {
  return JSON.stringify({
    type,
    ...(streamId === null ? {} : { stream_id: streamId }),
    sequence_number: sequence,
    response,
    headers,
  });
}

function notFound(responseId: string): ApiError {
  return new ApiError(
    "previous_response_not_found",
    `Previous response with id '${responseId.slice(0, 128)}' not found. Send the whole conversation as input instead.`,
    { param: "previous_response_id" },
  );
}
