/** Reads the events of a Responses stream as events between dialects. */

import { CallIds } from "../hub/call-ids.ts";
import { withCitations } from "../hub/citations.ts";
import type { ClientTool, HubStreamReader, ResponseReadOptions } from "../hub/dialect-codec.ts";
import type { HubEvent, StartedItem } from "../hub/hub-response.ts";
import { type ItemEnd, ItemSequencer } from "../hub/item-sequencer.ts";
import { type Json, parseObject, readNumber, readObject, readString } from "../hub/json-values.ts";
import { ResponseBounds } from "../hub/response-bounds.ts";
import { BROKEN_OFF, StreamEvents } from "../hub/stream-events.ts";
import { readAnnotations } from "../openai/openai-annotations.ts";
import { readUpstreamError } from "../shared/upstream-error.ts";
import { readUsage, withTier } from "../shared/usage.ts";
import { countSearchItems, withSearches } from "../shared/web-searches.ts";
import {
  isWrappedCall,
  noteLogprobs,
  readOutputItems,
  readResponsesStop,
  readSearch,
  resolveCall,
} from "./responses-output.ts";

const NOT_CUT = { isCut: false, opaque: null };

/** An output item or a content part in progress. */
interface OpenItem {
  readonly key: string;
  /** A function that stands in for a custom tool: its input is known when the arguments are complete. */
  readonly wrapped: ClientTool | null;
  hasText: boolean;
  /** The part of the reasoning that flows: a blank line separates parts. */
  part: number;
}

function openItem(key: string, wrapped: ClientTool | null = null): OpenItem {
  return { key, wrapped, hasText: false, part: 0 };
}

export class ResponsesHubReader implements HubStreamReader {
  readonly #options: ResponseReadOptions;
  readonly #events = new StreamEvents();
  readonly #bounds = new ResponseBounds();
  readonly #sequencer = new ItemSequencer(this.#events.list, this.#bounds);
  readonly #open = new Map<string, OpenItem>();
  #callIds = new CallIds(null, this.#bounds);
  #hasStarted = false;
  #hasItems = false;
  #hasCalls = false;

  constructor(options: ResponseReadOptions) {
    this.#options = options;
  }

  read(data: string, name: string | null): readonly HubEvent[] {
    if (this.#events.isOver) return this.#events.take();
    const json = parseObject(data);
    if (json === null) return this.#events.take();
    this.#readEvent(readString(json.type) ?? name ?? "", json);
    return this.#events.take();
  }

  close(): readonly HubEvent[] {
    if (this.#events.isOver) return this.#events.take();
    this.#events.fail(BROKEN_OFF);
    return this.#events.take();
  }

  #readEvent(type: string, json: Json): void {
    switch (type) {
      case "response.created":
      case "response.in_progress":
        this.#begin(readObject(json.response));
        return;
      case "response.output_item.added":
        this.#openItem(json, readObject(json.item) ?? {});
        return;
      case "response.output_item.done":
        this.#endItem(json, readObject(json.item) ?? {});
        return;
      case "response.output_text.delta":
      case "response.refusal.delta":
        this.#addText(json, type === "response.refusal.delta" ? "refusal" : "text");
        return;
      case "response.reasoning_summary_text.delta":
      case "response.reasoning_text.delta":
        this.#addReasoning(json, type === "response.reasoning_summary_text.delta");
        return;
      case "response.function_call_arguments.delta":
      case "response.custom_tool_call_input.delta":
        this.#addInput(json);
        return;
      case "response.completed":
      case "response.incomplete":
      case "response.cancelled":
        this.#finish(type, readObject(json.response) ?? {});
        return;
      case "response.failed":
      case "error":
        this.#events.fail(readUpstreamError(json) ?? BROKEN_OFF);
        return;
    }
  }

  #begin(response: Json | null): void {
    if (this.#hasStarted) return;
    this.#hasStarted = true;
    const responseId = readString(response?.id);
    this.#callIds = new CallIds(responseId, this.#bounds);
    this.#events.add({
      type: "start",
      responseId,
      createdAtSeconds: readNumber(response?.created_at),
      model: readString(response?.model),
    });
  }

  #openItem(event: Json, item: Json): void {
    this.#begin(null);
    if (item.type !== "function_call" && item.type !== "custom_tool_call") return;
    this.#openCall(outputKey(event), item);
  }

  #openCall(key: string, item: Json): OpenItem {
    const tool = resolveCall(item, this.#options.toolNames);
    this.#begin(null);
    const callId = this.#callIds.assign(readString(item.call_id) ?? item.id);
    this.#hasCalls = true;
    const open = openItem(key, isWrappedCall(item, tool) ? tool : null);
    return this.#start(open, { kind: "call", callId, ...tool });
  }

  #start(open: OpenItem, item: StartedItem): OpenItem {
    this.#begin(null);
    this.#hasItems = true;
    this.#open.set(open.key, open);
    this.#sequencer.start(open.key, item);
    return open;
  }

  #addText(event: Json, kind: "text" | "refusal"): void {
    const key = `${outputKey(event)} ${readNumber(event.content_index) ?? 0}`;
    const open = this.#open.get(key) ?? this.#start(openItem(key), { kind });
    this.#add(open, readString(event.delta) ?? "");
  }

  #addReasoning(event: Json, isSummary: boolean): void {
    const key = outputKey(event);
    const part = readNumber(event.summary_index) ?? readNumber(event.content_index) ?? 0;
    const open = this.#open.get(key) ?? this.#start(openItem(key), { kind: "reasoning", isSummary });
    const isNewPart = part !== open.part && open.hasText;
    open.part = part;
    this.#add(open, (isNewPart ? "\n\n" : "") + (readString(event.delta) ?? ""));
  }

  #addInput(event: Json): void {
    const open = this.#open.get(outputKey(event));
    if (open !== undefined) this.#add(open, readString(event.delta) ?? "");
  }

  #add(open: OpenItem, text: string): void {
    open.hasText ||= text !== "";
    if (open.wrapped === null) this.#sequencer.delta(open.key, text);
  }

  #endItem(event: Json, item: Json): void {
    const key = outputKey(event);
    switch (item.type) {
      case "message":
        this.#endMessage(key, item);
        return;
      case "reasoning":
        this.#endReasoning(key, item);
        return;
      case "function_call":
      case "custom_tool_call":
        this.#endCall(this.#open.get(key) ?? this.#openCall(key, item), item);
        return;
      case "web_search_call":
        this.#end(this.#start(openItem(key), readSearch(item, this.#bounds)), "", NOT_CUT);
        return;
      default:
        this.#options.dropped.add(`output.${readString(item.type) ?? "item"}`);
    }
  }

  /** Parts that came without deltas are in the item. */
  #endMessage(key: string, item: Json): void {
    const isCut = item.status === "incomplete";
    this.#bounds.readList(item.content).forEach((part, at) => {
      const partKey = `${key} ${at}`;
      const text = readString(part.text) ?? readString(part.refusal) ?? "";
      if (!this.#open.has(partKey) && text !== "")
        this.#start(openItem(partKey), { kind: part.type === "refusal" ? "refusal" : "text" });
      const open = this.#open.get(partKey);
      const annotations = this.#bounds.readList(part.annotations);
      const citations = readAnnotations(annotations, this.#options.dropped, this.#bounds);
      noteLogprobs(part, this.#options.dropped);
      if (open !== undefined) this.#end(open, text, { isCut, opaque: null, citations });
    });
    // An item without its content: end the parts that have begun.
    for (const open of [...this.#open.values()])
      if (open.key.startsWith(`${key} `)) this.#end(open, "", { isCut, opaque: null });
  }

  #endReasoning(key: string, item: Json): void {
    const [read] = readOutputItems([item], this.#bounds, this.#options);
    if (read?.kind !== "reasoning") return;
    const { text, isSummary, opaque } = read;
    if (!this.#open.has(key) && text === "" && opaque === null) return;
    const open = this.#open.get(key) ?? this.#start(openItem(key), { kind: "reasoning", isSummary });
    this.#end(open, text, { isCut: false, opaque });
  }

  #endCall(open: OpenItem, item: Json): void {
    const [read] = readOutputItems([item], this.#bounds, this.#options);
    if (read?.kind !== "call") return;
    const isCut = item.status === "incomplete";
    if (open.wrapped !== null && !isCut) this.#sequencer.delta(open.key, read.input);
    this.#end(open, read.input, { isCut, opaque: null });
  }

  /** `text` is the whole text: it counts if no delta came. */
  #end(open: OpenItem, text: string, end: ItemEnd): void {
    if (!open.hasText && open.wrapped === null) this.#sequencer.delta(open.key, text);
    this.#open.delete(open.key);
    this.#sequencer.end(open.key, end);
  }

  #finish(type: string, response: Json): void {
    this.#begin(response);
    const stop = type === "response.completed" ? "end" : readResponsesStop(response);
    for (const open of [...this.#open.values()]) this.#end(open, "", { isCut: true, opaque: null });
    if (!this.#hasItems) this.#addWhole(response);
    const reported = withTier(readUsage(response.usage), response.service_tier);
    const usage = withSearches(reported, countSearchItems(response.output));
    if (usage !== null) this.#events.add({ type: "usage", usage });
    const isCut = stop === "length" || stop === "filtered";
    this.#events.end(this.#hasCalls && !isCut ? "tools" : stop);
  }

  /** An upstream that streams nothing but the response as a whole. */
  #addWhole(response: Json): void {
    for (const item of readOutputItems(this.#bounds.readList(response.output), this.#bounds, this.#options)) {
      if (item.kind === "call") {
        const { input, opaque: _, ...call } = item;
        this.#hasCalls = true;
        this.#emit({ ...call, callId: this.#callIds.assign(call.callId) }, input);
      } else if (item.kind === "reasoning")
        this.#emit({ kind: "reasoning", isSummary: item.isSummary }, item.text, { opaque: item.opaque });
      else if (item.kind === "search") this.#emit(item, "");
      else if (item.kind === "message")
        for (const part of item.parts) {
          if (part.kind === "text") this.#emit({ kind: part.kind }, part.text, withCitations(part.citations));
          else if (part.kind === "refusal") this.#emit({ kind: part.kind }, part.text);
        }
    }
  }

  #emit(item: StartedItem, text: string, { opaque = null, citations }: ItemEnd = {}): void {
    this.#bounds.addItem();
    this.#events.add({ type: "item_start", item });
    if (text !== "") this.#events.add({ type: "delta", text });
    this.#events.add({ type: "item_end", opaque, isCut: false, ...withCitations(citations) });
  }
}

function outputKey(event: Json): string {
  return String(readNumber(event.output_index) ?? readString(event.item_id) ?? 0);
}
