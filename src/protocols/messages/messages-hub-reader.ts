/** Reads the events of a Messages stream as events between dialects. */

import { isObject } from "../../json/parse.ts";
import { CallIds } from "../hub/call-ids.ts";
import { isCutInput, unwrapCustomInput } from "../hub/custom-input.ts";
import type { ClientTool, HubStreamReader, ResponseReadOptions } from "../hub/dialect-codec.ts";
import type { Citation, OpaqueState } from "../hub/hub-request.ts";
import type { HubEvent, HubStop, StartedItem } from "../hub/hub-response.ts";
import { ItemSequencer } from "../hub/item-sequencer.ts";
import { type Json, parseObject, readNumber, readObject, readString } from "../hub/json-values.ts";
import { ResponseBounds } from "../hub/response-bounds.ts";
import { BROKEN_OFF, resolveStop, StreamEvents } from "../hub/stream-events.ts";
import { TextPieces } from "../hub/text-pieces.ts";
import { resolveTool } from "../hub/tool-names.ts";
import { readUpstreamError, type UpstreamError } from "../shared/upstream-error.ts";
import { isSearchCall, readCitation, Searches } from "./messages-sources.ts";
import { isFinalMessagesUsage, mergeMessagesUsage, readMessagesUsage } from "./messages-usage.ts";

const CUT_OFF: UpstreamError = { ...BROKEN_OFF, code: null, type: "api_error" };

interface OpenBlock {
  readonly key: string;
  readonly kind: "text" | "reasoning" | "call" | "search";
  /** A call of a custom tool: its input is known when the arguments are complete. */
  readonly tool: ClientTool | null;
  /** The input of a call or a search. */
  readonly input: TextPieces;
  chars: number;
  /** The input that a call began with. It counts if no piece of it follows. */
  readonly wholeInput: string;
  readonly isRedacted: boolean;
  opaque: OpaqueState | null;
  readonly citations: Citation[];
  /** The id of a search, which its result names. */
  readonly searchId?: unknown;
}

function openBlock(
  key: string,
  kind: OpenBlock["kind"],
  {
    tool = null,
    opaque = null,
    searchId,
    wholeInput = "",
    isRedacted = false,
  }: Partial<Pick<OpenBlock, "tool" | "opaque" | "searchId" | "wholeInput" | "isRedacted">> = {},
): OpenBlock {
  const input = new TextPieces();
  return { key, kind, tool, input, chars: 0, wholeInput, isRedacted, opaque, citations: [], searchId };
}

export class MessagesHubReader implements HubStreamReader {
  readonly #options: ResponseReadOptions;
  readonly #events = new StreamEvents();
  readonly #bounds = new ResponseBounds();
  readonly #items = new ItemSequencer(this.#events.list, this.#bounds);
  readonly #blocks = new Map<number, OpenBlock>();
  readonly #searches = new Searches(this.#bounds);
  /** Null until the stream has begun. */
  #callIds: CallIds | null = null;
  #usage: Readonly<Record<string, unknown>> = {};
  #stop: HubStop | null = null;
  #stopSequence: string | null = null;
  #hasCalls = false;
  /** The output limit cut a call off, so that it cannot be run. */
  #hasCutCall = false;

  constructor(options: ResponseReadOptions) {
    this.#options = options;
  }

  read(data: string): readonly HubEvent[] {
    const json = this.#events.isOver ? null : parseObject(data);
    if (json === null) return this.#events.take();
    switch (json.type) {
      case "message_start":
        this.#readStart(readObject(json.message) ?? {});
        break;
      case "content_block_start":
        this.#readBlockStart(readNumber(json.index) ?? 0, readObject(json.content_block) ?? {});
        break;
      case "content_block_delta":
        this.#readBlockDelta(readNumber(json.index) ?? 0, readObject(json.delta) ?? {});
        break;
      case "content_block_stop":
        this.#endBlock(readNumber(json.index) ?? 0);
        break;
      case "message_delta":
        this.#readMessageDelta(json);
        break;
      case "message_stop":
        this.#finish();
        break;
      case "error":
        this.#events.fail(readUpstreamError(json) ?? CUT_OFF);
        break;
    }
    return this.#events.take();
  }

  close(): readonly HubEvent[] {
    if (this.#events.isOver) return this.#events.take();
    if (this.#stop === null) this.#events.fail(CUT_OFF);
    else this.#finish();
    return this.#events.take();
  }

  /** The first event begins the stream, also of an upstream that omits `message_start`. */
  #begin(message: Json): CallIds {
    if (this.#callIds !== null) return this.#callIds;
    const responseId = readString(message.id);
    this.#callIds = new CallIds(responseId, this.#bounds);
    this.#events.add({
      type: "start",
      responseId,
      createdAtSeconds: null,
      model: readString(message.model),
    });
    return this.#callIds;
  }

  #readStart(message: Json): void {
    if (this.#callIds !== null) return;
    this.#begin(message);
    // The first report counts no output that follows it.
    this.#takeUsage(message.usage, { isEarly: true });
  }

  #readBlockStart(index: number, block: Json): void {
    const open = this.#openBlock(`block ${index}`, block);
    if (open === null) return;
    const callIds = this.#begin({});
    this.#blocks.set(index, open);
    this.#bounds.checkOpenItems(this.#blocks.size);
    for (const citation of this.#bounds.readList(block.citations)) this.#addCitation(open, citation);
    const { key, kind, tool, isRedacted } = open;
    if (kind === "search") {
      this.#items.end(key, { isCut: true });
      return;
    }
    if (tool !== null) {
      this.#hasCalls = true;
      this.#items.start(key, { kind: "call", callId: callIds.assign(block.id), ...tool });
      return;
    }
    this.#items.start(key, kind === "text" ? { kind } : { kind: "reasoning", isSummary: false, isRedacted });
    this.#addBlockText(open, readString(block.text) ?? readString(block.thinking) ?? "");
  }

  /** Null for a block that is complete when it starts, or that other dialects cannot express. */
  #openBlock(key: string, block: Json): OpenBlock | null {
    const { sealer, toolNames } = this.#options;
    switch (block.type) {
      case "text":
        return openBlock(key, "text");
      case "thinking":
        return openBlock(key, "reasoning");
      case "redacted_thinking": {
        const data = readString(block.data);
        const opaque = data === null ? null : sealer.seal({ field: "redacted_thinking", value: data });
        return openBlock(key, "reasoning", { opaque, isRedacted: true });
      }
      case "tool_use": {
        const tool = resolveTool(toolNames, readString(block.name) ?? "");
        return openBlock(key, "call", { tool, wholeInput: this.#writeWholeInput(block) });
      }
      case "web_search_tool_result":
        this.#begin({});
        this.#addWhole(key, this.#searches.addResult(block));
        return null;
      default:
        if (isSearchCall(block))
          return openBlock(key, "search", { searchId: block.id, wholeInput: this.#writeWholeInput(block) });
        this.#options.dropped.add(`output.${readString(block.type) ?? "block"}`);
        return null;
    }
  }

  /** An item that is complete when it starts. */
  #addWhole(key: string, item: StartedItem): void {
    this.#items.start(key, item);
    this.#items.end(key);
  }

  #readBlockDelta(index: number, delta: Json): void {
    const block = this.#blocks.get(index);
    if (block === undefined) return;
    if (delta.type === "citations_delta") {
      this.#addCitation(block, readObject(delta.citation) ?? {});
      return;
    }
    if (delta.type === "signature_delta") {
      const value = readString(delta.signature);
      if (value) block.opaque = this.#options.sealer.seal({ field: "signature", value });
      return;
    }
    const text = readString(delta.text) ?? readString(delta.thinking) ?? readString(delta.partial_json) ?? "";
    this.#addBlockText(block, text);
  }

  /** The places of citations are known at the end of the text. */
  #addCitation({ citations }: OpenBlock, json: Json): void {
    const citation = readCitation(json, 0);
    if (citation === null) this.#options.dropped.add("citations");
    else {
      this.#bounds.addCitation(citation);
      citations.push(citation);
    }
  }

  /** Some upstreams begin a call with its whole input and send no pieces. Anthropic begins it with an empty object. */
  #writeWholeInput({ input }: Json): string {
    const text = isObject(input) && Object.keys(input).length > 0 ? JSON.stringify(input) : "";
    this.#bounds.addText(text.length);
    return text;
  }

  #addBlockText(block: OpenBlock, text: string): void {
    block.chars += text.length;
    if (block.kind === "call" || block.kind === "search") {
      this.#bounds.addText(text.length);
      block.input.add(text);
    }
    if (block.tool?.tool !== "custom") this.#items.delta(block.key, text);
  }

  #endBlock(index: number): void {
    const block = this.#blocks.get(index);
    if (block === undefined) return;
    this.#blocks.delete(index);
    if (block.kind === "search") {
      this.#searches.addCall(block.searchId, parseObject(block.input.toString() || block.wholeInput));
      return;
    }
    if (block.chars === 0 && block.wholeInput !== "") this.#addBlockText(block, block.wholeInput);
    // A block also stops where the output limit cuts it off.
    const input = block.input.toString();
    const isCut = block.tool !== null && isCutInput(input);
    this.#hasCutCall ||= isCut;
    if (block.tool?.tool === "custom" && !isCut) this.#items.delta(block.key, unwrapCustomInput(input));
    const citations = block.citations.map((citation) => ({ ...citation, end: block.chars }));
    this.#items.end(block.key, { opaque: block.opaque, isCut, citations });
  }

  #readMessageDelta(json: Json): void {
    this.#begin({});
    const delta = readObject(json.delta);
    this.#stop = readStopReason(delta?.stop_reason) ?? this.#stop;
    this.#stopSequence = readString(delta?.stop_sequence);
    this.#takeUsage(json.usage, { isEarly: !isFinalMessagesUsage(json.usage) });
  }

  #takeUsage(json: unknown, { isEarly }: { readonly isEarly: boolean }): void {
    if (!isObject(json)) return;
    this.#usage = mergeMessagesUsage(this.#usage, json);
    const usage = readMessagesUsage(this.#usage);
    if (usage !== null) this.#events.add({ type: "usage", usage: { ...usage, isEarly } });
  }

  #finish(): void {
    this.#begin({});
    for (const index of [...this.#blocks.keys()]) this.#endBlock(index);
    for (const search of this.#searches.takeOpen()) this.#addWhole("search", search);
    const isCut = this.#hasCutCall && this.#stop === "length";
    this.#events.end(resolveStop(this.#stop, this.#hasCalls && !isCut), this.#stopSequence);
  }
}

export function readStopReason(reason: unknown): HubStop | null {
  switch (reason) {
    case "stop_sequence":
      return "stop_sequence";
    case "tool_use":
      return "tools";
    case "max_tokens":
      return "length";
    case "model_context_window_exceeded":
      return "context";
    case "refusal":
      return "filtered";
    case "pause_turn":
      return "paused";
    default:
      return typeof reason === "string" ? "end" : null;
  }
}
