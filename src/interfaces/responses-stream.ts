/** Server-sent events of the Responses family. Deltas pass untouched; only life-cycle events are looked into. */

import type { ApiError } from "../errors.ts";
import { textOf } from "../wire/bytes.ts";
import { isObject, parseJson } from "../wire/json-parse.ts";
import { type Field, integerValue, scanObject, stringValue, wantedFields } from "../wire/json-scan.ts";
import { applySplices, editMembers, jsonString, type Part, partOf, replaceValue } from "../wire/splice.ts";
import { isDone, isPlain, readEvent } from "../wire/sse.ts";
import { DONE, eventParts, formatEvent } from "../wire/sse-write.ts";
import { textsOfResponse } from "./answer-text.ts";
import { addResponsesDelta } from "./delta-text.ts";
import { isPrivateEvent, isResponseEvent } from "./private-event.ts";
import {
  DROPPED,
  isEventName,
  PASS_CONTENT,
  type StreamOutcome,
  type StreamReader,
  type TextSink,
  type Verdict,
} from "./stream.ts";
import { readUpstreamError, type UpstreamError } from "./upstream-error.ts";
import { readUsage, type TokenUsage } from "./usage.ts";

const EVENT = wantedFields(["type", "response", "sequence_number", "headers"]);
const RESPONSE = wantedFields(["id", "model", "usage", "previous_response_id", "headers"]);

/** The longest life-cycle name is `response.in_progress`; a longer `response.…` is content, and that is most of them. */
const LIFECYCLE_NAME_BYTES_MAX = "response.in_progress".length;

const LIFECYCLE_PHASE: ReadonlyMap<string, "lifecycle" | "terminal" | "failed"> = new Map([
  ["response.created", "lifecycle"],
  ["response.queued", "lifecycle"],
  ["response.in_progress", "lifecycle"],
  ["response.completed", "terminal"],
  ["response.incomplete", "terminal"],
  ["response.cancelled", "terminal"],
  ["response.failed", "failed"],
  ["error", "failed"],
]);

const OUTCOME: ReadonlyMap<string, StreamOutcome> = new Map([
  ["response.incomplete", "incomplete"],
  ["response.cancelled", "cancelled"],
]);

export interface ResponsesReaderOptions {
  publicModel: string;
  /** What the client goes on from, where the upstream was told the whole conversation instead. */
  previousResponseId?: string | null;
  depthMax: number;
  nowMs(): number;
  sink?: TextSink | null | undefined;
}

export function openResponsesReader(options: ResponsesReaderOptions): StreamReader {
  const { publicModel, depthMax } = options;
  const sink = options.sink ?? null;
  const previousId = options.previousResponseId ?? null;
  let usage: TokenUsage | null = null;
  let responseId: string | null = null;
  let outcome: StreamOutcome = "failed";
  let badEvents = 0;
  /** Some text went to the sink. */
  let saidSomething = false;
  /** The last event was the end of an item, or of a part of one. */
  let lastClosed = false;
  /** The last event, kept for the sequence number that our own terminal event must follow. */
  let last: Part | null = null;
  /** The last life-cycle event and its `response`, as the client knows them. */
  let known: { event: Part; response: Part } | null = null;

  function read(bytes: Uint8Array, start: number, end: number): Verdict {
    const event = readEvent(bytes, start, end);
    if (event.data === null) return DROPPED;
    const named = event.type;
    const plain = isPlain(event, bytes, start, end);
    if (
      plain &&
      named !== null &&
      named.end - named.start > LIFECYCLE_NAME_BYTES_MAX &&
      isResponseEvent(bytes, named.start)
    ) {
      if (!looksWhole(event.data)) return bad();
      last = event.data;
      lastClosed = closes(named);
      if (sink !== null) saidSomething = addResponsesDelta(named, event.data, sink) || saidSomething;
      return PASS_CONTENT;
    }
    if (isDone(event.data)) return DROPPED;
    return readNamed(event.data, plain && named !== null ? text(named) : null);
  }

  function readNamed(data: Part, named: string | null): Verdict {
    const scan = scanObject(data.bytes, data.start, data.end, EVENT, { depthMax });
    const type = scan.ok && scan.fields.type ? stringValue(data.bytes, scan.fields.type) : null;
    if (!scan.ok || type === null || !isEventName(type)) return bad();
    if (isPrivateEvent(type)) return DROPPED;
    // What would be headers over HTTP tells of the upstream's account, and crosses as little as those.
    if (scan.fields.headers) {
      const splices = editMembers(data.bytes, scan, { headers: null });
      return readNamed(partOf(applySplices(data.bytes, splices, data.start, data.end)), null);
    }
    const phase = LIFECYCLE_PHASE.get(type);
    // A failure is told in our own words: they take the number that the upstream's had.
    if (phase !== "failed") last = data;
    lastClosed = type.endsWith(".done");
    if (phase === undefined) {
      if (sink !== null && scan.fields.type) {
        const { start, end } = scan.fields.type;
        const name = { bytes: data.bytes, start: start + 1, end: end - 1 };
        saidSomething = addResponsesDelta(name, data, sink) || saidSomething;
      }
      // Written anew when the `event:` line is missing (clients that dispatch on it would see nothing) or when there
      // are others beside it (ids, comments), which are between us and the upstream.
      return named === type ? PASS_CONTENT : { phase: "content", replacement: eventParts(type, [data]) };
    }
    const response = scan.fields.response;
    const json = response?.kind === "object" ? takeResponse(data, response, phase !== "lifecycle") : data;
    if (phase === "failed") return { phase, error: errorIn(json) };
    const replacement = eventParts(type, [json]);
    if (phase === "terminal") {
      outcome = OUTCOME.get(type) ?? "completed";
      if (sink !== null && usage === null && !saidSomething && response) noteWhole(data, response, sink);
    }
    return { phase, replacement };
  }

  /** An upstream that streams nothing but its end, and counts nothing: what it said stands there. */
  function noteWhole(data: Part, response: Field, to: TextSink): void {
    for (const said of textsOfResponse(parseJson(data.bytes, response.start, response.end))) {
      const json = jsonString(said);
      to.addWhole(json, 1, json.length - 1, 0);
    }
  }

  function bad(): Verdict {
    badEvents++;
    return DROPPED;
  }

  /**
   * Reads what metering needs from the event's response and gives the event's JSON with the public model in. Usage is
   * true at the end: some upstreams begin with one of zeros.
   */
  function takeResponse(data: Part, response: Field, isEnd: boolean): Part {
    const { bytes } = data;
    const inner = scanObject(bytes, response.start, response.end, RESPONSE, { depthMax });
    if (!inner.ok) return data;
    const { id, model, usage: counted, previous_response_id: previous } = inner.fields;
    if (id) responseId = stringValue(bytes, id) ?? responseId;
    if (isEnd && counted?.kind === "object") {
      usage = readUsage(parseJson(bytes, counted.start, counted.end)) ?? usage;
    }
    const splices = model?.kind === "string" ? [replaceValue(model, jsonString(publicModel))] : [];
    if (previousId !== null && previous?.kind === "null") {
      splices.push(replaceValue(previous, jsonString(previousId)));
    }
    splices.push(...editMembers(bytes, inner, { headers: null }));
    const event = partOf(applySplices(bytes, splices, data.start, data.end));
    // All that was changed stands within the response.
    const start = response.start - data.start;
    const end = event.end - (data.end - response.end);
    known = { event, response: { bytes: event.bytes, start, end } };
    return event;
  }

  function failure(error: ApiError, requestId: string): Uint8Array {
    const sequence = lastSequence() + 1;
    const base = known ? parsed(known.response) : null;
    const response = {
      ...emptyResponse(publicModel, Math.floor(options.nowMs() / 1000), requestId),
      previous_response_id: previousId,
      ...(isObject(base) ? base : {}),
      status: "failed",
      error: { code: error.code, message: error.message },
    };
    // A client that was only kept alive so far has not seen its response begin.
    const begin =
      last === null
        ? formatEvent(
            "response.created",
            JSON.stringify({
              type: "response.created",
              sequence_number: 0,
              response: { ...response, status: "in_progress", error: null },
            }),
          )
        : new Uint8Array(0);
    const failed = formatEvent(
      "response.failed",
      JSON.stringify({
        type: "response.failed",
        sequence_number: last === null ? 1 : sequence,
        response,
      }),
    );
    return Buffer.concat([begin, failed, DONE]);
  }

  function lastSequence(): number {
    if (last === null) return -1;
    const scan = scanObject(last.bytes, last.start, last.end, EVENT, { depthMax });
    const field = scan.ok ? scan.fields.sequence_number : undefined;
    return (field && integerValue(last.bytes, field)) ?? -1;
  }

  return {
    read,
    saidEverything: () => false,
    isEnding: () => lastClosed,
    done: DONE,
    failure,
    stillWorking: () =>
      known === null ? null : formatEvent("response.in_progress", asInProgress(known.event, known.response)),
    get usage() {
      return usage;
    },
    images: 0,
    get responseId() {
      return responseId;
    },
    get outcome() {
      return outcome;
    },
    get badEvents() {
      return badEvents;
    },
  };
}

function asInProgress(event: Part, response: Part): string {
  const told = parsed(event);
  const sequence = JSON.stringify((isObject(told) ? told.sequence_number : undefined) ?? 1);
  return `{"type":"response.in_progress","sequence_number":${sequence},"response":${text(response)}}`;
}

function errorIn(json: Part): UpstreamError {
  return readUpstreamError(parsed(json)) ?? { code: "server_error", type: null, param: null, message: "" };
}

export interface EmptyResponse extends Record<string, unknown> {
  readonly id: string;
}

/** All keys a strict client checks, for a response that never got as far as having its own. */
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

/** `response.output_text.done` and its like; no other event's name ends alike. */
function closes({ bytes, end }: Part): boolean {
  return bytes[end - 1] === 0x65 && bytes[end - 5] === 0x2e;
}

/** A line that broke off would end a client's whole stream. This finds nearly all of them, without a scan. */
function looksWhole(data: Part): boolean {
  return data.bytes[data.start] === 0x7b && data.bytes[data.end - 1] === 0x7d;
}

function parsed({ bytes, start, end }: Part): unknown {
  return parseJson(bytes, start, end);
}

function text({ bytes, start, end }: Part): string {
  return textOf(bytes, start, end);
}
