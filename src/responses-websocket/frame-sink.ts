/**
 * Converts the events of a relay to text frames: the JSON of each event is one frame, without the SSE lines. It also
 * records the output items, for a turn that continues from this response.
 */

import { isUtf8 } from "node:buffer";
import { decodeText, startsWithAt } from "../base/bytes.ts";
import { joinParts, type Part, partBytes } from "../base/parts.ts";
import { type ByteRange, firstElements } from "../json/array.ts";
import { type JsonField, scanObject, wantedFields } from "../json/scan.ts";
import { OBJECT_CLOSE, skipSpace } from "../json/walk.ts";
import type { Backpressure } from "../net/wire/body-sink.ts";
import type { StreamSink } from "../net/wire/http-message.ts";
import { findResponseId } from "../protocols/responses/response-id.ts";
import { outputItem } from "./output-item.ts";
import { recordToolCall, type ToolCalls } from "./tool-calls.ts";

export interface FrameReceiver {
  /** Sends a text that consists of `opening` and `bytes[start, end)`, which is UTF-8. */
  send(opening: string, bytes: Uint8Array, start: number, end: number): void;
  /** Everything that is sent during the call leaves in one write. */
  batch(send: () => void): void;
  /** Pauses the source while the client does not keep up. */
  pauseIfFull(source: Backpressure): void;
}

/** The outcome of a response, as sent to the client. */
export type SentEvents =
  | {
      readonly kind: "response";
      readonly responseId: string;
      readonly outputs: readonly Uint8Array[];
      /** Ids of the tool calls among the outputs. */
      readonly calls: readonly string[];
    }
  /** The outputs exceed the memory limit. */
  | { readonly kind: "too_long" }
  | { readonly kind: "failed" };

export interface FrameSinkOptions {
  output: FrameReceiver;
  source: Backpressure;
  streamId: string | null;
  /** Sent with the first frame, in place of response headers; so is the upstream's request id. */
  requestId: string;
  upstreamRequestId: string | null;
  /** Maximum number of bytes of items that are recorded. */
  bytesMax: number;
  depthMax: number;
  /** The upstream stores the response and knows its items by their ids. */
  isStored: boolean;
  onEnd(events: SentEvents): void;
}

const LF = 0x0a;
const EVENT_LINE = "event: ".length;
const DATA_LINE = "data: ".length;
const utf8 = new TextEncoder();
const ITEM_DONE = utf8.encode("response.output_item.done");
const COMPLETED = utf8.encode("response.completed");
const INCOMPLETE = utf8.encode("response.incomplete");

const ITEM_EVENT = wantedFields(["item"]);
const TERMINAL_EVENT = wantedFields(["response"]);
const RESPONSE = wantedFields(["output"]);

export class FrameSink implements StreamSink {
  readonly #options: FrameSinkOptions;
  /** The start of the next frame; empty for a frame that starts as its event does. */
  #opening: string;
  readonly #outputs: Uint8Array[] = [];
  readonly #calls: ToolCalls = { made: [], completed: [] };
  #recordedBytes = 0;
  /** Whether the bytes being written are valid UTF-8. An invalid frame would end the connection. */
  #isUtf8 = false;
  #responseId: string | null = null;
  #isFirst = true;

  constructor(options: FrameSinkOptions) {
    this.#options = options;
    this.#opening = firstOpening(options);
  }

  data(parts: readonly Part[]): void {
    const { output, source } = this.#options;
    const [first] = parts;
    const bytes = parts.length === 1 && first !== undefined ? partBytes(first) : joinParts(parts);
    this.#isUtf8 = isUtf8(bytes);
    output.batch(() => this.#sendAll(bytes));
    output.pauseIfFull(source);
  }

  end(last: readonly Part[]): void {
    if (last.length > 0) this.data(last);
    this.#options.onEnd(this.#buildResult());
  }

  fail(): void {
    this.#options.onEnd({ kind: "failed" });
  }

  #buildResult(): SentEvents {
    const responseId = this.#responseId;
    if (responseId === null) return { kind: "failed" };
    if (this.#recordedBytes > this.#options.bytesMax) return { kind: "too_long" };
    return { kind: "response", responseId, outputs: this.#outputs, calls: this.#calls.made };
  }

  #sendAll(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; ) at = this.#sendOne(bytes, at);
  }

  /** Sends the event of `bytes` at `at` and returns the position of the next one. */
  #sendOne(bytes: Uint8Array, at: number): number {
    const nameEnd = bytes.indexOf(LF, at);
    // All events for the client start with `event:`. Comments and the end marker are for HTTP streams.
    if (bytes[at] !== 0x65) return afterBlankLine(bytes, nameEnd);
    const dataEnd = bytes.indexOf(LF, nameEnd + 1);
    this.#send(bytes, at + EVENT_LINE, nameEnd, nameEnd + 1 + DATA_LINE, dataEnd);
    return dataEnd + 2;
  }

  #send(bytes: Uint8Array, nameStart: number, nameEnd: number, start: number, end: number): void {
    const length = nameEnd - nameStart;
    if (length === ITEM_DONE.length && startsWithAt(bytes, nameStart, ITEM_DONE)) {
      this.#recordOutput({ bytes, start, end });
    } else if (
      (length === COMPLETED.length && startsWithAt(bytes, nameStart, COMPLETED)) ||
      (length === INCOMPLETE.length && startsWithAt(bytes, nameStart, INCOMPLETE))
    ) {
      this.#recordEnd({ bytes, start, end });
    }
    const opening = this.#opening;
    const from = opening === "" ? start : skipSpace(bytes, skipSpace(bytes, start, end) + 1, end);
    const prefix = opening !== "" && bytes[from] === OBJECT_CLOSE ? opening.slice(0, -1) : opening;
    this.#sendText(prefix, bytes, from, end);
    if (this.#isFirst) {
      this.#isFirst = false;
      this.#opening = laneOpening(this.#options.streamId);
    }
  }

  #sendText(opening: string, data: Uint8Array, start: number, end: number): void {
    const { output } = this.#options;
    if (this.#isUtf8) {
      output.send(opening, data, start, end);
      return;
    }
    const repaired = Buffer.from(decodeText(data, start, end));
    output.send(opening, repaired, 0, repaired.length);
  }

  #recordOutput({ bytes, start, end }: Part): void {
    const scan = scanObject(bytes, start, end, ITEM_EVENT, { depthMax: this.#options.depthMax });
    const item = scan.ok ? scan.fields.item : undefined;
    if (item?.kind === "object") this.#recordItem(bytes, item);
  }

  #recordEnd({ bytes, start, end }: Part): void {
    this.#responseId = findResponseId(bytes, start, end);
    // An upstream that streams only the final event: its output items are in that event.
    const output =
      this.#recordedBytes === 0 ? findOutput(bytes, start, end, this.#options.depthMax) : undefined;
    if (output?.kind !== "array") return;
    for (const item of firstElements(bytes, output, Number.POSITIVE_INFINITY)) this.#recordItem(bytes, item);
  }

  #recordItem(bytes: Uint8Array, item: ByteRange): void {
    const { bytesMax, depthMax } = this.#options;
    this.#recordedBytes += item.end - item.start;
    if (this.#recordedBytes > bytesMax) return;
    this.#outputs.push(outputItem(bytes, item, this.#options));
    recordToolCall(bytes, item, depthMax, this.#calls);
  }
}

function findOutput(bytes: Uint8Array, start: number, end: number, depthMax: number): JsonField | undefined {
  const scan = scanObject(bytes, start, end, TERMINAL_EVENT, { depthMax });
  const response = scan.ok ? scan.fields.response : undefined;
  if (response?.kind !== "object") return undefined;
  const inner = scanObject(bytes, response.start, response.end, RESPONSE, { depthMax });
  return inner.ok ? inner.fields.output : undefined;
}

/** Every frame of a named lane contains its name. */
function laneOpening(streamId: string | null): string {
  return streamId === null ? "" : `{"stream_id":${JSON.stringify(streamId)},`;
}

function firstOpening({ streamId, requestId, upstreamRequestId }: FrameSinkOptions): string {
  const headers = {
    "x-request-id": requestId,
    ...(upstreamRequestId === null ? {} : { "x-upstream-request-id": upstreamRequestId }),
  };
  return `${laneOpening(streamId) || "{"}"headers":${JSON.stringify(headers)},`;
}

function afterBlankLine(bytes: Uint8Array, firstLineEnd: number): number {
  let lf = firstLineEnd;
  while (lf >= 0 && bytes[lf + 1] !== LF) lf = bytes.indexOf(LF, lf + 1);
  return lf < 0 ? bytes.length : lf + 2;
}
