/**
 * `generate: false`, a warm-up: it generates nothing, calls no upstream and costs nothing. The input is remembered
 * for the turn that continues from it. Because it is free, its work is proportional to the frame alone: the
 * remembered conversation is not parsed again.
 */

import { type MaybePromise, whenReady } from "../base/maybe-promise.ts";
import { type ApiError, paramError } from "../errors.ts";
import { admit } from "../gateway/admission/admit.ts";
import type { Caller } from "../gateway/admission/authenticate.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { emptyResponse } from "../protocols/responses/generated-events.ts";
import { RESPONSES } from "../protocols/responses/responses-endpoints.ts";
import type { ModelRequest } from "../protocols/shared/request.ts";
import { type EchoedSettings, readEchoedSettings } from "./echoed-settings.ts";
import type { LaneMemory, RememberedTurns } from "./lane-memory.ts";
import { identifyTurn, type Turn } from "./turn.ts";
import { buildTurnBody, rejectOrphans, storeAfter, type TurnBody, type TurnLimits } from "./turn-body.ts";

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
  readonly turns: MaybePromise<RememberedTurns>;
  readonly frames: readonly string[];
}

export type WarmUpServices = Pick<Gateway, "policy" | "auth" | "requests" | "clock">;

/** Throws the error for the client, for example an unknown key or model, before a turn depends on it. */
export function respondToWarmUp(
  gateway: WarmUpServices,
  turn: Turn,
  memory: LaneMemory,
  limits: WarmUpLimits,
): MaybePromise<WarmUp> {
  const caller = identifyTurn(gateway, turn);
  const building = buildTurnBody(turn.frame, null, null, limits);
  const read = ({ bytes }: TurnBody) =>
    gateway.requests.readJson({ bytes, owner: caller.key, reservation: null }, RESPONSES);
  const reading = whenReady(building, read);
  const respond = (request: ModelRequest) => buildWarmUp(gateway, turn, { memory, limits, caller, request });
  return whenReady(reading, respond);
}

interface WarmUpTerms {
  readonly memory: LaneMemory;
  readonly limits: WarmUpLimits;
  readonly caller: Caller;
  readonly request: ModelRequest;
}

function buildWarmUp(
  gateway: WarmUpServices,
  { frame, requestId }: Turn,
  { memory, limits, caller, request }: WarmUpTerms,
): WarmUp {
  const { id: publicModel } = admit(caller, RESPONSES, request.publicModel).model;
  const before = frame.previousId === null ? null : memory.find(frame.previousId);
  if (before !== null) rejectOrphans(frame, before, limits.jsonDepthMax);
  else if (frame.previousId !== null) throw previousNotFoundError(frame.previousId);
  const seconds = Math.floor(gateway.clock.nowMs() / 1000);
  const created = {
    ...emptyResponse(publicModel, seconds, requestId),
    previous_response_id: frame.previousId,
  };
  // The inspector has read those of a long frame.
  const settings =
    frame.inspection?.settings ??
    readEchoedSettings(frame.bytes, {
      depthMax: limits.jsonDepthMax,
      bytesMax: limits.socketWarmUpEchoBytesMax,
    });
  const completed = { ...created, status: "completed", completed_at: seconds, usage: ZERO_USAGE };
  const lane = frame.streamId === null ? {} : { stream_id: frame.streamId };
  return {
    turns: storeAfter(before, frame, { responseId: created.id, outputs: [], calls: [] }, limits.jsonDepthMax),
    frames: [
      eventFrame(
        { type: "response.created", ...lane, sequence_number: 0, headers: { "x-request-id": requestId } },
        writeResponse(created, settings),
      ),
      eventFrame(
        { type: "response.completed", ...lane, sequence_number: 1 },
        writeResponse(completed, settings),
      ),
    ],
  };
}

/** The JSON of a response with the settings in place of its own members. */
function writeResponse(response: object, settings: EchoedSettings): string {
  const replaced = Object.fromEntries(Object.keys(settings).map((name) => [name, undefined]));
  return withMembers({ ...response, ...replaced }, Object.entries(settings));
}

function eventFrame(event: object, response: string): string {
  return withMembers(event, [["response", response]]);
}

/** Members that are JSON already are added to an object that is not empty. */
function withMembers(object: object, members: readonly (readonly [name: string, json: string])[]): string {
  const added = members.map(([name, json]) => `,${JSON.stringify(name)}:${json}`).join("");
  return `${JSON.stringify(object).slice(0, -1)}${added}}`;
}

function previousNotFoundError(responseId: string): ApiError {
  return paramError(
    "previous_response_id",
    "previous_response_not_found",
    `Previous response with id '${responseId.slice(0, 128)}' not found. Send the whole conversation as input instead.`,
  );
}
