/**
 * Reads the chunks of a Chat Completions stream. All chunks of one response begin with the same bytes up to the model
 * name, so this prefix is computed once and replaced in later chunks.
 */

import { type ApiError, errorObject } from "../../errors.ts";
import { isObject, parseJson } from "../../json/parse.ts";
import { type JsonField, type ObjectScan, scanObject, stringValue, wantedFields } from "../../json/scan.ts";
import { editMembers, jsonString, spliceParts } from "../../json/splice.ts";
import { ARRAY_OPEN, LF, OBJECT_CLOSE, QUOTE, skipSpace } from "../../json/walk.ts";
import { copyBytes, findBytes, startsWithAt } from "../../net/wire/bytes.ts";
import { joinParts, type Part, wholeBytesPart, wholePart } from "../../net/wire/parts.ts";
import { isDone, readEvent } from "../../net/wire/sse.ts";
import { BLANK_LINE, DATA_FIELD, DONE, eventParts, formatEvent } from "../../net/wire/sse-write.ts";
import { addChatDelta } from "../shared/delta-text.ts";
import { rewriteInnerErrors } from "../shared/inner-errors.ts";
import {
  DROPPED,
  type EventVerdict,
  type StreamOutcome,
  type StreamReader,
  type TextSink,
} from "../shared/stream.ts";
import { readUpstreamError } from "../shared/upstream-error.ts";
import { readUsage, type TokenUsage } from "../shared/usage.ts";

const CHUNK_FIELDS = ["model", "usage", "error", "choices", "object", "type"] as const;
const CHUNK = wantedFields(CHUNK_FIELDS);
type ChunkFields = ObjectScan<(typeof CHUNK_FIELDS)[number]>["fields"];

const CLOSE_AND_END = wholeBytesPart(Buffer.from("}\n\n"));
const DONE_PART = wholeBytesPart(DONE);
const JSON_NULL = Buffer.from("null");
const NO_CHOICES = Buffer.from("[]");
const USAGE = Buffer.from('"usage"');
const USAGE_NULL_AT_END = Buffer.from(',"usage":null}');
const ERROR = Buffer.from('"error"');
const DELTA = Buffer.from('"delta"');
const FINISH_REASON = Buffer.from('"finish_reason"');
const FOLLOWING_BYTES_MAX = 2_048;

export interface ChatReaderOptions {
  publicModel: string;
  hidesUsage: boolean;
  choices: number;
  depthMax: number;
  sink?: TextSink | null | undefined;
}

export function openChatReader(options: ChatReaderOptions): StreamReader {
  const { publicModel, hidesUsage, depthMax } = options;
  const sink = options.sink ?? null;
  let usage: TokenUsage | null = null;
  /** More content followed the usage. */
  let isUsageOld = false;
  /** The usage arrived with the error that ended the response. */
  let isUsageLast = false;
  /** Indexes of the choices that have a finish reason. */
  const finished = new Set<unknown>();
  let outcome: StreamOutcome = "failed";
  let badEvents = 0;
  let hasContent = false;
  /**
   * `[DONE]`, preceded by the usage if the client requested it and the upstream sent it too early or only together with
   * choices.
   */
  let done = DONE;
  /** The shared prefix as the upstream writes it, and `data: ` plus the same with the public model name. */
  let prefix: { theirs: Uint8Array; ours: Part } | null = null;

  function read(bytes: Uint8Array, start: number, end: number): EventVerdict {
    const { type, data } = readEvent(bytes, start, end);
    if (data === null) return DROPPED;
    if (isDone(data)) return readDone();
    const isNamedError = type !== null && isErrorName(type);
    // Data of several lines was joined into a separate array and needs the general path.
    const mayHavePrefix = hasContent && !isNamedError && data.bytes === bytes;
    const verdict = mayHavePrefix ? readPlain(bytes, data.start, data.end) : null;
    return verdict ?? readAny(copyBytes(data.bytes, data.start, data.end), isNamedError);
  }

  /** A search runs to the end of the array. If many more events follow in it, a view of this one is faster. */
  function readPlain(bytes: Uint8Array, start: number, end: number): EventVerdict | null {
    return bytes.length - end > FOLLOWING_BYTES_MAX
      ? readWithPrefix(bytes.subarray(start, end), 0, end - start)
      : readWithPrefix(bytes, start, end);
  }

  function readDone(): EventVerdict {
    // An upstream that sends `[DONE]` without any content has failed.
    if (finished.size === 0 && !hasContent) {
      return { phase: "failed", error: { code: null, type: null, param: null, message: "" } };
    }
    outcome = "completed";
    return { phase: "terminal", replacement: wholePart(done) };
  }

  /**
   * The common case: a chunk with the shared prefix and without usage or error. Returns null otherwise. In JSON a quote
   * inside a string is escaped, so a field name in quotes is found without parsing.
   */
  function readWithPrefix(bytes: Uint8Array, start: number, end: number): EventVerdict | null {
    if (prefix === null) return null;
    const { theirs, ours } = prefix;
    const from = start + theirs.length;
    if (from > end || !startsWithAt(bytes, start, theirs) || bytes[end - 1] !== OBJECT_CLOSE) return null;
    if (isWithin(bytes, ERROR, from, end)) return null;
    let to = end;
    if (startsWithAt(bytes, end - USAGE_NULL_AT_END.length, USAGE_NULL_AT_END)) {
      if (hidesUsage) to -= USAGE_NULL_AT_END.length;
    } else if (isWithin(bytes, USAGE, from, end)) {
      return null;
    }
    isUsageOld = true;
    noteFinished(bytes, from, start, end);
    if (sink !== null) noteText(bytes, from, start, end, sink);
    // This line is the last of the event, so the blank line after it can be forwarded with it.
    const isLast = to === end && bytes[end + 1] === LF;
    const replacement = isLast
      ? [ours, { bytes, start: from, end: end + 2 }]
      : [ours, { bytes, start: from, end: to }, to === end ? BLANK_LINE : CLOSE_AND_END];
    return { phase: "content", replacement };
  }

  function readAny(chunk: Uint8Array, isNamedError: boolean): EventVerdict {
    const scan = scanObject(chunk, 0, chunk.length, CHUNK, { depthMax });
    if (!scan.ok) {
      badEvents++;
      return DROPPED;
    }
    const { model, usage: counted, error, choices } = scan.fields;
    if (isNamedError || (error && error.kind !== "null") || isError(chunk, scan.fields)) {
      isUsageLast = counted?.kind === "object" && takeUsage(parseJson(chunk, counted.start, counted.end));
      return readError(chunk);
    }
    isUsageOld = true;
    const isCounted = counted?.kind === "object";
    if (isCounted) takeUsage(parseJson(chunk, counted.start, counted.end));
    const empty = choices === undefined || isEmptyArray(chunk, choices);
    if (isCounted && empty && hidesUsage) return DROPPED;
    noteFinished(chunk, 0, 0, chunk.length);
    if (sink !== null) noteText(chunk, 0, 0, chunk.length, sink);
    const name = jsonString(publicModel);
    if (model?.kind === "string" && isRepeatable(chunk, model, counted)) learnPrefix(chunk, model, name);
    const named = model?.kind === "string" ? { model: name } : {};
    const isWithChoices = isCounted && !empty;
    if (isCounted && !hidesUsage) {
      const isEarly = isWithChoices || finished.size < options.choices;
      const alone = { ...named, ...(isWithChoices ? { choices: NO_CHOICES } : {}) };
      const edits = [...editMembers(chunk, scan, alone), ...errorsIn(chunk, undefined)];
      const json = isEarly ? spliceParts(chunk, edits) : null;
      done = json === null ? DONE : joinParts([...eventParts(null, json), DONE_PART]);
      if (isEarly && !isWithChoices) return DROPPED;
    }
    const usageEdit = hidesUsage && counted ? { usage: null } : isWithChoices ? { usage: JSON_NULL } : {};
    const edits = editMembers(chunk, scan, { ...named, ...usageEdit });
    edits.push(...errorsIn(chunk, choices));
    const json = spliceParts(chunk, edits);
    if (!hasContent && choices !== undefined) {
      hasContent = hasDeltaContent(parseJson(chunk, choices.start, choices.end));
    }
    return { phase: hasContent ? "content" : "lifecycle", replacement: eventParts(null, json) };
  }

  const errorsIn = (chunk: Uint8Array, choices: JsonField | undefined) =>
    rewriteInnerErrors(wholeBytesPart(chunk), choices, depthMax, noMessage);

  function readError(chunk: Uint8Array): EventVerdict {
    const json = parseJson(chunk);
    const upstreamError = readUpstreamError(json) ?? readUpstreamError({ error: json });
    return { phase: "failed", error: upstreamError ?? { code: null, type: null, param: null, message: "" } };
  }

  function learnPrefix(chunk: Uint8Array, model: JsonField, name: Uint8Array): void {
    if (prefix !== null && startsWithAt(chunk, 0, prefix.theirs)) return;
    const ours = joinParts([DATA_FIELD, { bytes: chunk, start: 0, end: model.start }, wholeBytesPart(name)]);
    prefix = { theirs: copyBytes(chunk, 0, model.end), ours: wholeBytesPart(ours) };
  }

  function takeUsage(json: unknown): boolean {
    const reported = readUsage(json);
    if (reported === null) return false;
    usage = reported;
    isUsageOld = false;
    return true;
  }

  function noteFinished(bytes: Uint8Array, from: number, start: number, end: number): void {
    if (!hasFinishReason(bytes, from, end)) return;
    for (const choice of choicesIn(parseJson(bytes, start, end))) {
      if (typeof choice.finish_reason === "string") finished.add(choice.index);
    }
  }

  function noteText(bytes: Uint8Array, from: number, start: number, end: number, to: TextSink): void {
    const at = findBytes(bytes, DELTA, from);
    if (at === -1 || at >= end) return;
    if (options.choices === 1) {
      addChatDelta(bytes, at + DELTA.length, end, 0, to);
      return;
    }
    // Deltas of several choices are mixed, and the index may be before or after the delta.
    for (const { index, delta } of choicesIn(parseJson(bytes, start, end))) {
      const json = Buffer.from(JSON.stringify(delta ?? {}));
      addChatDelta(json, 0, json.length, typeof index === "number" ? index : 0, to);
    }
  }

  return {
    read,
    saidEverything() {
      const all = finished.size >= options.choices;
      if (all) outcome = "completed";
      return all;
    },
    isEnding: () => finished.size >= options.choices,
    // `[DONE]` is the terminal event itself. It is added if an upstream omits it after a complete response.
    get done() {
      return done;
    },
    failure: (error: ApiError, requestId: string) =>
      formatEvent(null, JSON.stringify({ error: errorObject(error, requestId) })),
    stillWorking: () => null,
    // Some upstreams report usage with every chunk, or zeros at first. It is final only after the finish reasons.
    get usage() {
      const isEarly = !isUsageLast && (isUsageOld || finished.size === 0);
      return usage !== null && isEarly ? { ...usage, isEarly } : usage;
    },
    images: 0,
    imageKind: null,
    responseId: null,
    get outcome() {
      return outcome;
    },
    get badEvents() {
      return badEvents;
    },
  };
}

/** A prefix that contains usage or an error must be read each time. */
function isRepeatable(chunk: Uint8Array, model: JsonField, usage: JsonField | undefined): boolean {
  return !(usage && usage.start < model.start) && !isWithin(chunk, ERROR, 0, model.end);
}

/** The audience of the message is not known here. */
const noMessage = () => "";

/** The first chunk usually has only a role: content begins with the first delta that is not empty. */
function hasDeltaContent(choices: unknown): boolean {
  return objectsIn(choices).some((choice) => {
    const delta = choice.delta;
    if (!isObject(delta)) return false;
    return Object.entries(delta).some(([field, value]) => field !== "role" && !isNothing(value));
  });
}

function isNothing(value: unknown): boolean {
  return value === null || value === "" || (Array.isArray(value) && value.length === 0);
}

function choicesIn(chunk: unknown): Record<string, unknown>[] {
  return isObject(chunk) ? objectsIn(chunk.choices) : [];
}

function objectsIn(array: unknown): Record<string, unknown>[] {
  return Array.isArray(array) ? array.filter(isObject) : [];
}

/** Nearly every chunk has the field, nearly always null: only a string is worth parsing for. */
function hasFinishReason(bytes: Uint8Array, from: number, end: number): boolean {
  for (
    let at = findBytes(bytes, FINISH_REASON, from);
    at !== -1 && at < end;
    at = findBytes(bytes, FINISH_REASON, at)
  ) {
    at += FINISH_REASON.length;
    while (bytes[at] === 0x3a || bytes[at] === 0x20) at++;
    if (bytes[at] === QUOTE) return true;
  }
  return false;
}

function isWithin(bytes: Uint8Array, needle: Uint8Array, from: number, end: number): boolean {
  const at = findBytes(bytes, needle, from);
  return at !== -1 && at < end;
}

const ERROR_NAME = Buffer.from("error");

/** Chunks have no event name: an event named `error` is an error in any format. */
function isErrorName({ bytes, start, end }: Part): boolean {
  return end - start === ERROR_NAME.length && startsWithAt(bytes, start, ERROR_NAME);
}

/** Errors of vLLM and others, whose fields are at the top level. */
function isError(chunk: Uint8Array, { object, type, choices }: ChunkFields): boolean {
  if (choices !== undefined) return false;
  return [object, type].some((field) => field !== undefined && stringValue(chunk, field) === "error");
}

function isEmptyArray(bytes: Uint8Array, { start, end }: JsonField): boolean {
  return bytes[start] === ARRAY_OPEN && skipSpace(bytes, start + 1, end) === end - 1;
}
