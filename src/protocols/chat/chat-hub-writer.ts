/** Writes the events of a response as chunks of a Chat Completions stream. */

import { type ApiError, errorObject } from "../../errors.ts";
import { moveCitations } from "../hub/citations.ts";
import type { ClientTarget, HubStreamWriter } from "../hub/dialect-codec.ts";
import type { HubEvent, HubStop, ItemEndEvent, StartedItem } from "../hub/hub-response.ts";
import { REDACTED_NAME, SEARCH_NAME } from "../hub/turns.ts";
import type { TokenUsage } from "../shared/usage.ts";
import { writeAnnotations } from "./chat-annotations.ts";
import { writeUsageMembers } from "./chat-usage.ts";

const DONE = "data: [DONE]\n\n";

/** Chunks share everything but their delta, so the text around the delta is built once. */
export class ChatHubWriter implements HubStreamWriter {
  readonly #client: ClientTarget;
  readonly #usageNull: string;
  #head = "";
  #usage: TokenUsage | null = null;
  #item: StartedItem | null = null;
  #calls = 0;
  /** The characters of the texts that have ended. */
  #endedChars = 0;
  /** The characters of the open item. */
  #openChars = 0;
  /** The annotations of all texts. Clients expect them in one chunk, as OpenAI sends them. */
  readonly #annotations: object[] = [];

  constructor(client: ClientTarget) {
    this.#client = client;
    this.#usageNull = client.wantsUsageChunk ? ',"usage":null' : "";
  }

  write(event: HubEvent): string {
    switch (event.type) {
      case "start":
        this.#head = this.#buildHead(event.createdAtSeconds);
        return this.#chunk('{"role":"assistant","content":""}', null);
      case "item_start":
        this.#item = event.item;
        if (event.item.kind === "search") this.#client.dropped.add(SEARCH_NAME);
        if (event.item.kind === "reasoning" && event.item.isRedacted) this.#client.dropped.add(REDACTED_NAME);
        return event.item.kind === "call" ? this.#startCall(event.item) : "";
      case "delta":
        this.#openChars += event.text.length;
        return this.#chunk(this.#delta(JSON.stringify(event.text)), null);
      case "item_end":
        return this.#endItem(event);
      case "usage":
        this.#usage = event.usage;
        return "";
      case "end":
        return (
          this.#annotationsChunk() +
          this.#chunk("{}", writeFinishReason(event.stop)) +
          this.#usageChunk() +
          DONE
        );
      case "error":
        return "";
    }
  }

  keepAlive(): null {
    return null;
  }

  /** Without `[DONE]`, so that clients do not take the response for complete. */
  fail(error: ApiError, requestId: string): string {
    return `data: ${JSON.stringify({ error: errorObject(error, requestId) })}\n\n`;
  }

  #buildHead(createdAtSeconds: number | null): string {
    const { responseId, publicModel, nowMs } = this.#client;
    const created = createdAtSeconds ?? Math.floor(nowMs / 1000);
    const id = JSON.stringify(responseId);
    return `data: {"id":${id},"object":"chat.completion.chunk","created":${created},"model":${JSON.stringify(publicModel)},"choices":[`;
  }

  #chunk(delta: string, finishReason: string | null): string {
    const finish = finishReason === null ? "null" : `"${finishReason}"`;
    return `${this.#head}{"index":0,"delta":${delta},"finish_reason":${finish}}]${this.#usageNull}}\n\n`;
  }

  #delta(text: string): string {
    const item = this.#item;
    switch (item?.kind) {
      case "reasoning":
        return `{"reasoning_content":${text}}`;
      case "refusal":
        return `{"refusal":${text}}`;
      case "call":
        return item.tool === "custom"
          ? `{"tool_calls":[{"index":${this.#calls},"custom":{"input":${text}}}]}`
          : `{"tool_calls":[{"index":${this.#calls},"function":{"arguments":${text}}}]}`;
      default:
        return `{"content":${text}}`;
    }
  }

  /** The texts of a response are one message, and the places of annotations are counted from its beginning. */
  #endItem({ citations = [], isCut }: ItemEndEvent): string {
    const item = this.#item;
    const chars = this.#openChars;
    // Clients parse the arguments as JSON, also those of a call without any.
    const isBare = item?.kind === "call" && item.tool === "function" && chars === 0 && !isCut;
    const filled = isBare ? this.#chunk(this.#delta('"{}"'), null) : "";
    if (item?.kind === "call") this.#calls++;
    this.#annotations.push(...writeAnnotations(moveCitations(citations, this.#endedChars)));
    if (item?.kind === "text") this.#endedChars += chars;
    this.#item = null;
    this.#openChars = 0;
    return filled;
  }

  #annotationsChunk(): string {
    const annotations = this.#annotations;
    return annotations.length === 0 ? "" : this.#chunk(JSON.stringify({ annotations }), null);
  }

  #startCall({ callId, name, tool }: Extract<StartedItem, { kind: "call" }>): string {
    const call =
      tool === "custom"
        ? { index: this.#calls, id: callId, type: "custom", custom: { name, input: "" } }
        : { index: this.#calls, id: callId, type: "function", function: { name, arguments: "" } };
    return this.#chunk(JSON.stringify({ tool_calls: [call] }), null);
  }

  #usageChunk(): string {
    if (!this.#client.wantsUsageChunk || this.#usage === null) return "";
    return `${this.#head}],${JSON.stringify(writeUsageMembers(this.#usage)).slice(1)}\n\n`;
  }
}

export function writeFinishReason(stop: HubStop): string {
  switch (stop) {
    case "tools":
      return "tool_calls";
    case "length":
    case "context":
      return "length";
    case "filtered":
      return "content_filter";
    case "end":
    case "stop_sequence":
    case "paused":
    case "failed":
      return "stop";
  }
}
