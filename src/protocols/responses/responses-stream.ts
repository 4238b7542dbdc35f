/**
 * Reads the server-sent events of the Responses API. Deltas are forwarded unchanged; only lifecycle events, and events
 * with members that deltas do not have, are examined.
 */

import { decodeText, findBytes } from "../../base/bytes.ts";
import { type Part, wholeBytesPart } from "../../base/parts.ts";
import type { ApiError } from "../../errors.ts";
import {
  integerValue,
  type JsonField,
  type ObjectScan,
  scanObject,
  stringValue,
  wantedFields,
} from "../../json/scan.ts";
import { applySplices, editMembers, jsonString, replaceValue, type Splice } from "../../json/splice.ts";
import { isDone, isPlain, readEvent } from "../../net/wire/sse.ts";
import { DONE, eventParts } from "../../net/wire/sse-format.ts";
import { addResponsesDelta } from "../shared/delta-text.ts";
import {
  findEventFault,
  PARSED_EVENT,
  parseUsageMember,
  parseWithin,
  SCANNED_EVENT,
} from "../shared/event-bounds.ts";
import { type EventString, parseWithoutLongStrings, textContent } from "../shared/long-strings.ts";
import type { ResponseFacts } from "../shared/response-facts.ts";
import { readResponseTexts } from "../shared/response-text.ts";
import {
  DROPPED,
  type EventVerdict,
  isEventName,
  PASS_CONTENT,
  reasoningChannel,
  type StreamOutcome,
  type StreamReader,
  type TextSink,
} from "../shared/stream.ts";
import { readUpstreamError, type UpstreamError } from "../shared/upstream-error.ts";
import { readUsage, type TokenUsage, withTier } from "../shared/usage.ts";
import { countSearchesInOutput, withSearches } from "../shared/web-searches.ts";
import {
  formatFailure,
  formatProgress,
  type LifecycleEvent,
  repeatableLifecycle,
} from "./generated-events.ts";
import { hasDeclaredType, isPrivateEvent, isResponseEvent } from "./private-event.ts";

const EVENT_FIELDS = ["type", "response", "sequence_number", "headers", "model"] as const;
const RESPONSE_FIELDS = [
  "id",
  "model",
  "usage",
  "output",
  "service_tier",
  "error",
  "previous_response_id",
  "headers",
] as const;
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

interface ResponsesReaderOptions {
  publicModel: string;
  /** The response that the client continues, if the upstream was sent the whole conversation instead. */
  previousResponseId?: string | null;
  depthMax: number;
  nowMs(): number;
  sink?: TextSink | null | undefined;
}

interface ContentEvent {
  readonly data: Part;
  readonly scan: EventScan;
  readonly responseScan: ResponseScan | null;
  readonly type: string;
  /** The event has an `event:` line with its type, and no lines besides that and its data. */
  readonly isNamed: boolean;
}

export function openResponsesReader(options: ResponsesReaderOptions): StreamReader {
  return new ResponsesReader(options);
}

class ResponsesReader implements StreamReader {
  readonly endMarker = DONE;
  readonly eventBounds = SCANNED_EVENT;
  usage: TokenUsage | null = null;
  responseId: string | null = null;
  #model: string | null = null;
  outcome: StreamOutcome = "failed";
  badEvents = 0;

  readonly #publicModel: string;
  readonly #publicModelJson: Uint8Array;
  readonly #previousResponseId: string | null;
  readonly #depthMax: number;
  readonly #nowMs: () => number;
  readonly #sink: TextSink | null;
  readonly #modelSearch = new ForwardSearch(MODEL);
  readonly #headersSearch = new ForwardSearch(HEADERS);
  #forwardedEvents = 0;
  /** Some text went to the sink. */
  #hasText = false;
  /** The last event ended an item or a part of one. */
  #lastEventEndedItem = false;
  /** The last event, kept for the sequence number that the gateway's own terminal event must follow. */
  #lastEvent: Part | null = null;
  #lastLifecycle: LifecycleEvent | null = null;

  constructor(options: ResponsesReaderOptions) {
    this.#publicModel = options.publicModel;
    this.#publicModelJson = jsonString(options.publicModel);
    this.#previousResponseId = options.previousResponseId ?? null;
    this.#depthMax = options.depthMax;
    this.#nowMs = options.nowMs;
    this.#sink = options.sink ?? null;
  }

  read(bytes: Uint8Array, start: number, end: number): EventVerdict {
    const event = readEvent(bytes, start, end);
    if (event.data === null) return DROPPED;
    const eventName = event.type;
    const isPlainEvent = isPlain(event, bytes, start, end);
    if (
      isPlainEvent &&
      eventName !== null &&
      eventName.end - eventName.start > LIFECYCLE_NAME_BYTES_MAX &&
      isResponseEvent(bytes, eventName.start) &&
      hasDeclaredType(eventName, event.data) &&
      !this.#modelSearch.isIn(bytes, start, end) &&
      !this.#headersSearch.isIn(bytes, start, end)
    ) {
      return this.#readDelta(eventName, event.data);
    }
    if (isDone(event.data)) return DROPPED;
    return this.#readAny(event.data, isPlainEvent && eventName !== null ? decodePart(eventName) : null);
  }

  /** The common case: content that is forwarded unchanged. */
  #readDelta(eventName: Part, data: Part): EventVerdict {
    if (!looksComplete(data)) return this.#dropBadEvent();
    this.#forwardedEvents++;
    this.#lastEvent = data;
    this.#lastEventEndedItem = endsWithDone(eventName);
    if (this.#sink !== null && addResponsesDelta(eventName, data, this.#sink)) this.#hasText = true;
    return PASS_CONTENT;
  }

  /** `eventName` is null if the event must be written again, because it has other lines or no name. */
  #readAny(data: Part, eventName: string | null): EventVerdict {
    const scan = scanObject(data.bytes, data.start, data.end, EVENT, { depthMax: this.#depthMax });
    const type = scan.ok && scan.fields.type ? readTypeName(data.bytes, scan.fields.type) : null;
    if (!scan.ok || type === null) return this.#dropBadEvent();
    if (isPrivateEvent(type)) return DROPPED;
    // Members that would be headers over HTTP describe the upstream's account, so they are removed like headers.
    if (scan.fields.headers) {
      const splices = editMembers(data.bytes, scan, { headers: null });
      return this.#readAny(wholeBytesPart(applySplices(data.bytes, splices, data.start, data.end)), null);
    }
    const { response } = scan.fields;
    const responseScan = response?.kind === "object" ? this.#scanResponse(data, response) : null;
    // A response with an error has failed, under any event name. The client gets the gateway's own message.
    const phase = responseScan !== null && hasError(responseScan) ? "failed" : LIFECYCLE_PHASE.get(type);
    // A failure is replaced by the gateway's own event, which takes the sequence number of the upstream's.
    if (phase !== "failed") {
      this.#forwardedEvents++;
      this.#lastEvent = data;
    }
    this.#lastEventEndedItem = type.endsWith(".done");
    if (phase === undefined) {
      this.#addText(data, scan);
      const isNamed = eventName === type;
      return this.#rewriteContent({ data, scan, responseScan, type, isNamed });
    }
    const json =
      response && responseScan
        ? this.#takeResponse(data, response, { responseScan, isEnd: phase !== "lifecycle" })
        : data;
    if (phase === "failed") return { phase, error: readError(json) };
    if (phase === "terminal") {
      this.outcome = OUTCOME.get(type) ?? "completed";
      if (this.#sink !== null && this.usage === null && !this.#hasText && response)
        addWholeText(data, response, this.#sink);
    }
    return { phase, replacement: eventParts(type, [json]) };
  }

  #addText(data: Part, { fields }: EventScan): void {
    if (this.#sink === null || !fields.type) return;
    const eventName = { bytes: data.bytes, start: fields.type.start + 1, end: fields.type.end - 1 };
    if (addResponsesDelta(eventName, data, this.#sink)) this.#hasText = true;
  }

  #rewriteContent({ data, scan, responseScan, type, isNamed }: ContentEvent): EventVerdict {
    const { model } = scan.fields;
    const splices = model?.kind === "string" ? [replaceValue(model, this.#publicModelJson)] : [];
    if (responseScan !== null) splices.push(...this.#responseEdits(data.bytes, responseScan));
    // Rewritten if the `event:` line is missing, because clients that dispatch on it would see nothing, or if there are
    // other lines (ids, comments), which are private between the gateway and the upstream.
    if (splices.length === 0 && isNamed) return PASS_CONTENT;
    const json = wholeBytesPart(applySplices(data.bytes, splices, data.start, data.end));
    return { phase: "content", replacement: eventParts(type, [json]) };
  }

  #dropBadEvent(): EventVerdict {
    this.badEvents++;
    return DROPPED;
  }

  /**
   * Reads what metering needs from the response of an event. Returns the event's JSON with the public model name. Usage
   * counts only at the end: some upstreams begin with zeros.
   */
  #takeResponse(
    data: Part,
    response: JsonField,
    { responseScan, isEnd }: { responseScan: ResponseScan; isEnd: boolean },
  ): Part {
    const { bytes } = data;
    const { id, model, usage, output, service_tier: tier } = responseScan.fields;
    if (model) this.#model ??= stringValue(bytes, model);
    if (id) this.responseId = stringValue(bytes, id) ?? this.responseId;
    if (isEnd && usage?.kind === "object") {
      const reported = readUsage(parseUsageMember(bytes, usage));
      const tiered = withTier(reported, tier === undefined ? null : stringValue(bytes, tier));
      this.usage = withSearches(tiered, countSearchesInOutput(bytes, output)) ?? this.usage;
    }
    const splices = this.#responseEdits(bytes, responseScan);
    const event = wholeBytesPart(applySplices(bytes, splices, data.start, data.end));
    // All changes are within the response.
    const start = response.start - data.start;
    const end = event.end - (data.end - response.end);
    this.#lastLifecycle = { event, response: { bytes: event.bytes, start, end } };
    return event;
  }

  #scanResponse({ bytes }: Part, { start, end }: JsonField): ResponseScan | null {
    const scan = scanObject(bytes, start, end, RESPONSE, { depthMax: this.#depthMax });
    return scan.ok ? scan : null;
  }

  /** The edits that make an upstream's response public. */
  #responseEdits(bytes: Uint8Array, scan: ResponseScan): Splice[] {
    const { model, previous_response_id: previous } = scan.fields;
    return editMembers(bytes, scan, {
      headers: null,
      ...(model?.kind === "string" ? { model: this.#publicModelJson } : {}),
      ...(this.#previousResponseId !== null && previous?.kind === "null"
        ? { previous_response_id: jsonString(this.#previousResponseId) }
        : {}),
    });
  }

  describe(): ResponseFacts {
    return { id: this.responseId, model: this.#model, finishReasons: [this.outcome] };
  }

  isCompleteWithoutTerminal(): boolean {
    return false;
  }

  isEnding(): boolean {
    return this.#lastEventEndedItem;
  }

  progressEvent(): Uint8Array | null {
    const lifecycle = this.#repeatable();
    return lifecycle === null ? null : formatProgress(lifecycle);
  }

  #repeatable(): LifecycleEvent | null {
    const last = this.#lastLifecycle;
    if (last === null) return null;
    return repeatableLifecycle(last, () => ({
      responseId: this.responseId,
      publicModel: this.#publicModel,
      sequence: this.#readSequence(last.event),
      nowMs: this.#nowMs(),
    }));
  }

  failure(error: ApiError, requestId: string): Uint8Array {
    return formatFailure({
      error,
      requestId,
      publicModel: this.#publicModel,
      previousResponseId: this.#previousResponseId,
      lastLifecycle: this.#repeatable(),
      lastSequence: this.#lastEvent === null ? null : this.#readSequence(this.#lastEvent),
      nowMs: this.#nowMs(),
    });
  }

  /** If the upstream does not number its events, the number that the last one would have. */
  #readSequence(event: Part): number {
    const scan = scanObject(event.bytes, event.start, event.end, EVENT, { depthMax: this.#depthMax });
    const field = scan.ok ? scan.fields.sequence_number : undefined;
    return (field && integerValue(event.bytes, field)) ?? this.#forwardedEvents - 1;
  }
}

/** Reads the text from the terminal event of an upstream that streams no deltas and reports no usage. */
function addWholeText(data: Part, response: JsonField, sink: TextSink): void {
  if (findEventFault({ bytes: data.bytes, start: response.start, end: response.end }, PARSED_EVENT) !== null)
    return;
  const json = parseWithoutLongStrings(data.bytes, response.start, response.end);
  const { outputTexts, reasoningTexts } = readResponseTexts(json);
  const add = (text: EventString, channel: number): void => {
    const { bytes, start, end } = textContent(text);
    sink.addWhole(bytes, start, end, channel);
  };
  for (const text of outputTexts) add(text, 0);
  for (const text of reasoningTexts) add(text, reasoningChannel(0));
}

function hasError({ fields: { error } }: ResponseScan): boolean {
  return error?.kind === "object" || error?.kind === "string";
}

function readError(json: Part): UpstreamError {
  return (
    readUpstreamError(parseWithin(json)) ?? { code: "server_error", type: null, param: null, message: "" }
  );
}

/** Tests successive ranges for the needle. One search serves all ranges of the same array. */
class ForwardSearch {
  readonly #needle: Uint8Array;
  #searchedBytes: Uint8Array | null = null;
  /** Where the needle is in the array, at or after the start of the last range; -1 if nowhere. */
  #at = -1;

  constructor(needle: Uint8Array) {
    this.#needle = needle;
  }

  isIn(bytes: Uint8Array, start: number, end: number): boolean {
    if (bytes !== this.#searchedBytes || (this.#at !== -1 && this.#at < start)) {
      this.#searchedBytes = bytes;
      this.#at = findBytes(bytes, this.#needle, start, bytes.length);
    }
    return this.#at !== -1 && this.#at < end;
  }
}

const TYPE_BYTES_MAX = 256;

/** Null for a type that is no event name. One of megabytes is not decoded to find out. */
function readTypeName(bytes: Uint8Array, field: JsonField): string | null {
  const type = field.end - field.start > TYPE_BYTES_MAX ? null : stringValue(bytes, field);
  return type !== null && isEventName(type) ? type : null;
}

/** `response.output_text.done` and similar; no other event name has these bytes. */
function endsWithDone({ bytes, end }: Part): boolean {
  return bytes[end - 1] === 0x65 && bytes[end - 5] === 0x2e;
}

/** A truncated line would break the client's whole stream. This check finds nearly all of them without a scan. */
function looksComplete(data: Part): boolean {
  return data.bytes[data.start] === 0x7b && data.bytes[data.end - 1] === 0x7d;
}

function decodePart({ bytes, start, end }: Part): string {
  return decodeText(bytes, start, end);
}
