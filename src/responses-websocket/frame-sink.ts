/**
 * A relay's events → text frames: the JSON of each event is a frame of its own, without the lines around it. On the way
 * the items that the model made are noted, for the turn that goes on from them.
 */

import { isUtf8 } from "node:buffer";
import { type ByteRange, firstElements } from "../json/array.ts";
import { type JsonField, scanObject, wantedFields } from "../json/scan.ts";
import { OBJECT_CLOSE, skipSpace } from "../json/walk.ts";
import { decodeText, startsWithAt } from "../net/wire/bytes.ts";
import type { ClientSink } from "../net/wire/http-message.ts";
import { joinParts, type Part, partBytes } from "../net/wire/parts.ts";
import { findResponseId } from "../protocols/responses/response-id.ts";
import { outputItem } from "./output-item.ts";
import { noteItem, type ToolCalls } from "./tool-calls.ts";

/** Where frames go. */
export interface FrameReceiver {
  /** A text of a few words, and then `bytes[start, end)`, which are UTF-8. */
  send(opening: string, bytes: Uint8Array, start: number, end: number): void;
  /** What is sent meanwhile leaves in one piece. */
  together(send: () => void): void;
  /** A promise while the client does not keep up. */
  room(): Promise<void> | null;
}

/** What became of a response, as far as its client was told. */
export type SentEvents =
  | {
      readonly kind: "response";
      readonly responseId: string;
      readonly outputs: readonly Uint8Array[];
      /** Ids of the tool calls among the outputs. */
      readonly calls: readonly string[];
    }
  /** It is longer than may be remembered. */
  | { readonly kind: "too_long" }
  | { readonly kind: "failed" };

export interface FrameSinkOptions {
  outlet: FrameReceiver;
  streamId: string | null;
  /** Told with the first frame, as an answer's headers would; so is what the upstream calls the request. */
  requestId: string;
  upstreamRequestId: string | null;
  /** The most bytes of items that are remembered. */
  bytesMax: number;
  depthMax: number;
  /** The upstream stores the response, and knows its items by their ids. */
  isStored: boolean;
  ended(said: SentEvents): void;
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

export class FrameSink implements ClientSink {
  private readonly options: FrameSinkOptions;
  /** How the next frame begins; empty for one that begins as its event does. */
  private opening: string;
  private readonly outputs: Uint8Array[] = [];
  private readonly calls: ToolCalls = { made: [], answered: [] };
  private notedBytes = 0;
  /** Of what is being written: a frame of anything else would end the connection. */
  private isUtf8 = false;
  private responseId: string | null = null;
  private isFirst = true;

  constructor(options: FrameSinkOptions) {
    this.options = options;
    this.opening = firstOpening(options);
  }

  write(parts: readonly Part[]): Promise<void> | null {
    const { outlet } = this.options;
    const [first] = parts;
    const bytes = parts.length === 1 && first !== undefined ? partBytes(first) : joinParts(parts);
    this.isUtf8 = isUtf8(bytes);
    outlet.together(() => this.sendAll(bytes));
    return outlet.room();
  }

  end(last: readonly Part[]): void {
    if (last.length > 0) this.write(last);
    this.options.ended(this.said());
  }

  private said(): SentEvents {
    const { outputs, responseId } = this;
    if (responseId === null) return { kind: "failed" };
    if (this.notedBytes > this.options.bytesMax) return { kind: "too_long" };
    return { kind: "response", responseId, outputs, calls: this.calls.made };
  }

  private sendAll(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; ) at = this.sendOne(bytes, at);
  }

  /** One event of `bytes`, from `at` on; returns where the next begins. */
  private sendOne(bytes: Uint8Array, at: number): number {
    const nameEnd = bytes.indexOf(LF, at);
    // `event:` begins all that is for the client; comments and the mark of the end are for streams of HTTP.
    if (bytes[at] !== 0x65) return afterBlankLine(bytes, nameEnd);
    const dataEnd = bytes.indexOf(LF, nameEnd + 1);
    this.send(bytes, at + EVENT_LINE, nameEnd, bytes, nameEnd + 1 + DATA_LINE, dataEnd);
    return dataEnd + 2;
  }

  private send(
    named: Uint8Array,
    nameStart: number,
    nameEnd: number,
    data: Uint8Array,
    start: number,
    end: number,
  ): void {
    const length = nameEnd - nameStart;
    if (length === ITEM_DONE.length && startsWithAt(named, nameStart, ITEM_DONE)) {
      this.noteOutput({ bytes: data, start, end });
    } else if (
      (length === COMPLETED.length && startsWithAt(named, nameStart, COMPLETED)) ||
      (length === INCOMPLETE.length && startsWithAt(named, nameStart, INCOMPLETE))
    ) {
      this.noteEnd({ bytes: data, start, end });
    }
    const { opening } = this;
    const from = opening === "" ? start : skipSpace(data, skipSpace(data, start, end) + 1, end);
    const before = opening !== "" && data[from] === OBJECT_CLOSE ? opening.slice(0, -1) : opening;
    this.sendText(before, data, from, end);
    if (this.isFirst) {
      this.isFirst = false;
      this.opening = laneOpening(this.options.streamId);
    }
  }

  private sendText(opening: string, data: Uint8Array, start: number, end: number): void {
    const { outlet } = this.options;
    if (this.isUtf8) {
      outlet.send(opening, data, start, end);
      return;
    }
    const mended = Buffer.from(decodeText(data, start, end));
    outlet.send(opening, mended, 0, mended.length);
  }

  private noteOutput({ bytes, start, end }: Part): void {
    const scan = scanObject(bytes, start, end, ITEM_EVENT, { depthMax: this.options.depthMax });
    const item = scan.ok ? scan.fields.item : undefined;
    if (item?.kind === "object") this.keep(bytes, item);
  }

  private noteEnd({ bytes, start, end }: Part): void {
    this.responseId = findResponseId(bytes, start, end);
    // An upstream that streams nothing but its end: what it made stands there.
    const output = this.notedBytes === 0 ? outputOf(bytes, start, end, this.options.depthMax) : undefined;
    if (output?.kind !== "array") return;
    for (const item of firstElements(bytes, output, Number.POSITIVE_INFINITY)) this.keep(bytes, item);
  }

  private keep(bytes: Uint8Array, item: ByteRange): void {
    const { bytesMax, depthMax } = this.options;
    this.notedBytes += item.end - item.start;
    if (this.notedBytes > bytesMax) return;
    this.outputs.push(outputItem(bytes, item, this.options));
    noteItem(bytes, item, depthMax, this.calls);
  }
}

function outputOf(bytes: Uint8Array, start: number, end: number, depthMax: number): JsonField | undefined {
  const scan = scanObject(bytes, start, end, TERMINAL_EVENT, { depthMax });
  const response = scan.ok ? scan.fields.response : undefined;
  if (response?.kind !== "object") return undefined;
  const inner = scanObject(bytes, response.start, response.end, RESPONSE, { depthMax });
  return inner.ok ? inner.fields.output : undefined;
}

/** Every frame of a named lane says which. */
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
