/**
 * Reads the server-sent events of the Responses API. Deltas are forwarded unchanged; only lifecycle events, and events
 * with members that deltas do not have, are examined.
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
  type EventVerdict,
  isEventName,
  PASS_CONTENT,
  reasoningLane,
  type StreamOutcome,
  type StreamReader,
  type TextSink,
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

/** In JSON a quote inside a string is escaped, so a member name in quotes is found without parsing. */
const MODEL = Buffer.from('"model"');
const HEADERS = Buffer.from('"headers"');

/** The longest lifecycle name is `response.in_progress`. A longer `response.…` is content, and most events are. */
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

/** The Responses API has no error code for a broken stream. */
const RESPONSE_CODES: ReadonlyMap<ApiErrorCode, ApiErrorCode> = new Map([
  ["upstream_error", "server_error"],
  ["upstream_unavailable", "server_error"],
  ["upstream_timeout", "server_error"],
]);

export interface ResponsesReaderOptions {
  publicModel: string;
  /** The response that the client continues, if the upstream was sent the whole conversation instead. */
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
  /** The number of events that the client has received. */
  let forwardedEvents = 0;
  const hasModel = openSearch(MODEL);
  const hasHeaders = openSearch(HEADERS);
  /** Some text went to the sink. */
  let hasText = false;
  /** The last event ended an item or a part of one. */
  let lastClosed = false;
  /** The last event, kept for the sequence number that the gateway's own terminal event must follow. */
  let last: Part | null = null;
  /** The last lifecycle event and its `response`, as sent to the client. */
  let lastLifecycle: { event: Part; response: Part } | null = null;

  function read(bytes: Uint8Array, start: number, end: number): EventVerdict {
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
      if (!looksWhole(event.data)) return dropBadEvent();
      forwardedEvents++;
      last = event.data;
      lastClosed = endsWithDone(named);
      if (sink !== null) hasText = addResponsesDelta(named, event.data, sink) || hasText;
      return PASS_CONTENT;
    }
    if (isDone(event.data)) return DROPPED;
    return readNamed(event.data, plain && named !== null ? text(named) : null);
  }

  function readNamed(data: Part, named: string | null): EventVerdict {
    const scan = scanObject(data.bytes, data.start, data.end, EVENT, { depthMax });
    const type = scan.ok && scan.fields.type ? stringValue(data.bytes, scan.fields.type) : null;
    if (!scan.ok || type === null || !isEventName(type)) return dropBadEvent();
    if (isPrivateEvent(type)) return DROPPED;
    // Members that would be headers over HTTP describe the upstream's account, so they are removed like headers.
    if (scan.fields.headers) {
      const splices = editMembers(data.bytes, scan, { headers: null });
      return readNamed(wholeBytesPart(applySplices(data.bytes, splices, data.start, data.end)), null);
    }
    const { response } = scan.fields;
    const inner = response?.kind === "object" ? scanResponse(data, response) : null;
    // A response with an error has failed, under any event name. The client gets the gateway's own message.
    const phase = inner !== null && hasError(inner) ? "failed" : LIFECYCLE_PHASE.get(type);
    // A failure is replaced by the gateway's own event, which takes the sequence number of the upstream's.
    if (phase !== "failed") {
      forwardedEvents++;
      last = data;
    }
    lastClosed = type.endsWith(".done");
    if (phase === undefined) return readContent(data, scan, inner, type, named);
    const json = response && inner ? takeResponse(data, response, inner, phase !== "lifecycle") : data;
    if (phase === "failed") return { phase, error: errorIn(json) };
    const replacement = eventParts(type, [json]);
    if (phase === "terminal") {
      outcome = OUTCOME.get(type) ?? "completed";
      if (sink !== null && usage === null && !hasText && response) addWholeText(data, response, sink);
    }
    return { phase, replacement };
  }

  function readContent(
    data: Part,
    { fields }: EventScan,
    inner: ResponseScan | null,
    type: string,
    named: string | null,
  ): EventVerdict {
    if (sink !== null && fields.type) {
      const { start, end } = fields.type;
      const name = { bytes: data.bytes, start: start + 1, end: end - 1 };
      hasText = addResponsesDelta(name, data, sink) || hasText;
    }
    const splices = fields.model?.kind === "string" ? [replaceValue(fields.model, publicName)] : [];
    if (inner !== null) splices.push(...responseEdits(data.bytes, inner));
    // Rewritten if the `event:` line is missing, because clients that dispatch on it would see nothing, or if there are
    // other lines (ids, comments), which are private between the gateway and the upstream.
    if (splices.length === 0 && named === type) return PASS_CONTENT;
    const json = wholeBytesPart(applySplices(data.bytes, splices, data.start, data.end));
    return { phase: "content", replacement: eventParts(type, [json]) };
  }

  /** Reads the text from the terminal event of an upstream that streams no deltas and reports no usage. */
  function addWholeText(data: Part, response: JsonField, to: TextSink): void {
    const { said, reasoned } = readResponseTexts(parseJson(data.bytes, response.start, response.end));
    const add = (text: string, lane: number): void => {
      const json = jsonString(text);
      to.addWhole(json, 1, json.length - 1, lane);
    };
    for (const text of said) add(text, 0);
    for (const text of reasoned) add(text, reasoningLane(0));
  }

  function dropBadEvent(): EventVerdict {
    badEvents++;
    return DROPPED;
  }

  /**
   * Reads what metering needs from the response of an event. Returns the event's JSON with the public model name. Usage
   * counts only at the end: some upstreams begin with zeros.
   */
  function takeResponse(data: Part, response: JsonField, inner: ResponseScan, isEnd: boolean): Part {
    const { bytes } = data;
    const { id, usage: counted } = inner.fields;
    if (id) responseId = stringValue(bytes, id) ?? responseId;
    if (isEnd && counted?.kind === "object") {
      usage = readUsage(parseJson(bytes, counted.start, counted.end)) ?? usage;
    }
    const event = wholeBytesPart(applySplices(bytes, responseEdits(bytes, inner), data.start, data.end));
    // All changes are within the response.
    const start = response.start - data.start;
    const end = event.end - (data.end - response.end);
    lastLifecycle = { event, response: { bytes: event.bytes, start, end } };
    return event;
  }

  function scanResponse({ bytes }: Part, { start, end }: JsonField): ResponseScan | null {
    const scan = scanObject(bytes, start, end, RESPONSE, { depthMax });
    return scan.ok ? scan : null;
  }

  /** The edits that make an upstream's response public. */
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
    const base = lastLifecycle ? parsePart(lastLifecycle.response) : null;
    const response = {
      ...emptyResponse(publicModel, Math.floor(options.nowMs() / 1000), requestId),
      previous_response_id: previousId,
      ...(isObject(base) ? base : {}),
      status: "failed",
      error: { code: RESPONSE_CODES.get(error.code) ?? error.code, message: error.message },
    };
    // A client that received only keep-alives has not seen its response begin.
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

  /** If the upstream does not number its events, the number that the last one would have. */
  function lastSequence(): number {
    if (last === null) return -1;
    const scan = scanObject(last.bytes, last.start, last.end, EVENT, { depthMax });
    const field = scan.ok ? scan.fields.sequence_number : undefined;
    return (field && integerValue(last.bytes, field)) ?? forwardedEvents - 1;
  }

  return {
    read,
    saidEverything: () => false,
    isEnding: () => lastClosed,
    done: DONE,
    failure,
    stillWorking: () =>
      lastLifecycle === null
        ? null
        : formatEvent("response.in_progress", asInProgress(lastLifecycle.event, lastLifecycle.response)),
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
  const parsedEvent = parsePart(event);
  const sequence = JSON.stringify((isObject(parsedEvent) ? parsedEvent.sequence_number : undefined) ?? 1);
  return `{"type":"response.in_progress","sequence_number":${sequence},"response":${text(response)}}`;
}

function hasError({ fields: { error } }: ResponseScan): boolean {
  return error?.kind === "object" || error?.kind === "string";
}

function errorIn(json: Part): UpstreamError {
  return readUpstreamError(parsePart(json)) ?? { code: "server_error", type: null, param: null, message: "" };
}

export interface EmptyResponse extends Record<string, unknown> {
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

/** Tests successive ranges for the needle. One search serves all ranges of the same array. */
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

/** `response.output_text.done` and similar; no other event name has these bytes. */
function endsWithDone({ bytes, end }: Part): boolean {
  return bytes[end - 1] === 0x65 && bytes[end - 5] === 0x2e;
}

/** A truncated line would break the client's whole stream. This check finds nearly all of them without a scan. */
function looksWhole(data: Part): boolean {
  return data.bytes[data.start] === 0x7b && data.bytes[data.end - 1] === 0x7d;
}

function parsePart({ bytes, start, end }: Part): unknown {
  return parseJson(bytes, start, end);
}

function text({ bytes, start, end }: Part): string {
  return decodeText(bytes, start, end);
}
