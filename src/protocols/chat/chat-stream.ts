/**
 * Reads the chunks of a Chat Completions stream. All chunks of one response begin with the same bytes up to the model
 * name, so this prefix is computed once and replaced in later chunks.
 */

import { copyBytes, findBytes, startsWithAt } from "../../base/bytes.ts";
import { joinParts, type Part, wholeBytesPart, wholePart } from "../../base/parts.ts";
import { responseBounds } from "../../count-limits.ts";
import { type ApiError, errorObject } from "../../errors.ts";
import { parseJson } from "../../json/parse.ts";
import { type JsonField, scanObject, stringValue } from "../../json/scan.ts";
import { editMembers, jsonString, type Splice, spliceParts } from "../../json/splice.ts";
import { LF, OBJECT_CLOSE } from "../../json/walk.ts";
import { isDone, readEvent } from "../../net/wire/sse.ts";
import { BLANK_LINE, DATA_FIELD, DONE, eventParts, formatEvent } from "../../net/wire/sse-format.ts";
import { addChatDelta } from "../shared/delta-text.ts";
import { isLongEvent, parseWithoutLongStrings } from "../shared/long-strings.ts";
import {
  choiceIndex,
  NO_FACTS,
  type ResponseFacts,
  readResponseFacts,
  shortReason,
} from "../shared/response-facts.ts";
import {
  DROPPED,
  type EventVerdict,
  type StreamOutcome,
  type StreamReader,
  type TextSink,
} from "../shared/stream.ts";
import { UNKNOWN_ERROR } from "../shared/upstream-error.ts";
import { readUsage, type TokenUsage, withTier } from "../shared/usage.ts";
import { withImpliedSearch } from "../shared/web-searches.ts";
import {
  CHUNK,
  type ChunkScan,
  containsBytes,
  hasDeltaContent,
  hasFinishReason,
  isEmptyArray,
  isErrorName,
  isErrorObject,
  isRepeatable,
  listChoices,
  listObjects,
  mentionsError,
  readError,
  readGroqUsage,
} from "./chat-chunk.ts";
import { rewriteInnerErrors } from "./inner-errors.ts";

const CLOSE_AND_END = wholeBytesPart(Buffer.from("}\n\n"));
const DONE_PART = wholeBytesPart(DONE);
const CLOSE = Buffer.from("}");
const JSON_NULL = Buffer.from("null");
const NO_CHOICES = Buffer.from("[]");
const USAGE = Buffer.from('"usage"');
const USAGE_NULL_AT_END = Buffer.from(',"usage":null}');
const DELTA = Buffer.from('"delta"');
const FOLLOWING_EVENTS_BYTES_MAX = 2_048;

export interface ChatReaderOptions {
  publicModel: string;
  hidesUsage: boolean;
  choices: number;
  depthMax: number;
  sink?: TextSink | null | undefined;
}

export function openChatReader(options: ChatReaderOptions): StreamReader {
  return new ChatReader(options);
}

/** The bytes that the chunks of one response have in common, up to the end of the model name. */
interface SharedPrefix {
  /** As the upstream writes it. */
  readonly upstreamPrefix: Uint8Array;
  /** `data: ` and the same with the public model name. */
  readonly publicPrefix: Part;
}

interface ScannedChunk {
  readonly bytes: Uint8Array;
  readonly scan: ChunkScan;
  readonly hasUsage: boolean;
  readonly hasChoices: boolean;
}

class ChatReader implements StreamReader {
  outcome: StreamOutcome = "failed";
  badEvents = 0;

  readonly #publicModelJson: Uint8Array;
  readonly #hidesUsage: boolean;
  readonly #choices: number;
  readonly #depthMax: number;
  readonly #sink: TextSink | null;
  #usage: TokenUsage | null = null;
  /** As the latest chunk with a tier that was read in full reports it. */
  #tier: string | null = null;
  /** Outdated if content followed the usage, final if the usage arrived with the error that ended the response. */
  #usageState: "outdated" | "current" | "final" = "current";
  readonly #finishedChoices = new Set<number>();
  readonly #finishReasons: string[] = [];
  #hasContent = false;
  /** `[DONE]`, after the usage if the upstream sent that too early or only together with choices. */
  #done: Uint8Array = DONE;
  #prefix: SharedPrefix | null = null;

  constructor(options: ChatReaderOptions) {
    this.#publicModelJson = jsonString(options.publicModel);
    this.#hidesUsage = options.hidesUsage;
    this.#choices = options.choices;
    this.#depthMax = options.depthMax;
    this.#sink = options.sink ?? null;
  }

  read(bytes: Uint8Array, start: number, end: number): EventVerdict {
    const { type, data } = readEvent(bytes, start, end);
    if (data === null) return DROPPED;
    if (isDone(data)) return this.#readDone();
    // Data of several lines was joined into a separate array and needs the general path.
    if (this.#hasContent && !isErrorName(type) && data.bytes === bytes) {
      const verdict = this.#readPlain(bytes, data.start, data.end);
      if (verdict !== null) return verdict;
    }
    return this.#readAny(copyBytes(data.bytes, data.start, data.end), type);
  }

  /** A search runs to the end of the array. If many more events follow in it, a view of this one is faster. */
  #readPlain(bytes: Uint8Array, start: number, end: number): EventVerdict | null {
    return bytes.length - end > FOLLOWING_EVENTS_BYTES_MAX
      ? this.#readWithPrefix(bytes.subarray(start, end), 0, end - start)
      : this.#readWithPrefix(bytes, start, end);
  }

  #readDone(): EventVerdict {
    // An upstream that sends `[DONE]` without any content has failed.
    if (this.#finishedChoices.size === 0 && !this.#hasContent) {
      return { phase: "failed", error: UNKNOWN_ERROR };
    }
    this.outcome = "completed";
    return { phase: "terminal", replacement: wholePart(this.#done) };
  }

  /**
   * The common case: a chunk with the shared prefix and without usage or error. Returns null otherwise. In JSON a quote
   * inside a string is escaped, so a field name in quotes is found without parsing.
   */
  #readWithPrefix(bytes: Uint8Array, start: number, end: number): EventVerdict | null {
    if (this.#prefix === null) return null;
    const { upstreamPrefix, publicPrefix } = this.#prefix;
    const from = start + upstreamPrefix.length;
    if (from > end || !startsWithAt(bytes, start, upstreamPrefix)) return null;
    if (bytes[end - 1] !== OBJECT_CLOSE || mentionsError(bytes, from, end)) return null;
    let to = end;
    if (startsWithAt(bytes, end - USAGE_NULL_AT_END.length, USAGE_NULL_AT_END)) {
      if (this.#hidesUsage) to -= USAGE_NULL_AT_END.length;
    } else if (containsBytes(bytes, USAGE, from, end)) {
      return null;
    }
    this.#usageState = "outdated";
    if (hasFinishReason(bytes, from, end))
      this.#recordFinishedChoices(listChoices(parseWithoutLongStrings(bytes, start, end)));
    this.#addText(bytes, from, start, end);
    // This line is the last of the event, so the blank line after it can be forwarded with it.
    const isLast = to === end && bytes[end + 1] === LF;
    const replacement = isLast
      ? [publicPrefix, { bytes, start: from, end: end + 2 }]
      : [publicPrefix, { bytes, start: from, end: to }, to === end ? BLANK_LINE : CLOSE_AND_END];
    return { phase: "content", replacement };
  }

  #readAny(bytes: Uint8Array, eventName: Part | null): EventVerdict {
    const scan = scanObject(bytes, 0, bytes.length, CHUNK, { depthMax: this.#depthMax });
    if (!scan.ok) {
      this.badEvents++;
      return DROPPED;
    }
    const { error, usage, choices, service_tier: tier } = scan.fields;
    if (tier !== undefined) this.#tier = stringValue(bytes, tier) ?? this.#tier;
    if (isErrorName(eventName) || (error && error.kind !== "null") || isErrorObject(bytes, scan)) {
      this.#takeUsage(bytes, scan.fields, "final");
      return { phase: "failed", error: readError(bytes) };
    }
    const hasChoices = choices !== undefined && !isEmptyArray(bytes, choices);
    return this.#readChunk({ bytes, scan, hasUsage: usage?.kind === "object", hasChoices });
  }

  #readChunk(chunk: ScannedChunk): EventVerdict {
    const { bytes, hasUsage, hasChoices } = chunk;
    const { model, usage, choices } = chunk.scan.fields;
    this.#usageState = "outdated";
    this.#takeUsage(bytes, chunk.scan.fields, "current");
    if (hasUsage && !hasChoices && this.#hidesUsage) return DROPPED;
    this.#readChoices(bytes, choices);
    this.#addText(bytes, 0, 0, bytes.length);
    if (model?.kind === "string" && isRepeatable(bytes, model, usage)) this.#learnPrefix(bytes, model);
    if (hasUsage && !this.#hidesUsage) {
      const isPostponed = this.#postponeUsage(chunk);
      if (isPostponed && !hasChoices) return DROPPED;
    }
    const replacement = eventParts(null, this.#buildPublicChunk(chunk));
    return { phase: this.#hasContent ? "content" : "lifecycle", replacement };
  }

  /**
   * Usage that arrives too early or together with choices is sent in a separate chunk before `[DONE]`, where clients
   * expect it. Returns whether it is.
   */
  #postponeUsage(chunk: ScannedChunk): boolean {
    const isPostponed = chunk.hasChoices || this.#finishedChoices.size < this.#choices;
    this.#done = isPostponed
      ? joinParts([...eventParts(null, this.#buildUsageChunk(chunk)), DONE_PART])
      : DONE;
    return isPostponed;
  }

  #buildUsageChunk({ bytes, scan, hasChoices }: ScannedChunk): Part[] {
    const choicesEdit = hasChoices ? { choices: NO_CHOICES } : {};
    const edits = editMembers(bytes, scan, { ...this.#modelEdit(scan), ...choicesEdit });
    edits.push(...this.#innerErrorEdits(bytes, undefined));
    return spliceParts(bytes, edits);
  }

  #buildPublicChunk({ bytes, scan, hasUsage, hasChoices }: ScannedChunk): Part[] {
    const { usage, choices } = scan.fields;
    let usageEdit: { usage?: Uint8Array | null } = {};
    // The gateway's own request adds a chunk without choices and `usage: null`. Usage next to choices is what the vendor
    // sends unasked (Groq, Mistral, Moonshot, Perplexity), and its own clients read it there.
    if (this.#hidesUsage) usageEdit = usage && !hasUsage ? { usage: null } : {};
    else if (hasUsage && hasChoices) usageEdit = { usage: JSON_NULL };
    const edits = editMembers(bytes, scan, { ...this.#modelEdit(scan), ...usageEdit });
    edits.push(...this.#innerErrorEdits(bytes, choices));
    return spliceParts(bytes, edits);
  }

  #modelEdit({ fields }: ChunkScan): { model?: Uint8Array } {
    return fields.model?.kind === "string" ? { model: this.#publicModelJson } : {};
  }

  #innerErrorEdits(bytes: Uint8Array, choices: JsonField | undefined): Splice[] {
    return rewriteInnerErrors(wholeBytesPart(bytes), choices, this.#depthMax, genericErrorMessage);
  }

  #learnPrefix(chunk: Uint8Array, model: JsonField): void {
    if (this.#prefix !== null && startsWithAt(chunk, 0, this.#prefix.upstreamPrefix)) return;
    const publicPrefix = joinParts([
      DATA_FIELD,
      { bytes: chunk, start: 0, end: model.start },
      wholeBytesPart(this.#publicModelJson),
    ]);
    this.#prefix = {
      upstreamPrefix: copyBytes(chunk, 0, model.end),
      publicPrefix: wholeBytesPart(publicPrefix),
    };
  }

  #takeUsage(
    chunk: Uint8Array,
    { usage: field, model, x_groq: groq }: ChunkScan["fields"],
    state: "current" | "final",
  ): void {
    const reported =
      field?.kind === "object"
        ? readUsage(parseWithoutLongStrings(chunk, field.start, field.end))
        : readGroqUsage(chunk, groq);
    const usage = withTier(reported, this.#tier);
    if (usage === null) return;
    this.#usage = withImpliedSearch(usage, model === undefined ? null : stringValue(chunk, model));
    this.#usageState = state;
  }

  /** The choices are parsed only where they matter: before the first content and at the end. */
  #readChoices(bytes: Uint8Array, field: JsonField | undefined): void {
    if (field === undefined) return;
    const mayFinish = hasFinishReason(bytes, field.start, field.end);
    if (this.#hasContent && !mayFinish) return;
    const choices = listObjects(parseWithoutLongStrings(bytes, field.start, field.end));
    if (mayFinish) this.#recordFinishedChoices(choices);
    this.#hasContent ||= hasDeltaContent(choices);
  }

  #recordFinishedChoices(choices: readonly Record<string, unknown>[]): void {
    for (const choice of choices) {
      const { finish_reason: reason } = choice;
      if (typeof reason !== "string" || this.#finishedChoices.size >= responseBounds.choicesMax) continue;
      const index = choiceIndex(choice.index);
      if (!this.#finishedChoices.has(index)) this.#finishReasons.push(shortReason(reason));
      this.#finishedChoices.add(index);
    }
  }

  /** The shared prefix has the id and the model: with a brace it is an object. */
  describe(): ResponseFacts {
    const head =
      this.#prefix === null
        ? NO_FACTS
        : readResponseFacts(
            wholeBytesPart(Buffer.concat([this.#prefix.upstreamPrefix, CLOSE])),
            this.#depthMax,
          );
    return { ...head, finishReasons: this.#finishReasons };
  }

  #addText(bytes: Uint8Array, from: number, start: number, end: number): void {
    const sink = this.#sink;
    if (sink === null) return;
    let at = findBytes(bytes, DELTA, from, end);
    if (at === -1) return;
    if (isLongEvent(start, end)) {
      // No model writes as much for several choices at once, so their texts need not be separated. The search continues
      // after each delta: one within another is read already.
      while (at !== -1) {
        const after = addChatDelta(bytes, at + DELTA.length, end, 0, sink);
        at = findBytes(bytes, DELTA, after, end);
      }
      return;
    }
    if (this.#choices === 1) {
      addChatDelta(bytes, at + DELTA.length, end, 0, sink);
      return;
    }
    // Deltas of several choices are mixed, and the index may be before or after the delta.
    for (const { index, delta } of listChoices(parseJson(bytes, start, end))) {
      const json = Buffer.from(JSON.stringify(delta ?? {}));
      addChatDelta(json, 0, json.length, typeof index === "number" ? index : 0, sink);
    }
  }

  isCompleteWithoutTerminal(): boolean {
    const isComplete = this.isEnding();
    if (isComplete) this.outcome = "completed";
    return isComplete;
  }

  isEnding(): boolean {
    return this.#finishedChoices.size >= this.#choices;
  }

  /** `[DONE]` is the terminal event itself. It is added if an upstream omits it after a complete response. */
  get endMarker(): Uint8Array {
    return this.#done;
  }

  failure(error: ApiError, requestId: string): Uint8Array {
    return formatEvent(null, JSON.stringify({ error: errorObject(error, requestId) }));
  }

  progressEvent(): null {
    return null;
  }

  /** Some upstreams report usage with every chunk, or zeros at first. It is final only after the finish reasons. */
  get usage(): TokenUsage | null {
    const isEarly =
      this.#usageState === "outdated" || (this.#usageState === "current" && this.#finishedChoices.size === 0);
    return this.#usage !== null && isEarly ? { ...this.#usage, isEarly } : this.#usage;
  }
}

/** The audience of the message is not known here. */
const genericErrorMessage = () => "";
