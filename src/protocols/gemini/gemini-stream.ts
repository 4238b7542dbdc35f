/**
 * Reads the events of a Gemini stream that passes through. Each event is a whole response with new parts. There is no
 * end marker: the last event has the finish reason and the usage, and then the upstream closes.
 */

import { findBytes } from "../../base/bytes.ts";
import type { Part } from "../../base/parts.ts";
import { responseBounds } from "../../count-limits.ts";
import type { ApiError } from "../../errors.ts";
import { isObject } from "../../json/parse.ts";
import { type JsonField, type ObjectScan, scanObject, stringValue, wantedFields } from "../../json/scan.ts";
import { jsonString, replaceValue, spliceParts } from "../../json/splice.ts";
import { readEvent } from "../../net/wire/sse.ts";
import { eventParts, formatEvent } from "../../net/wire/sse-format.ts";
import { isEventString, LongString, parseWithoutLongStrings, textContent } from "../shared/long-strings.ts";
import { choiceIndex, type ResponseFacts, shortReason } from "../shared/response-facts.ts";
import {
  DROPPED,
  type EventVerdict,
  reasoningChannel,
  type StreamOutcome,
  type StreamReader,
  type TextSink,
} from "../shared/stream.ts";
import { readFailure, UNKNOWN_ERROR } from "../shared/upstream-error.ts";
import type { TokenUsage } from "../shared/usage.ts";
import { countQueries, withQueries } from "../shared/web-searches.ts";
import { readGeminiUsage } from "./gemini-usage.ts";
import { googleErrorBody } from "./google-error-body.ts";

const CHUNK_FIELDS = [
  "candidates",
  "usageMetadata",
  "modelVersion",
  "responseId",
  "promptFeedback",
  "error",
] as const;
const CHUNK = wantedFields(CHUNK_FIELDS);
type ChunkScan = ObjectScan<(typeof CHUNK_FIELDS)[number]>;

const FINISH_REASON = Buffer.from('"finishReason"');
const BLOCK_REASON = Buffer.from('"blockReason"');
/** Text, calls. The channel of a thought is that of its text, in the negative. */
const CHANNELS_PER_CANDIDATE = 2;

interface GeminiReaderOptions {
  readonly publicModel: string;
  readonly choices: number;
  readonly depthMax: number;
  readonly sink?: TextSink | null | undefined;
}

export function openGeminiReader(options: GeminiReaderOptions): StreamReader {
  return new GeminiReader(options);
}

class GeminiReader implements StreamReader {
  readonly endMarker = null;
  outcome: StreamOutcome = "failed";
  badEvents = 0;

  readonly #publicModelJson: Uint8Array;
  readonly #choices: number;
  readonly #depthMax: number;
  readonly #sink: TextSink | null;
  readonly #finishedCandidates = new Set<number>();
  #usage: TokenUsage | null = null;
  /** Of each candidate. */
  readonly #searches = new Map<number, number>();
  #modelVersion: string | null = null;
  #id: string | null = null;
  readonly #finishReasons: string[] = [];
  #hasContent = false;
  /** A finish reason other than the normal one, or a blocked prompt: a response even if it has no content. */
  #wasStopped = false;

  constructor(options: GeminiReaderOptions) {
    this.#publicModelJson = jsonString(options.publicModel);
    this.#choices = options.choices;
    this.#depthMax = options.depthMax;
    this.#sink = options.sink ?? null;
  }

  read(bytes: Uint8Array, start: number, end: number): EventVerdict {
    const { data } = readEvent(bytes, start, end);
    if (data === null) return DROPPED;
    const scan = scanObject(data.bytes, data.start, data.end, CHUNK, { depthMax: this.#depthMax });
    if (!scan.ok) {
      this.badEvents++;
      return DROPPED;
    }
    const { error } = scan.fields;
    if (error !== undefined && error.kind !== "null") return { phase: "failed", error: readFailure(data) };
    return this.#readChunk(data, scan);
  }

  #readChunk(data: Part, scan: ChunkScan): EventVerdict {
    const { usageMetadata, promptFeedback, candidates, modelVersion, responseId } = scan.fields;
    if (responseId !== undefined) this.#id ??= stringValue(data.bytes, responseId);
    if (modelVersion !== undefined) this.#modelVersion ??= stringValue(data.bytes, modelVersion);
    if (usageMetadata?.kind === "object")
      this.#usage =
        readGeminiUsage(parseWithoutLongStrings(data.bytes, usageMetadata.start, usageMetadata.end)) ??
        this.#usage;
    const isBlocked = promptFeedback !== undefined && hasMember(data.bytes, promptFeedback, BLOCK_REASON);
    if (isBlocked && candidates === undefined) this.#wasStopped = true;
    if (candidates?.kind === "array") this.#readCandidates(data.bytes, candidates);
    const replacement = this.#buildPublicChunk(data, scan);
    const isFinished = this.#finishedCandidates.size >= this.#choices;
    if (!this.#hasContent) {
      // Gemini sometimes finishes normally without any part: another account may do better.
      if (isFinished && !this.#wasStopped) return { phase: "failed", error: UNKNOWN_ERROR };
      return { phase: this.#wasStopped ? "content" : "lifecycle", replacement };
    }
    if (!isFinished || usageMetadata === undefined) return { phase: "content", replacement };
    this.outcome = this.#wasStopped ? "incomplete" : "completed";
    return { phase: "terminal", replacement };
  }

  #buildPublicChunk({ bytes, start, end }: Part, { fields }: ChunkScan): readonly Part[] | null {
    const { modelVersion } = fields;
    if (modelVersion?.kind !== "string") return null;
    const splices = [replaceValue(modelVersion, this.#publicModelJson)];
    return eventParts(null, spliceParts(bytes, splices, start, end));
  }

  /** The candidates are parsed only where they matter: before the first content, at the end, and to count their text. */
  #readCandidates(bytes: Uint8Array, field: JsonField): void {
    const mayFinish = hasMember(bytes, field, FINISH_REASON);
    if (this.#hasContent && !mayFinish && this.#sink === null) return;
    const candidates = parseWithoutLongStrings(bytes, field.start, field.end);
    for (const [at, candidate] of (Array.isArray(candidates) ? candidates : []).entries()) {
      if (isObject(candidate)) this.#readCandidate(candidate, at);
    }
  }

  #readCandidate(candidate: Record<string, unknown>, at: number): void {
    const { content, finishReason } = candidate;
    const index = choiceIndex(candidate.index);
    const searches = countQueries(candidate);
    const isCounted = this.#searches.has(index) || this.#searches.size < responseBounds.choicesMax;
    if (searches > 0 && isCounted) this.#searches.set(index, searches);
    const parts = isObject(content) && Array.isArray(content.parts) ? content.parts.filter(isObject) : [];
    for (const part of parts) {
      if (part.text !== "") this.#hasContent = true;
      if (this.#sink !== null) addPartText(part, at, this.#sink);
    }
    if (typeof finishReason !== "string" || finishReason === "") return;
    if (this.#finishedCandidates.size < responseBounds.choicesMax) {
      if (!this.#finishedCandidates.has(index)) this.#finishReasons.push(shortReason(finishReason));
      this.#finishedCandidates.add(index);
    }
    if (finishReason !== "STOP") this.#wasStopped = true;
  }

  isCompleteWithoutTerminal(how: "closed" | "broke off"): boolean {
    const isBlocked = this.#wasStopped && !this.#hasContent && how === "closed";
    if (!isBlocked && !this.isEnding()) return false;
    this.outcome = this.#wasStopped ? "incomplete" : "completed";
    return true;
  }

  isEnding(): boolean {
    return this.#finishedCandidates.size >= this.#choices;
  }

  failure(error: ApiError, requestId: string): Uint8Array {
    return formatEvent(null, JSON.stringify(googleErrorBody(error, requestId)));
  }

  describe(): ResponseFacts {
    return { id: this.#id, model: this.#modelVersion, finishReasons: this.#finishReasons };
  }

  progressEvent(): null {
    return null;
  }

  /** Every event may carry the usage so far. It is final only after the finish reasons. */
  get usage(): TokenUsage | null {
    const searches = [...this.#searches.values()].reduce((sum, count) => sum + count, 0);
    const usage = withQueries(this.#usage, searches, this.#modelVersion);
    return usage !== null && !this.isEnding() && !this.#wasStopped ? { ...usage, isEarly: true } : usage;
  }
}

/** In JSON a quote inside a string is escaped, so a member name in quotes is found without parsing. */
function hasMember(bytes: Uint8Array, { start, end }: JsonField, name: Uint8Array): boolean {
  return findBytes(bytes, name, start, end) !== -1;
}

/** The sink takes the content of JSON strings. */
function addPartText(part: Record<string, unknown>, candidate: number, sink: TextSink): void {
  const channel = candidate * CHANNELS_PER_CANDIDATE;
  if (isEventString(part.text)) {
    const { bytes, start, end } = textContent(part.text);
    sink.add(bytes, start, end, part.thought === true ? reasoningChannel(channel) : channel);
  }
  if (!isObject(part.functionCall)) return;
  const { name, args } = part.functionCall;
  const long: LongString[] = [];
  const json = JSON.stringify(args ?? {}, (_, value: unknown) => {
    if (!(value instanceof LongString)) return value;
    long.push(value);
    return "";
  });
  for (const text of [name, json, ...long].filter(isEventString)) {
    const { bytes, start, end } = textContent(text);
    sink.addWhole(bytes, start, end, channel + 1);
  }
}
