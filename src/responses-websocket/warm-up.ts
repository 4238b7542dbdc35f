/**
 * `generate: false`: nothing is made, so no upstream is asked, and nothing charged. What came is remembered for the turn
 * that goes on from it. It is free, so it costs no more than what came: what it goes on from is not looked into again.
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

const NOTHING_USED = {
  input_tokens: 0,
  input_tokens_details: { cached_tokens: 0 },
  output_tokens: 0,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 0,
};

export interface WarmUp {
  /** A promise where the frame is long. */
  readonly kept: StoredConversation | Promise<StoredConversation>;
  readonly frames: readonly string[];
}

/** Throws the error for its client, such as an unknown key or model: better now than when somebody waits for a turn. */
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
  const answer = (request: ModelRequest) => warmUpFor(gateway, turn, memory, limits, caller, request);
  return reading instanceof Promise ? reading.then(answer) : answer(reading);
}

function warmUpFor(
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
  const begun = {
    ...emptyResponse(publicModel, seconds, requestId),
    ...readEchoedSettings(frame, {
      depthMax: limits.jsonDepthMax,
      bytesMax: limits.socketWarmUpEchoBytesMax,
    }),
    previous_response_id: frame.previousId,
  };
  const done = { ...begun, status: "completed", completed_at: seconds, usage: NOTHING_USED };
  return {
    kept: keepAfter(before, frame, { responseId: begun.id, outputs: [], calls: [] }, limits.jsonDepthMax),
    frames: [
      eventFrame("response.created", frame.streamId, 0, begun, { "x-request-id": requestId }),
      eventFrame("response.completed", frame.streamId, 1, done),
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
