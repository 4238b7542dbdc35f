/** Reads a Messages stream that passes through. Only `message_start` is changed: it names the model. */

import { decodeText, startsWithAt } from "../../base/bytes.ts";
import type { Part } from "../../base/parts.ts";
import type { ApiError } from "../../errors.ts";
import { isObject } from "../../json/parse.ts";
import { type JsonField, scanObject, stringValue, wantedFields } from "../../json/scan.ts";
import { jsonString, replaceValue, spliceParts } from "../../json/splice.ts";
import { OBJECT_CLOSE } from "../../json/walk.ts";
import { isPlain, readEvent } from "../../net/wire/sse.ts";
import { eventParts, formatEvent } from "../../net/wire/sse-format.ts";
import { addMessagesDelta } from "../shared/delta-text.ts";
import { parseWithoutLongStrings } from "../shared/long-strings.ts";
import type { ResponseFacts } from "../shared/response-facts.ts";
import {
  DROPPED,
  type EventVerdict,
  isEventName,
  PASS_CONTENT,
  type StreamOutcome,
  type StreamReader,
  type TextSink,
} from "../shared/stream.ts";
import { readFailure } from "../shared/upstream-error.ts";
import type { TokenUsage } from "../shared/usage.ts";
import { messagesErrorBody } from "./messages-error.ts";
import { isFinalMessagesUsage, mergeMessagesUsage, readMessagesUsage } from "./messages-usage.ts";

const EVENT = wantedFields(["type", "message", "content_block", "delta", "usage", "error"]);
const MESSAGE = wantedFields(["id", "model", "usage"]);
const DELTA_NAME = Buffer.from("content_block_delta");
/** Written if the upstream closes a complete response without it. */
const MESSAGE_STOP = formatEvent("message_stop", '{"type":"message_stop"}');
export const PING: Uint8Array = formatEvent("ping", '{"type":"ping"}');
/** Blocks that the model writes by their start: the name of a tool is content. */
const CALL_BLOCKS: ReadonlySet<string> = new Set(["tool_use", "server_tool_use", "mcp_tool_use"]);

interface MessagesReaderOptions {
  publicModel: string;
  depthMax: number;
  sink?: TextSink | null | undefined;
}

export function openMessagesReader(options: MessagesReaderOptions): StreamReader {
  return new MessagesReader(options);
}

/**
 * - `waiting`: no content yet
 * - `content`: the last event was content
 * - `between_blocks`: a block has ended; another one or the end may follow
 * - `stopping`: `message_delta` has reported why the model stopped
 * - `stopped`: `message_stop` was read
 */
type Phase = "waiting" | "content" | "between_blocks" | "stopping" | "stopped";

class MessagesReader implements StreamReader {
  responseId: string | null = null;
  outcome: StreamOutcome = "failed";
  badEvents = 0;

  readonly #publicModelJson: Uint8Array;
  readonly #depthMax: number;
  readonly #sink: TextSink | null;
  #phase: Phase = "waiting";
  #model: string | null = null;
  #stopReason: string | null = null;
  /** The counts so far; null before the first report. */
  #usageJson: Readonly<Record<string, unknown>> | null = null;
  #hasFinalUsage = false;

  constructor(options: MessagesReaderOptions) {
    this.#publicModelJson = jsonString(options.publicModel);
    this.#depthMax = options.depthMax;
    this.#sink = options.sink ?? null;
  }

  read(bytes: Uint8Array, start: number, end: number): EventVerdict {
    const event = readEvent(bytes, start, end);
    const { type, data } = event;
    if (data === null) return DROPPED;
    const isPlainEvent = isPlain(event, bytes, start, end);
    if (isPlainEvent && type !== null && isDelta(type) && bytes[data.end - 1] === OBJECT_CLOSE) {
      return this.#readDelta(data);
    }
    return this.#readAny(
      data,
      isPlainEvent && type !== null ? decodeText(bytes, type.start, type.end) : null,
    );
  }

  /** The common case: content that is forwarded unchanged. */
  #readDelta(data: Part): EventVerdict {
    this.#phase = "content";
    if (this.#sink !== null) addMessagesDelta(data, "delta", this.#sink);
    return PASS_CONTENT;
  }

  /** `eventName` is null if the event must be written again, because it has other lines or no name. */
  #readAny(data: Part, eventName: string | null): EventVerdict {
    const scan = scanObject(data.bytes, data.start, data.end, EVENT, { depthMax: this.#depthMax });
    const type = scan.ok && scan.fields.type ? stringValue(data.bytes, scan.fields.type) : null;
    if (!scan.ok || type === null || !isEventName(type)) {
      this.badEvents++;
      return DROPPED;
    }
    const { message, content_block: block, usage, delta, error } = scan.fields;
    const replacement = eventName === type ? null : eventParts(type, [data]);
    switch (type) {
      case "message_start":
        return { phase: "lifecycle", replacement: eventParts(type, this.#readMessage(data, message)) };
      case "content_block_start":
        return { phase: this.#startBlock(data, block), replacement };
      case "content_block_delta":
        this.#readDelta(data);
        return { phase: "content", replacement };
      case "content_block_stop":
        if (this.#phase === "content") this.#phase = "between_blocks";
        return { phase: this.#contentPhase(), replacement };
      case "message_delta":
        return { phase: this.#readMessageDelta(data, delta, usage), replacement };
      case "message_stop":
        this.#phase = "stopped";
        this.outcome = "completed";
        return { phase: "terminal", replacement };
      case "error":
        return { phase: "failed", error: readFailure(data) };
      default:
        if (error?.kind === "object") return { phase: "failed", error: readFailure(data) };
        // A ping, or an event of a later version of the API: clients skip what they do not know.
        return { phase: this.#contentPhase(), replacement };
    }
  }

  /** Returns the event with the public model name. */
  #readMessage(data: Part, message: JsonField | undefined): Part[] {
    const { bytes } = data;
    if (message?.kind !== "object") return [data];
    const scan = scanObject(bytes, message.start, message.end, MESSAGE, { depthMax: this.#depthMax });
    if (!scan.ok) return [data];
    const { id, model, usage } = scan.fields;
    this.responseId = id === undefined ? null : stringValue(bytes, id);
    this.#model = model === undefined ? null : stringValue(bytes, model);
    if (usage?.kind === "object") this.#takeUsage(parseWithoutLongStrings(bytes, usage.start, usage.end));
    const splices = model?.kind === "string" ? [replaceValue(model, this.#publicModelJson)] : [];
    return spliceParts(bytes, splices, data.start, data.end);
  }

  #startBlock(data: Part, block: JsonField | undefined): "content" | "lifecycle" {
    const json = block === undefined ? null : parseWithoutLongStrings(data.bytes, block.start, block.end);
    if (isObject(json) && typeof json.type === "string" && CALL_BLOCKS.has(json.type)) {
      this.#phase = "content";
      if (this.#sink !== null) addMessagesDelta(data, "start", this.#sink);
    }
    return this.#contentPhase();
  }

  #readMessageDelta(
    data: Part,
    delta: JsonField | undefined,
    usage: JsonField | undefined,
  ): "content" | "lifecycle" {
    const { bytes } = data;
    if (usage?.kind === "object") {
      const report = parseWithoutLongStrings(bytes, usage.start, usage.end);
      this.#hasFinalUsage ||= isFinalMessagesUsage(report);
      this.#takeUsage(report);
    }
    const json = delta === undefined ? null : parseWithoutLongStrings(bytes, delta.start, delta.end);
    const stop = isObject(json) ? json.stop_reason : null;
    const before = this.#contentPhase();
    if (typeof stop === "string") {
      this.#phase = "stopping";
      this.#stopReason = stop;
    }
    // A response without content is a failure, unless the upstream reports a refusal or a pause.
    return typeof stop === "string" && stop !== "end_turn" ? "content" : before;
  }

  #takeUsage(json: unknown): void {
    this.#usageJson = mergeMessagesUsage(this.#usageJson ?? {}, json);
  }

  #contentPhase(): "content" | "lifecycle" {
    return this.#phase === "waiting" ? "lifecycle" : "content";
  }

  isCompleteWithoutTerminal(): boolean {
    if (this.#phase !== "stopping") return false;
    this.outcome = "completed";
    return true;
  }

  isEnding(): boolean {
    return this.#phase === "between_blocks" || this.#phase === "stopping" || this.#phase === "stopped";
  }

  get endMarker(): Uint8Array | null {
    return this.#phase === "stopped" ? null : MESSAGE_STOP;
  }

  failure(error: ApiError, requestId: string): Uint8Array {
    return formatEvent("error", JSON.stringify(messagesErrorBody(error, requestId)));
  }

  describe(): ResponseFacts {
    const finishReasons = this.#stopReason === null ? [] : [this.#stopReason];
    return { id: this.responseId, model: this.#model, finishReasons };
  }

  progressEvent(): Uint8Array {
    return PING;
  }

  /** The first report counts no output that followed it. */
  get usage(): TokenUsage | null {
    const usage = this.#usageJson === null ? null : readMessagesUsage(this.#usageJson);
    const isFinal = this.#phase === "stopping" || this.#phase === "stopped";
    return usage === null || (isFinal && this.#hasFinalUsage) ? usage : { ...usage, isEarly: true };
  }
}

function isDelta({ bytes, start, end }: Part): boolean {
  return end - start === DELTA_NAME.length && startsWithAt(bytes, start, DELTA_NAME);
}
