/**
 * Reads an upstream's stream in its dialect and replaces each event by the client's. To the relay it is a stream reader
 * like any other, so hold-back, metering and settlement work as for streams that pass through.
 */

import { decodeText } from "../../base/bytes.ts";
import { type Part, wholePart } from "../../base/parts.ts";
import { JSON_DEPTH_MAX, responseBounds } from "../../count-limits.ts";
import type { ApiError } from "../../errors.ts";
import { jsonString } from "../../json/splice.ts";
import { readEvent } from "../../net/wire/sse.ts";
import { writeFinishReason } from "../../protocols/chat/chat-hub-writer.ts";
import type { HubStreamReader, HubStreamWriter } from "../../protocols/hub/dialect-codec.ts";
import type { HubEvent, HubStop, OutputItem, StartedItem } from "../../protocols/hub/hub-response.ts";
import { ItemCollector } from "../../protocols/hub/item-collector.ts";
import { ResponseBoundError, ResponseBounds } from "../../protocols/hub/response-bounds.ts";
import { opaqueText } from "../../protocols/hub/sealed-state.ts";
import { NO_FACTS, type ResponseFacts } from "../../protocols/shared/response-facts.ts";
import {
  DROPPED,
  type EventVerdict,
  reasoningChannel,
  type StreamOutcome,
  type StreamReader,
  type TextSink,
} from "../../protocols/shared/stream.ts";
import type { UpstreamError } from "../../protocols/shared/upstream-error.ts";
import type { TokenUsage } from "../../protocols/shared/usage.ts";
import { isTooDeep } from "./json-depth.ts";

const utf8 = new TextEncoder();
const { streamBytesMax, eventTextCharsMax } = responseBounds;

interface TranslatedReaderOptions {
  readonly upstream: HubStreamReader;
  readonly writer: HubStreamWriter;
  readonly sink: TextSink | null;
  /** The client's dialect has a status for responses that were cut off. */
  readonly reportsIncomplete: boolean;
  /** Called before the terminal event is returned; null if the response is not stored. */
  readonly onComplete: ((complete: CompleteResponse) => void) | null;
  /** Whether the translation dropped something of the response. */
  hasLosses(): boolean;
  /** Called at the end of a complete response. */
  readonly onUsage: (usage: TokenUsage | null) => void;
}

export interface CompleteResponse {
  readonly output: readonly OutputItem[];
  readonly usage: TokenUsage | null;
  /** The response object as the client receives it: JSON. */
  readonly response: string;
}

interface TranslatedEvents {
  /** For the client. */
  readonly text: string;
  readonly error: UpstreamError | null;
  readonly isTerminal: boolean;
}

export class TranslatedReader implements StreamReader {
  readonly badEvents = 0;
  outcome: StreamOutcome = "failed";
  usage: TokenUsage | null = null;
  endMarker: Uint8Array | null = null;
  mayBeEmpty = false;
  readonly #options: TranslatedReaderOptions;
  readonly #collector: ItemCollector | null;
  #facts = NO_FACTS;
  #item: StartedItem | null = null;
  #hasContent = false;
  #isEnding = false;
  #bytes = 0;
  /** What the writer and the collector keep. */
  readonly #bounds = new ResponseBounds();

  constructor(options: TranslatedReaderOptions) {
    this.#options = options;
    this.#collector = options.onComplete === null ? null : new ItemCollector();
  }

  read(bytes: Uint8Array, start: number, end: number): EventVerdict {
    try {
      return this.#read(bytes, start, end);
    } catch (error) {
      if (error instanceof ResponseBoundError) return { phase: "failed", error: error.upstreamError };
      throw error;
    }
  }

  #read(bytes: Uint8Array, start: number, end: number): EventVerdict {
    const { type, data } = readEvent(bytes, start, end);
    if (data === null) return DROPPED;
    this.#bytes += end - start;
    if (this.#bytes > streamBytesMax) throw new ResponseBoundError(streamBytesMax, "bytes");
    if (isTooDeep(data)) throw new ResponseBoundError(JSON_DEPTH_MAX, "levels of nesting");
    const name = type === null ? null : decodeText(type.bytes, type.start, type.end);
    const events = this.#options.upstream.read(decodeText(data.bytes, data.start, data.end), name);
    if (events.length === 0) return DROPPED;
    const { text, error, isTerminal } = this.#translate(events);
    if (error !== null) return { phase: "failed", error };
    if (isTerminal) return { phase: "terminal", replacement: wholePart(utf8.encode(text)) };
    if (text === "") return DROPPED;
    const replacement: readonly Part[] = wholePart(utf8.encode(text));
    return { phase: this.#hasContent ? "content" : "lifecycle", replacement };
  }

  isCompleteWithoutTerminal(how: "closed" | "broke off"): boolean {
    if (how === "broke off") return false;
    try {
      const { text, error, isTerminal } = this.#translate(this.#options.upstream.close());
      if (error !== null || !isTerminal) return false;
      this.endMarker = utf8.encode(text);
      return true;
    } catch (error) {
      if (error instanceof ResponseBoundError) return false;
      throw error;
    }
  }

  isEnding(): boolean {
    return this.#isEnding;
  }

  describe(): ResponseFacts {
    return this.#facts;
  }

  progressEvent(): Uint8Array | null {
    const event = this.#options.writer.keepAlive();
    return event === null ? null : utf8.encode(event);
  }

  failure(error: ApiError, requestId: string): Uint8Array {
    return utf8.encode(this.#options.writer.fail(error, requestId));
  }

  #translate(events: readonly HubEvent[]): TranslatedEvents {
    let text = "";
    let isTerminal = false;
    for (const event of joinDeltas(events)) {
      if (event.type === "error") return { text, error: event.error, isTerminal };
      this.#bounds.addText(countChars(event));
      this.#note(event);
      isTerminal ||= event.type === "end";
      text += this.#options.writer.write(event);
      if (event.type === "end") this.#complete();
    }
    return { text, error: null, isTerminal };
  }

  #note(event: Exclude<HubEvent, { type: "error" }>): void {
    this.#collector?.add(event);
    this.#isEnding = event.type === "item_end" || (this.#isEnding && event.type === "usage");
    switch (event.type) {
      case "start":
        this.#facts = { id: event.responseId, model: event.model ?? null, finishReasons: [] };
        return;
      case "item_start":
        this.#item = event.item;
        if (event.item.kind === "call") {
          this.#hasContent = true;
          this.#count(event.item.name, "whole");
        }
        return;
      case "delta":
        this.#hasContent = true;
        this.#count(event.text, "piece");
        return;
      case "usage":
        this.usage = event.usage;
        return;
      case "end":
        this.mayBeEmpty = isEmptyStop(event.stop) || this.#options.hasLosses();
        this.outcome =
          this.#options.reportsIncomplete && isIncomplete(event.stop) ? "incomplete" : "completed";
        this.#facts = { ...this.#facts, finishReasons: [writeFinishReason(event.stop)] };
        return;
    }
  }

  #complete(): void {
    const { onComplete, onUsage, writer } = this.#options;
    onUsage(this.usage);
    const response = writer.completeResponse?.() ?? null;
    if (onComplete === null || response === null) return;
    onComplete({ output: this.#collector?.items ?? [], usage: this.usage, response });
  }

  #count(text: string, kind: "whole" | "piece"): void {
    const { sink } = this.#options;
    if (sink === null) return;
    const json = jsonString(text);
    const channel = chooseChannel(this.#item);
    if (kind === "whole") sink.addWhole(json, 1, json.length - 1, channel);
    else sink.add(json, 1, json.length - 1, channel);
  }
}

/** Pieces of one item in one event are one piece: a client's event is many times as long as a short piece. */
function joinDeltas(events: readonly HubEvent[]): readonly HubEvent[] {
  const joined: HubEvent[] = [];
  let pieces: string[] = [];
  const flush = () => {
    if (pieces.length > 0) joined.push({ type: "delta", text: pieces.join("") });
    pieces = [];
  };
  for (const event of events) {
    if (event.type === "delta") pieces.push(event.text);
    else {
      flush();
      joined.push(event);
    }
  }
  flush();
  return joined;
}

function countChars(event: HubEvent): number {
  switch (event.type) {
    case "delta":
      if (event.text.length > eventTextCharsMax)
        throw new ResponseBoundError(eventTextCharsMax, "characters in one event");
      return event.text.length;
    case "item_start":
      if (event.item.kind === "call") return event.item.callId.length + event.item.name.length;
      return event.item.kind === "search" ? event.item.query.length + sumChars(event.item.urls) : 0;
    case "item_end":
      return (
        (event.opaque === null ? 0 : opaqueText(event.opaque).length) +
        (event.citations ?? []).reduce((sum, { url, title }) => sum + url.length + title.length, 0)
      );
    default:
      return 0;
  }
}

function sumChars(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + text.length, 0);
}

const TEXT_CHANNEL = 0;
const REASONING_CHANNEL = reasoningChannel(1);
const REFUSAL_CHANNEL = 2;
const INPUT_CHANNEL = 3;

function chooseChannel(item: StartedItem | null): number {
  switch (item?.kind) {
    case "reasoning":
      return REASONING_CHANNEL;
    case "refusal":
      return REFUSAL_CHANNEL;
    case "call":
      return INPUT_CHANNEL;
    default:
      return TEXT_CHANNEL;
  }
}

/** The reason for the end explains that there is no output. */
export function isEmptyStop(stop: HubStop): boolean {
  return stop === "filtered" || stop === "failed";
}

function isIncomplete(stop: HubStop): boolean {
  return stop === "length" || stop === "context" || stop === "filtered";
}
