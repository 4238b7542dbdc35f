/** The events that the gateway itself writes into a Responses stream: its progress and its failure. */

import { decodeText } from "../../base/bytes.ts";
import { type Part, wholeBytesPart } from "../../base/parts.ts";
import type { ApiError, ApiErrorCode } from "../../errors.ts";
import { isObject } from "../../json/parse.ts";
import { DONE, formatEvent } from "../../net/wire/sse-format.ts";
import { parseWithin } from "../shared/event-bounds.ts";

/** A lifecycle event and its `response`, as sent to the client. */
export interface LifecycleEvent {
  readonly event: Part;
  readonly response: Part;
}

/**
 * A longer event is not repeated: each minute of silence would send it again, and the gateway would parse and write it in
 * one turn. Responses repeat the instructions and tools of their requests.
 */
const REPEATED_BYTES_MAX = 256 * 1024;
/** As of the ids that are remembered. */
const ID_CHARS_MAX = 4_096;

interface LifecycleTerms {
  readonly responseId: string | null;
  readonly publicModel: string;
  readonly sequence: number;
  readonly nowMs: number;
}

/** The event itself, or a short one in its place that has the same id. */
export function repeatableLifecycle(lifecycle: LifecycleEvent, terms: () => LifecycleTerms): LifecycleEvent {
  const { event } = lifecycle;
  if (event.end - event.start <= REPEATED_BYTES_MAX) return lifecycle;
  const { responseId, publicModel, sequence, nowMs } = terms();
  const id = responseId === null || responseId.length > ID_CHARS_MAX ? {} : { id: responseId };
  const response = { ...emptyResponse(publicModel, Math.floor(nowMs / 1000), ""), ...id };
  return {
    event: wholeBytesPart(Buffer.from(JSON.stringify({ sequence_number: sequence }))),
    response: wholeBytesPart(Buffer.from(JSON.stringify(response))),
  };
}

interface ResponseFailure {
  readonly error: ApiError;
  readonly requestId: string;
  readonly publicModel: string;
  readonly previousResponseId: string | null;
  readonly lastLifecycle: LifecycleEvent | null;
  /** The sequence number of the last event that the client received; null if it received none. */
  readonly lastSequence: number | null;
  readonly nowMs: number;
}

/** The Responses API has no error code for a broken stream. */
const RESPONSE_CODES: ReadonlyMap<ApiErrorCode, ApiErrorCode> = new Map([
  ["upstream_error", "server_error"],
  ["upstream_unavailable", "server_error"],
  ["upstream_timeout", "server_error"],
]);

export function responseErrorCode({ code }: Pick<ApiError, "code">): ApiErrorCode {
  return RESPONSE_CODES.get(code) ?? code;
}

/** The end of a broken stream: `response.failed` with the state of the response so far. */
export function formatFailure(failure: ResponseFailure): Uint8Array {
  const { error, lastSequence } = failure;
  const base = failure.lastLifecycle ? parseWithin(failure.lastLifecycle.response) : null;
  const response = {
    ...emptyResponse(failure.publicModel, Math.floor(failure.nowMs / 1000), failure.requestId),
    previous_response_id: failure.previousResponseId,
    ...(isObject(base) ? base : {}),
    status: "failed",
    error: { code: responseErrorCode(error), message: error.message },
  };
  if (lastSequence !== null) {
    return Buffer.concat([formatLifecycle("response.failed", lastSequence + 1, response), DONE]);
  }
  // A client that received only keep-alives has not seen its response begin.
  const begun = { ...response, status: "in_progress", error: null };
  return Buffer.concat([
    formatLifecycle("response.created", 0, begun),
    formatLifecycle("response.failed", 1, response),
    DONE,
  ]);
}

function formatLifecycle(type: string, sequence: number, response: object): Uint8Array {
  return formatEvent(type, JSON.stringify({ type, sequence_number: sequence, response }));
}

/** Repeats the state of the response, for clients that ignore keep-alive comments. */
export function formatProgress({ event, response }: LifecycleEvent): Uint8Array {
  const parsedEvent = parseWithin(event);
  const sequence = JSON.stringify((isObject(parsedEvent) ? parsedEvent.sequence_number : undefined) ?? 1);
  const state = decodeText(response.bytes, response.start, response.end);
  return formatEvent(
    "response.in_progress",
    `{"type":"response.in_progress","sequence_number":${sequence},"response":${state}}`,
  );
}

interface EmptyResponse extends Record<string, unknown> {
  readonly id: string;
}

/** All keys that a strict client checks, for a response that never got its own. */
export function emptyResponse(model: string, createdAt: number, requestId: string): EmptyResponse {
  return {
    id: `resp_${requestId.replace(/^req_/, "")}`,
    object: "response",
    created_at: createdAt,
    completed_at: null,
    status: "in_progress",
    incomplete_details: null,
    model,
    previous_response_id: null,
    instructions: null,
    output: [],
    error: null,
    tools: [],
    tool_choice: "auto",
    truncation: "disabled",
    parallel_tool_calls: true,
    text: { format: { type: "text" } },
    top_p: 1,
    presence_penalty: 0,
    frequency_penalty: 0,
    top_logprobs: 0,
    temperature: 1,
    reasoning: null,
    usage: null,
    max_output_tokens: null,
    max_tool_calls: null,
    store: false,
    background: false,
    service_tier: "default",
    metadata: {},
    safety_identifier: null,
    prompt_cache_key: null,
  };
}
