/**
 * Chunks of a Chat Completions stream. All chunks of one answer begin alike up to and including the model
 * name, so that beginning is worked out once and later chunks only have it swapped.
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
  type StreamOutcome,
  type StreamReader,
  type TextSink,
  type Verdict,
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
  /** More was said after it. */
  let isUsageOld = false;
  /** It came with the error that ended the answer. */
  let isUsageLast = false;
  /** Indexes of the choices that gave a reason for ending. */
  const finished = new Set<unknown>();
  let outcome: StreamOutcome = "failed";
  let badEvents = 0;
  let hasContent = false;
  /** `[DONE]`, behind the usage where the client asked for it and it has come too early, or beside choices alone. */
  let done = DONE;
  /** The shared beginning as the upstream writes it, and `data: ` + the same with the public name. */
  let beginning: { theirs: Uint8Array; ours: Part } | null = null;

  function read(bytes: Uint8Array, start: number, end: number): Verdict {
    const { type, data } = readEvent(bytes, start, end);
    if (data === null) return DROPPED;
    if (isDone(data)) return readDone();
    const isNamedError = type !== null && isErrorName(type);
    // Data of several lines comes joined in an array of its own, and has to be taken apart again.
    const mayBeAlike = hasContent && !isNamedError && data.bytes === bytes;
    const alike = mayBeAlike ? readPlain(bytes, data.start, data.end) : null;
    return alike ?? readAny(copyBytes(data.bytes, data.start, data.end), isNamedError);
  }

  /** Searches run to the end of the array: where many events came together, each is better off in its own view. */
  function readPlain(bytes: Uint8Array, start: number, end: number): Verdict | null {
    return bytes.length - end > FOLLOWING_BYTES_MAX
      ? readAlike(bytes.subarray(start, end), 0, end - start)
      : readAlike(bytes, start, end);
  }

  function readDone(): Verdict {
    // An upstream that says it is done without having answered anything has failed.
    if (finished.size === 0 && !hasContent) {
      return { phase: "failed", error: { code: null, type: null, param: null, message: "" } };
    }
    outcome = "completed";
    return { phase: "terminal", replacement: wholePart(done) };
  }

  /**
   * The common case: a chunk that begins like the others and carries neither usage nor error. Null if it is
   * not one. In JSON a quote inside a string is escaped, so a field's name in quotes is found without parsing.
   */
  function readAlike(bytes: Uint8Array, start: number, end: number): Verdict | null {
    if (beginning === null) return null;
    const { theirs, ours } = beginning;
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
    // The line is the event's last one, so that its end can go along.
    const isLast = to === end && bytes[end + 1] === LF;
    const replacement = isLast
      ? [ours, { bytes, start: from, end: end + 2 }]
      : [ours, { bytes, start: from, end: to }, to === end ? BLANK_LINE : CLOSE_AND_END];
    return { phase: "content", replacement };
  }

  function readAny(chunk: Uint8Array, isNamedError: boolean): Verdict {
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
    if (model?.kind === "string" && isRepeatable(chunk, model, counted)) learnBeginning(chunk, model, name);
    const named = model?.kind === "string" ? { model: name } : {};
    const isBeside = isCounted && !empty;
    if (isCounted && !hidesUsage) {
      const isEarly = isBeside || finished.size < options.choices;
      const alone = { ...named, ...(isBeside ? { choices: NO_CHOICES } : {}) };
      const edits = [...editMembers(chunk, scan, alone), ...errorsIn(chunk, undefined)];
      const json = isEarly ? spliceParts(chunk, edits) : null;
      done = json === null ? DONE : joinParts([...eventParts(null, json), DONE_PART]);
      if (isEarly && !isBeside) return DROPPED;
    }
    const usageEdit = hidesUsage && counted ? { usage: null } : isBeside ? { usage: JSON_NULL } : {};
    const edits = editMembers(chunk, scan, { ...named, ...usageEdit });
    edits.push(...errorsIn(chunk, choices));
    const json = spliceParts(chunk, edits);
    if (!hasContent && choices !== undefined) {
      hasContent = saysSomething(parseJson(chunk, choices.start, choices.end));
    }
    return { phase: hasContent ? "content" : "lifecycle", replacement: eventParts(null, json) };
  }

  const errorsIn = (chunk: Uint8Array, choices: JsonField | undefined) =>
    rewriteInnerErrors(wholeBytesPart(chunk), choices, depthMax, unsaid);

  function readError(chunk: Uint8Array): Verdict {
    const json = parseJson(chunk);
    const found = readUpstreamError(json) ?? readUpstreamError({ error: json });
    return { phase: "failed", error: found ?? { code: null, type: null, param: null, message: "" } };
  }

  function learnBeginning(chunk: Uint8Array, model: JsonField, name: Uint8Array): void {
    if (beginning !== null && startsWithAt(chunk, 0, beginning.theirs)) return;
    const ours = joinParts([DATA_FIELD, { bytes: chunk, start: 0, end: model.start }, wholeBytesPart(name)]);
    beginning = { theirs: copyBytes(chunk, 0, model.end), ours: wholeBytesPart(ours) };
  }

  function takeUsage(json: unknown): boolean {
    const told = readUsage(json);
    if (told === null) return false;
    usage = told;
    isUsageOld = false;
    return true;
  }

  function noteFinished(bytes: Uint8Array, from: number, start: number, end: number): void {
    if (!givesFinishReason(bytes, from, end)) return;
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
    // Deltas of several choices come mixed: which one it is may be told before the delta or after it.
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
    // `[DONE]` is the terminal event itself; it is added when an upstream that said everything forgot it.
    get done() {
      return done;
    },
    failure: (error: ApiError, requestId: string) =>
      formatEvent(null, JSON.stringify({ error: errorObject(error, requestId) })),
    stillWorking: () => null,
    // Some tell it with every chunk, or zeros at first: at its end an answer has given its reasons.
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

/** A beginning that holds usage or an error has to be read each time. */
function isRepeatable(chunk: Uint8Array, model: JsonField, usage: JsonField | undefined): boolean {
  return !(usage && usage.start < model.start) && !isWithin(chunk, ERROR, 0, model.end);
}

/** Who hears it is not known here. */
const unsaid = () => "";

/** The first chunk usually holds only a role: until a delta has substance, nothing was said. */
function saysSomething(choices: unknown): boolean {
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

/** Nearly every chunk has the field, and nearly always it is null: only a string is worth parsing for. */
function givesFinishReason(bytes: Uint8Array, from: number, end: number): boolean {
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

/** Chunks have no name: what is called an error is one, whatever it looks like. */
function isErrorName({ bytes, start, end }: Part): boolean {
  return end - start === ERROR_NAME.length && startsWithAt(bytes, start, ERROR_NAME);
}

/** The errors of vLLM and others, whose fields stand at the top. */
function isError(chunk: Uint8Array, { object, type, choices }: ChunkFields): boolean {
  if (choices !== undefined) return false;
  return [object, type].some((field) => field !== undefined && stringValue(chunk, field) === "error");
}

function isEmptyArray(bytes: Uint8Array, { start, end }: JsonField): boolean {
  return bytes[start] === ARRAY_OPEN && skipSpace(bytes, start + 1, end) === end - 1;
}
