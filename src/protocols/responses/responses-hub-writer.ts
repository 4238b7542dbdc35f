/** Writes the events of a response as a Responses stream. */

import type { ApiError } from "../../errors.ts";
import type { ClientTarget, HubStreamWriter } from "../hub/dialect-codec.ts";
import type { BuiltInTool, Citation } from "../hub/hub-request.ts";
import type { HubEvent, ItemEndEvent, StartedItem } from "../hub/hub-response.ts";
import { TextPieces } from "../hub/text-pieces.ts";
import { REDACTED_NAME } from "../hub/turns.ts";
import { writeUrlCitation } from "../openai/openai-annotations.ts";
import type { TokenUsage } from "../shared/usage.ts";
import { responseErrorCode } from "./generated-events.ts";
import { buildEnd, buildResponseBase, incompleteReason, writeUsage } from "./response-object.ts";
import {
  builtInCallItem,
  callItem,
  findBuiltIn,
  type ItemOptions,
  type ItemStatus,
  isVisibleReasoning,
  messageItem,
  outputTextPart,
  readItemOptions,
  reasoningItem,
  refusalPart,
  type StartedCall,
  searchItem,
} from "./responses-item-writer.ts";

const DONE = "data: [DONE]\n\n";
const SEARCH_PHASES = ["in_progress", "searching", "completed"] as const;

/** The item that the client sees in progress. */
interface OpenItem {
  readonly item: StartedItem;
  readonly id: string;
  readonly builtIn: BuiltInTool | null;
  /** The members that all events of the item have. */
  readonly place: string;
  readonly text: TextPieces;
}

export class ResponsesHubWriter implements HubStreamWriter {
  readonly #client: ClientTarget;
  readonly #items: ItemOptions;
  /** The members of the response that do not change. Built with the first event. */
  #base: Record<string, unknown> | null = null;
  /** The finished items as JSON. */
  readonly #output: string[] = [];
  #open: OpenItem | null = null;
  /** Reasoning that has begun without text. It is announced with its first text, or at its end for its state. */
  #silent: StartedItem | null = null;
  #usage: TokenUsage | null = null;
  #complete: string | null = null;
  #sequence = 0;

  constructor(client: ClientTarget) {
    this.#client = client;
    this.#items = readItemOptions(client);
  }

  write(event: HubEvent): string {
    switch (event.type) {
      case "start":
        return this.#begin(event.createdAtSeconds);
      case "item_start":
        if (event.item.kind !== "reasoning") return this.#startItem(event.item);
        this.#silent = event.item;
        return "";
      case "delta":
        return this.#delta(event.text);
      case "item_end":
        return this.#endItem(event);
      case "usage":
        this.#usage = event.usage;
        return "";
      case "end": {
        const type = incompleteReason(event.stop) === null ? "response.completed" : "response.incomplete";
        return this.#lifecycle(type, buildEnd(event.stop, this.#nowSeconds())) + DONE;
      }
      case "error":
        return "";
    }
  }

  keepAlive(): string | null {
    if (this.#base === null) return null;
    // A repeated event has its number: clients that check the order have seen it.
    const response = JSON.stringify({ ...this.#base, status: "in_progress" });
    return `event: response.in_progress\ndata: {"type":"response.in_progress","sequence_number":1,"response":${response}}\n\n`;
  }

  fail(error: ApiError): string {
    const begun = this.#base === null ? this.#begin(null) : "";
    const failure = { code: responseErrorCode(error), message: error.message };
    return begun + this.#lifecycle("response.failed", { status: "failed", error: failure }) + DONE;
  }

  completeResponse(): string | null {
    return this.#complete;
  }

  #nowSeconds(): number {
    return Math.floor(this.#client.nowMs / 1000);
  }

  #begin(createdAtSeconds: number | null): string {
    const base = buildResponseBase(this.#client, createdAtSeconds ?? this.#nowSeconds());
    this.#base = base;
    // Both events contain the same response, so it is written once.
    const response = JSON.stringify(base);
    return (
      this.#event("response.created", `"response":${response}`) +
      this.#event("response.in_progress", `"response":${response}`)
    );
  }

  #lifecycle(type: string, changes: Readonly<Record<string, unknown>>): string {
    // The items are JSON already.
    const members = { ...this.#base, ...changes, ...this.#writeUsage(), output: undefined };
    const text = JSON.stringify(members);
    this.#complete = `${text.slice(0, -1)},"output":[${this.#output.join(",")}]}`;
    return this.#event(type, `"response":${this.#complete}`);
  }

  #writeUsage(): Record<string, unknown> {
    return this.#usage === null ? {} : writeUsage(this.#usage);
  }

  #event(type: string, members: string): string {
    return `event: ${type}\ndata: {"type":"${type}","sequence_number":${this.#sequence++},${members}}\n\n`;
  }

  #startItem(item: StartedItem): string {
    const id = this.#client.newId(idPrefix(item));
    const builtIn = item.kind === "call" ? findBuiltIn(item, this.#items) : null;
    const place = `"item_id":"${id}","output_index":${this.#output.length}`;
    const open: OpenItem = { item, id, builtIn, place, text: new TextPieces() };
    this.#open = open;
    const added = this.#itemEvent("response.output_item.added", this.#itemJson(open, "", "in_progress"));
    const part = emptyPart(item);
    return part === null ? added : added + this.#partEvent("response.content_part.added", open, part);
  }

  #itemEvent(type: string, json: string): string {
    return this.#event(type, `"output_index":${this.#output.length},"item":${json}`);
  }

  #partEvent(type: string, { place }: OpenItem, part: Record<string, unknown>): string {
    return this.#event(type, `${place},"content_index":0,"part":${JSON.stringify(part)}`);
  }

  /** Announces the item that has begun silently. */
  #announce(): string {
    const silent = this.#silent;
    this.#silent = null;
    return silent === null ? "" : this.#startItem(silent);
  }

  #delta(text: string): string {
    const announced = this.#announce();
    const open = this.#open;
    if (open === null) return announced;
    const isFirst = open.text.length === 0;
    open.text.add(text);
    return announced + this.#deltaEvents(open, JSON.stringify(text), isFirst);
  }

  #deltaEvents(open: OpenItem, json: string, isFirst: boolean): string {
    switch (open.item.kind) {
      case "text":
        return this.#event(
          "response.output_text.delta",
          `${open.place},"content_index":0,"delta":${json},"logprobs":[]`,
        );
      case "refusal":
        return this.#event("response.refusal.delta", `${open.place},"content_index":0,"delta":${json}`);
      case "reasoning": {
        const added = isFirst
          ? this.#summaryPartEvent("response.reasoning_summary_part.added", open, "")
          : "";
        const members = `${open.place},"summary_index":0,"delta":${json}`;
        return added + this.#event("response.reasoning_summary_text.delta", members);
      }
      case "call":
        return open.builtIn === null
          ? this.#event(inputEvent(open.item, "delta"), `${open.place},"delta":${json}`)
          : "";
      case "search":
        return "";
    }
  }

  #summaryPartEvent(type: string, { place }: OpenItem, text: string): string {
    return this.#event(
      type,
      `${place},"summary_index":0,"part":${JSON.stringify({ type: "summary_text", text })}`,
    );
  }

  #endItem(end: ItemEndEvent): string {
    const silent = this.#silent;
    if (silent !== null && !isVisibleReasoning({ text: "", opaque: end.opaque }, this.#client)) {
      if (silent.kind === "reasoning" && silent.isRedacted) this.#client.dropped.add(REDACTED_NAME);
      this.#silent = null;
      return "";
    }
    return this.#announce() + this.#endOpen(end);
  }

  #endOpen(end: ItemEndEvent): string {
    const open = this.#open;
    if (open === null) return "";
    // Clients expect at least one delta of a function's arguments.
    const filled = open.text.length === 0 && isFunction(open) ? this.#delta("{}") : "";
    const text = open.text.toString();
    const status = end.isCut ? "incomplete" : "completed";
    const done = filled + this.#contentDone(open, text, end.citations);
    const json = this.#itemJson(open, text, status, end);
    const item = this.#itemEvent("response.output_item.done", json);
    this.#output.push(json);
    this.#open = null;
    return done + item;
  }

  #annotationEvents({ place }: OpenItem, citations: readonly Citation[]): string {
    return citations
      .map((citation, at) =>
        this.#event(
          "response.output_text.annotation.added",
          `${place},"content_index":0,"annotation_index":${at},"annotation":${JSON.stringify(writeUrlCitation(citation))}`,
        ),
      )
      .join("");
  }

  #contentDone(open: OpenItem, text: string, citations: readonly Citation[] = []): string {
    const { item, place, builtIn } = open;
    const json = JSON.stringify(text);
    switch (item.kind) {
      case "text":
        return (
          this.#annotationEvents(open, citations) +
          this.#event(
            "response.output_text.done",
            `${place},"content_index":0,"text":${json},"logprobs":[]`,
          ) +
          this.#partEvent("response.content_part.done", open, outputTextPart(text, citations))
        );
      case "refusal":
        return (
          this.#event("response.refusal.done", `${place},"content_index":0,"refusal":${json}`) +
          this.#partEvent("response.content_part.done", open, refusalPart(text))
        );
      case "reasoning":
        if (text === "") return "";
        return (
          this.#event("response.reasoning_summary_text.done", `${place},"summary_index":0,"text":${json}`) +
          this.#summaryPartEvent("response.reasoning_summary_part.done", open, text)
        );
      case "call": {
        if (builtIn !== null) return "";
        const member = item.tool === "custom" ? "input" : "arguments";
        return this.#event(inputEvent(item, "done"), `${place},"${member}":${json}`);
      }
      case "search":
        return SEARCH_PHASES.map((phase) => this.#event(`response.web_search_call.${phase}`, place)).join("");
    }
  }

  #itemJson(
    { item, id, builtIn }: OpenItem,
    text: string,
    status: ItemStatus,
    end: Pick<ItemEndEvent, "opaque" | "citations"> = { opaque: null },
  ): string {
    const isOpen = status === "in_progress";
    switch (item.kind) {
      case "text":
        return JSON.stringify(messageItem(id, status, isOpen ? [] : [outputTextPart(text, end.citations)]));
      case "refusal":
        return JSON.stringify(messageItem(id, status, isOpen ? [] : [refusalPart(text)]));
      case "reasoning":
        return JSON.stringify(reasoningItem(id, { text, opaque: end.opaque }, this.#client));
      case "call":
        return JSON.stringify(
          builtIn === null
            ? callItem(id, item, text, status)
            : builtInCallItem(id, item, { builtIn, input: text, status }),
        );
      case "search":
        return JSON.stringify(searchItem({ ...item, id, status }, this.#items));
    }
  }
}

function isFunction({ item, builtIn }: OpenItem): boolean {
  return item.kind === "call" && item.tool === "function" && builtIn === null;
}

function emptyPart({ kind }: StartedItem): Record<string, unknown> | null {
  if (kind === "text") return outputTextPart("");
  return kind === "refusal" ? refusalPart("") : null;
}

function inputEvent({ tool }: StartedCall, phase: "delta" | "done"): string {
  return tool === "custom"
    ? `response.custom_tool_call_input.${phase}`
    : `response.function_call_arguments.${phase}`;
}

function idPrefix(item: StartedItem): string {
  switch (item.kind) {
    case "text":
    case "refusal":
      return "msg_";
    case "reasoning":
      return "rs_";
    case "call":
      return item.tool === "custom" ? "ctc_" : "fc_";
    case "search":
      return "ws_";
  }
}
