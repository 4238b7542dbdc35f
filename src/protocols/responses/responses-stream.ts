/**
 * Server-sent events of the Responses family. Deltas pass untouched; only life-cycle events are looked into, and what has
 * a member that deltas do not have.
 */

import type { ApiError, ApiErrorCode } from "../../errors.ts";
import { isObject, parseJson } from "../../json/parse.ts";
import {
  integerValue,
  type JsonField,
  type ObjectScan,
  scanObject,
  stringValue,
  wantedFields,
} from "../../json/scan.ts";
import { applySplices, editMembers, jsonString, replaceValue, type Splice } from "../../json/splice.ts";
import { decodeText, findBytes } from "../../net/wire/bytes.ts";
import { type Part, wholeBytesPart } from "../../net/wire/parts.ts";
import { isDone, isPlain, readEvent } from "../../net/wire/sse.ts";
import { DONE, eventParts, formatEvent } from "../../net/wire/sse-write.ts";
import { addResponsesDelta } from "../shared/delta-text.ts";
import { readResponseTexts } from "../shared/response-text.ts";
import {
  DROPPED,
  isEventName,
  PASS_CONTENT,
  reasoningLane,
  type StreamOutcome,
  type StreamReader,
  type TextSink,
  type Verdict,
} from "../shared/stream.ts";
import { readUpstreamError, type UpstreamError } from "../shared/upstream-error.ts";
import { readUsage, type TokenUsage } from "../shared/usage.ts";
import { hasDeclaredType, isPrivateEvent, isResponseEvent } from "./private-event.ts";

const EVENT_FIELDS = ["type", "response", "sequence_number", "headers", "model"] as const;
const RESPONSE_FIELDS = ["id", "model", "usage", "error", "previous_response_id", "headers"] as const;
const EVENT = wantedFields(EVENT_FIELDS);
const RESPONSE = wantedFields(RESPONSE_FIELDS);
type EventScan = ObjectScan<(typeof EVENT_FIELDS)[number]>;
type ResponseScan = ObjectScan<(typeof RESPONSE_FIELDS)[number]>;

/** In JSON a quote inside a string is escaped, so a member's name in quotes is found without parsing. */
const MODEL = Buffer.from('"model"');
const HEADERS = Buffer.from('"headers"');

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

/** The error codes of the Responses API have none for a stream that broke. */
const RESPONSE_CODES: ReadonlyMap<ApiErrorCode, ApiErrorCode> = new Map([
  ["upstream_error", "server_error"],
  ["upstream_unavailable", "server_error"],
  ["upstream_timeout", "server_error"],
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
  const publicName = jsonString(publicModel);
  const sink = options.sink ?? null;
  const previousId = options.previousResponseId ?? null;
  let usage: TokenUsage | null = null;
  let responseId: string | null = null;
  let outcome: StreamOutcome = "failed";
  let badEvents = 0;
  /** Events that the client has had. */
  let passed = 0;
  const hasModel = openSearch(MODEL);
  const hasHeaders = openSearch(HEADERS);
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
      isResponseEvent(bytes, named.start) &&
      hasDeclaredType(named, event.data) &&
      !hasModel(bytes, start, end) &&
      !hasHeaders(bytes, start, end)
    ) {
      if (!looksWhole(event.data)) return bad();
      passed++;
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
      return readNamed(wholeBytesPart(applySplices(data.bytes, splices, data.start, data.end)), null);
    }
    const { response } = scan.fields;
    const inner = response?.kind === "object" ? within(data, response) : null;
    // Whatever its event is called: a response with an error has failed, and why is told in our own words.
    const phase = inner !== null && tellsError(inner) ? "failed" : LIFECYCLE_PHASE.get(type);
    // A failure is told in our own words: they take the number that the upstream's had.
    if (phase !== "failed") {
      passed++;
      last = data;
    }
    lastClosed = type.endsWith(".done");
    if (phase === undefined) return readContent(data, scan, inner, type, named);
    const json = response && inner ? takeResponse(data, response, inner, phase !== "lifecycle") : data;
    if (phase === "failed") return { phase, error: errorIn(json) };
    const replacement = eventParts(type, [json]);
    if (phase === "terminal") {
      outcome = OUTCOME.get(type) ?? "completed";
      if (sink !== null && usage === null && !saidSomething && response) noteWhole(data, response, sink);
    }
    return { phase, replacement };
  }

  function readContent(
    data: Part,
    { fields }: EventScan,
    inner: ResponseScan | null,
    type: string,
    named: string | null,
  ): Verdict {
    if (sink !== null && fields.type) {
      const { start, end } = fields.type;
      const name = { bytes: data.bytes, start: start + 1, end: end - 1 };
      saidSomething = addResponsesDelta(name, data, sink) || saidSomething;
    }
    const splices = fields.model?.kind === "string" ? [replaceValue(fields.model, publicName)] : [];
    if (inner !== null) splices.push(...responseEdits(data.bytes, inner));
    // Written anew when the `event:` line is missing (clients that dispatch on it would see nothing) or when there
    // are others beside it (ids, comments), which are between us and the upstream.
    if (splices.length === 0 && named === type) return PASS_CONTENT;
    const json = wholeBytesPart(applySplices(data.bytes, splices, data.start, data.end));
    return { phase: "content", replacement: eventParts(type, [json]) };
  }

  /** An upstream that streams nothing but its end, and counts nothing: what it said stands there. */
  function noteWhole(data: Part, response: JsonField, to: TextSink): void {
    const { said, reasoned } = readResponseTexts(parseJson(data.bytes, response.start, response.end));
    const add = (text: string, lane: number): void => {
      const json = jsonString(text);
      to.addWhole(json, 1, json.length - 1, lane);
    };
    for (const text of said) add(text, 0);
    for (const text of reasoned) add(text, reasoningLane(0));
  }

  function bad(): Verdict {
    badEvents++;
    return DROPPED;
  }

  /**
   * Reads what metering needs from the event's response and gives the event's JSON with the public model in. Usage is
   * true at the end: some upstreams begin with one of zeros.
   */
  function takeResponse(data: Part, response: JsonField, inner: ResponseScan, isEnd: boolean): Part {
    const { bytes } = data;
    const { id, usage: counted } = inner.fields;
    if (id) responseId = stringValue(bytes, id) ?? responseId;
    if (isEnd && counted?.kind === "object") {
      usage = readUsage(parseJson(bytes, counted.start, counted.end)) ?? usage;
    }
    const event = wholeBytesPart(applySplices(bytes, responseEdits(bytes, inner), data.start, data.end));
    // All that was changed stands within the response.
    const start = response.start - data.start;
    const end = event.end - (data.end - response.end);
    known = { event, response: { bytes: event.bytes, start, end } };
    return event;
  }

  function within({ bytes }: Part, { start, end }: JsonField): ResponseScan | null {
    const scan = scanObject(bytes, start, end, RESPONSE, { depthMax });
    return scan.ok ? scan : null;
  }

  /** What makes an upstream's response one of ours. */
  function responseEdits(bytes: Uint8Array, scan: ResponseScan): Splice[] {
    const { model, previous_response_id: previous } = scan.fields;
    return editMembers(bytes, scan, {
      headers: null,
      ...(model?.kind === "string" ? { model: publicName } : {}),
      ...(previousId !== null && previous?.kind === "null"
        ? { previous_response_id: jsonString(previousId) }
        : {}),
    });
  }

  function failure(error: ApiError, requestId: string): Uint8Array {
    const sequence = lastSequence() + 1;
    const base = known ? parsed(known.response) : null;
    const response = {
      ...emptyResponse(publicModel, Math.floor(options.nowMs() / 1000), requestId),
      previous_response_id: previousId,
      ...(isObject(base) ? base : {}),
      status: "failed",
      error: { code: RESPONSE_CODES.get(error.code) ?? error.code, message: error.message },
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

  /** For an upstream that does not number its events, the number that the last one would have had. */
  function lastSequence(): number {
    if (last === null) return -1;
    const scan = scanObject(last.bytes, last.start, last.end, EVENT, { depthMax });
    const field = scan.ok ? scan.fields.sequence_number : undefined;
    return (field && integerValue(last.bytes, field)) ?? passed - 1;
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
    imageKind: null,
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

function tellsError({ fields: { error } }: ResponseScan): boolean {
  return error?.kind === "object" || error?.kind === "string";
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

/** Asks of one range after another whether the needle is in it; a search of an array does for all that stand in it. */
function openSearch(needle: Uint8Array): (bytes: Uint8Array, start: number, end: number) => boolean {
  let searched: Uint8Array | null = null;
  let at = -1;
  return (bytes, start, end) => {
    if (bytes !== searched || (at !== -1 && at < start)) {
      searched = bytes;
      at = findBytes(bytes, needle, start);
    }
    return at !== -1 && at < end;
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
  return decodeText(bytes, start, end);
}
