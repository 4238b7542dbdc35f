/** Writes events as a Messages stream: blocks with dense indexes, each stopped before the next begins. */

import type { ApiError } from "../../errors.ts";
import { ANNOTATIONS } from "../hub/citations.ts";
import type { ClientTarget, HubStreamWriter } from "../hub/dialect-codec.ts";
import type { OpaqueState } from "../hub/hub-request.ts";
import type { HubEvent, HubStop, ItemEndEvent, StartedItem } from "../hub/hub-response.ts";
import { opaqueText } from "../hub/sealed-state.ts";
import { SEARCH_NAME } from "../hub/turns.ts";
import type { TokenUsage } from "../shared/usage.ts";
import { messagesErrorBody } from "./messages-error.ts";
import { writeMessagesUsage } from "./messages-usage.ts";

type BlockState =
  | { readonly kind: "none" }
  /** The item has begun, and its block begins with its first text: a message has no empty block. */
  | { readonly kind: "pending"; readonly item: StartedItem }
  | { readonly kind: "open"; readonly item: StartedItem; readonly hasInput: boolean };

const NONE: BlockState = { kind: "none" };

export class MessagesHubWriter implements HubStreamWriter {
  readonly #client: ClientTarget;
  #usage: TokenUsage | null = null;
  #block: BlockState = NONE;
  #index = 0;
  /** State of a text that has ended. It is written in front of the next block, because a message ends with its text. */
  #textState: OpaqueState | null = null;
  #lastKind: StartedItem["kind"] | null = null;

  constructor(client: ClientTarget) {
    this.#client = client;
  }

  write(event: HubEvent): string {
    switch (event.type) {
      case "start":
        return this.#start();
      case "item_start":
        return this.#startItem(event.item);
      case "delta":
        return this.#delta(event.text);
      case "item_end":
        return this.#endItem(event);
      case "usage":
        this.#usage = event.usage;
        return "";
      case "end":
        return this.#end(event.stop, event.stopSequence);
      case "error":
        return "";
    }
  }

  keepAlive(): string {
    return format("ping", {});
  }

  fail(error: ApiError, requestId: string): string {
    return `event: error\ndata: ${JSON.stringify(messagesErrorBody(error, requestId))}\n\n`;
  }

  /** The input is not known yet at most upstreams: clients take the first number for the size of their context. */
  #start(): string {
    const { responseId, publicModel, inputTokensEstimate } = this.#client;
    const known = this.#usage;
    const usage = known !== null && known.inputTokens > 0 ? writeMessagesUsage(known) : null;
    return format("message_start", {
      message: {
        id: responseId,
        type: "message",
        role: "assistant",
        model: publicModel,
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage: usage ?? { input_tokens: inputTokensEstimate, output_tokens: 1 },
      },
    });
  }

  /** The result of a search needs a state that only Anthropic issues, so the search is dropped. */
  #startItem(item: StartedItem): string {
    if (item.kind === "search") {
      this.#client.dropped.add(SEARCH_NAME);
      this.#block = NONE;
      return "";
    }
    const state = this.#textState === null ? "" : this.#writeState(this.#textState);
    this.#textState = null;
    this.#block = { kind: "pending", item };
    return item.kind === "call" ? state + this.#open(item) : state;
  }

  #writeState(opaque: OpaqueState): string {
    const text =
      this.#open({ kind: "reasoning", isSummary: true }) +
      this.#blockDelta({ type: "signature_delta", signature: formatOpaque(opaque) }) +
      format("content_block_stop", { index: this.#index });
    this.#index++;
    return text;
  }

  #open(item: StartedItem): string {
    this.#block = { kind: "open", item, hasInput: false };
    return format("content_block_start", { index: this.#index, content_block: buildBlock(item) });
  }

  #delta(text: string): string {
    const block = this.#block;
    if (block.kind === "none") return "";
    const opening = block.kind === "pending" ? this.#open(block.item) : "";
    this.#block = { kind: "open", item: block.item, hasInput: true };
    return opening + this.#blockDelta(writeDelta(block.item, text));
  }

  #blockDelta(delta: object): string {
    return format("content_block_delta", { index: this.#index, delta });
  }

  #endItem({ opaque, citations }: ItemEndEvent): string {
    const block = this.#block;
    const before = this.#lastKind;
    this.#block = NONE;
    if (block.kind === "none") return "";
    const { item } = block;
    this.#lastKind = item.kind;
    if (citations !== undefined) this.#client.dropped.add(ANNOTATIONS);
    if (block.kind === "pending" && item.kind === "reasoning" && before === "text") {
      this.#textState = opaque;
      return "";
    }
    // Reasoning without text is written for its state alone.
    if (block.kind === "pending" && (item.kind !== "reasoning" || opaque === null)) return "";
    let text = block.kind === "pending" ? this.#open(item) : "";
    this.#block = NONE;
    if (item.kind === "reasoning")
      text += this.#blockDelta({ type: "signature_delta", signature: formatOpaque(opaque) });
    if (item.kind === "call" && block.kind === "open" && !block.hasInput)
      text += this.#blockDelta({ type: "input_json_delta", partial_json: "{}" });
    text += format("content_block_stop", { index: this.#index });
    this.#index++;
    return text;
  }

  #end(stop: HubStop, stopSequence: string | null): string {
    if (this.#textState !== null) this.#client.dropped.add("thought_signature");
    const usage = this.#usage === null ? { output_tokens: 0 } : writeMessagesUsage(this.#usage);
    const delta = { stop_reason: writeStopReason(stop), stop_sequence: stopSequence };
    return format("message_delta", { delta, usage }) + format("message_stop", {});
  }
}

function format(type: string, fields: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
}

function buildBlock(item: StartedItem): object {
  switch (item.kind) {
    case "reasoning":
      return { type: "thinking", thinking: "", signature: "" };
    case "call":
      return { type: "tool_use", id: item.callId, name: item.name, input: {} };
    default:
      return { type: "text", text: "" };
  }
}

function writeDelta(item: StartedItem, text: string): object {
  switch (item.kind) {
    case "reasoning":
      return { type: "thinking_delta", thinking: text };
    case "call":
      return { type: "input_json_delta", partial_json: text };
    default:
      return { type: "text_delta", text };
  }
}

/** The client sends it back unchanged. Empty if the upstream has no state: never a made-up signature. */
export function formatOpaque(opaque: OpaqueState | null): string {
  return opaque === null ? "" : opaqueText(opaque);
}

export function writeStopReason(stop: HubStop): string {
  switch (stop) {
    case "end":
    case "failed":
      return "end_turn";
    case "stop_sequence":
      return "stop_sequence";
    case "tools":
      return "tool_use";
    case "length":
      return "max_tokens";
    case "context":
      return "model_context_window_exceeded";
    case "filtered":
      return "refusal";
    case "paused":
      return "pause_turn";
  }
}
