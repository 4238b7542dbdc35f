/**
 * Reads the chunks of a Chat Completions stream as events between dialects. The usage follows the finish reason, so the
 * end is reported at `[DONE]` or when the upstream closes.
 */

import { CallIds } from "../hub/call-ids.ts";
import { ANNOTATIONS, moveCitations } from "../hub/citations.ts";
import { isCutInput } from "../hub/custom-input.ts";
import type { ClientTool, HubStreamReader, ResponseReadOptions } from "../hub/dialect-codec.ts";
import type { Citation } from "../hub/hub-request.ts";
import type { HubEvent, HubStop } from "../hub/hub-response.ts";
import { ItemSequencer } from "../hub/item-sequencer.ts";
import { JsonProgress } from "../hub/json-progress.ts";
import { type Json, parseObject, readNumber, readObject, readString } from "../hub/json-values.ts";
import { ResponseBounds } from "../hub/response-bounds.ts";
import { BROKEN_OFF, resolveStop, StreamEvents } from "../hub/stream-events.ts";
import { TextPieces } from "../hub/text-pieces.ts";
import { readAnnotations } from "../openai/openai-annotations.ts";
import { readUpstreamError } from "../shared/upstream-error.ts";
import { readUsage, withTier } from "../shared/usage.ts";
import { withImpliedSearch } from "../shared/web-searches.ts";
import { type ChatCall, readCallInput, readChatCall, resolveCall } from "./chat-calls.ts";
import { noteLogprobs, noteMessageLosses, readContent } from "./chat-content.ts";

const DONE = "[DONE]";

interface OpenCall {
  readonly key: string;
  /** As the upstream sent it; empty if it sent none. */
  readonly upstreamId: string;
  /** Whether the arguments are complete. */
  readonly progress: JsonProgress;
  /** Null until the name is known: the call is not announced before. */
  tool: ClientTool | null;
  readonly callId: string;
  isCustom: boolean;
  isEnded: boolean;
  readonly text: TextPieces;
}

export class ChatHubReader implements HubStreamReader {
  readonly #options: ResponseReadOptions;
  readonly #bounds = new ResponseBounds();
  readonly #events = new StreamEvents();
  readonly #items = new ItemSequencer(this.#events.list, this.#bounds);
  #callIds: CallIds | null = null;
  readonly #calls = new Map<string, OpenCall>();
  /** The latest call of each index, of each id, and of all. */
  readonly #callsByIndex = new Map<number, OpenCall>();
  readonly #callsById = new Map<string, OpenCall>();
  #lastCall: OpenCall | null = null;
  /** Annotations of the open text. Their places are counted from the beginning of the message. */
  #citations: Citation[] = [];
  /** The characters of all texts, and of those before the open one. */
  #textChars = 0;
  #textStart = 0;
  #stop: HubStop | null = null;
  #tier: string | null = null;
  #hasCalls = false;
  /** The output limit cut a call off, so that it cannot be run. */
  #hasCutCall = false;

  constructor(options: ResponseReadOptions) {
    this.#options = options;
  }

  read(data: string, name: string | null): readonly HubEvent[] {
    if (this.#events.isOver) return this.#events.take();
    if (data === DONE) this.#finish();
    const json = data === DONE ? null : parseObject(data);
    if (json === null) return this.#events.take();
    const error =
      name === "error" || json.error != null || isErrorObject(json) ? readUpstreamError(json) : null;
    if (error !== null) {
      this.#events.fail(error);
      return this.#events.take();
    }
    this.#begin(json);
    const choice = this.#bounds.readFirstChoice(json.choices);
    if (choice !== undefined) this.#readChoice(choice);
    this.#tier = readString(json.service_tier) ?? this.#tier;
    // Groq reports the usage of a stream in a member of its own.
    const reported = readUsage(json.usage ?? readObject(json.x_groq)?.usage);
    const usage = withImpliedSearch(withTier(reported, this.#tier), readString(json.model));
    // Some upstreams report usage with every chunk. It is final only after the finish reason.
    if (usage !== null)
      this.#events.add({ type: "usage", usage: { ...usage, isEarly: this.#stop === null } });
    return this.#events.take();
  }

  close(): readonly HubEvent[] {
    if (this.#events.isOver) return this.#events.take();
    if (this.#stop === null) this.#events.fail(BROKEN_OFF);
    else this.#finish();
    return this.#events.take();
  }

  #begin(json: Json): void {
    if (this.#callIds !== null) return;
    const responseId = readString(json.id);
    this.#callIds = new CallIds(responseId, this.#bounds);
    this.#events.add({
      type: "start",
      responseId,
      createdAtSeconds: readNumber(json.created),
      model: readString(json.model),
    });
  }

  #readChoice(choice: Json): void {
    const delta = readObject(choice.delta) ?? readObject(choice.message);
    if (delta !== null) this.#readDelta(delta);
    noteLogprobs(choice, this.#options.dropped);
    const stop = readStop(choice.finish_reason);
    if (stop === null) return;
    this.#stop = stop;
    this.#endItems();
  }

  #readDelta(delta: Json): void {
    const reasoning = readString(delta.reasoning_content) || readString(delta.reasoning);
    if (reasoning) this.#addText("reasoning", reasoning);
    for (const { kind, text } of readContent(delta.content, this.#options.dropped, this.#bounds))
      this.#addText(kind, text);
    noteMessageLosses(delta, this.#options.dropped);
    if (delta.annotations !== undefined) this.#addAnnotations(delta.annotations);
    const refusal = readString(delta.refusal);
    if (refusal) this.#addText("refusal", refusal);
    for (const call of this.#bounds.readList(delta.tool_calls)) this.#readCall(call);
    const legacy = readObject(delta.function_call);
    if (legacy !== null) this.#readCall({ index: 0, function: legacy });
  }

  #addText(kind: "reasoning" | "text" | "refusal", text: string): void {
    if (!this.#items.has(kind)) {
      this.#endBefore(kind);
      this.#items.start(kind, kind === "reasoning" ? { kind, isSummary: false } : { kind });
      this.#textStart = this.#textChars;
    }
    if (kind === "text") this.#textChars += text.length;
    this.#items.delta(kind, text);
  }

  #addAnnotations(annotations: unknown): void {
    const list = this.#bounds.readList(annotations);
    this.#citations.push(...readAnnotations(list, this.#options.dropped, this.#bounds));
  }

  #endText(kind: string, isCut: boolean): void {
    if (kind !== "text") {
      this.#items.end(kind, { isCut });
      return;
    }
    const citations = moveCitations(this.#citations, -this.#textStart);
    this.#citations = [];
    this.#items.end(kind, { isCut, citations });
  }

  #readCall(json: Json): void {
    const part = readChatCall(json);
    const call = this.#findContinued(json, part) ?? this.#openCall(json);
    if (call.tool === null && part.name !== null) this.#announce(call, part);
    this.#addArguments(call, part.text);
  }

  /** The call that the part belongs to; null if it begins another one. */
  #findContinued(json: Json, part: ChatCall): OpenCall | null {
    const index = readNumber(json.index);
    const id = readString(json.id) ?? "";
    if (index !== null) {
      const call = this.#callsByIndex.get(index) ?? null;
      return call !== null && isAnotherCall(call, id, part) ? null : call;
    }
    // Upstreams without indexes send whole calls, or go on with the last one.
    if (id !== "") return this.#callsById.get(id) ?? null;
    return part.name === null ? this.#lastCall : null;
  }

  #openCall(json: Json): OpenCall {
    const key = `call ${this.#calls.size}`;
    const callId = (this.#callIds ?? new CallIds(null, this.#bounds)).assign(json.id);
    const upstreamId = readString(json.id) ?? "";
    const progress = new JsonProgress();
    const call: OpenCall = {
      key,
      upstreamId,
      progress,
      tool: null,
      callId,
      isCustom: false,
      isEnded: false,
      text: new TextPieces(),
    };
    const index = readNumber(json.index);
    if (index !== null) this.#callsByIndex.set(index, call);
    if (upstreamId !== "") this.#callsById.set(upstreamId, call);
    this.#lastCall = call;
    this.#calls.set(key, call);
    return call;
  }

  #announce(call: OpenCall, part: ChatCall): void {
    call.tool = resolveCall(this.#options.toolNames, part);
    call.isCustom = part.isCustom;
    this.#hasCalls = true;
    this.#endBefore(call.key);
    this.#items.start(call.key, { kind: "call", callId: call.callId, ...call.tool });
    if (!this.#isWrapped(call)) this.#items.delta(call.key, call.text.toString());
  }

  #addArguments(call: OpenCall, text: string): void {
    if (text === "") return;
    this.#bounds.addText(text.length);
    call.text.add(text);
    call.progress.add(text);
    if (call.tool !== null && !this.#isWrapped(call)) this.#items.delta(call.key, text);
  }

  /** A function stands in for the custom tool: its input is known when the arguments are complete. */
  #isWrapped({ tool, isCustom }: OpenCall): boolean {
    return tool?.tool === "custom" && !isCustom;
  }

  /** Another item begins: texts end, and calls whose arguments are complete. The others wait for more. */
  #endBefore(key: string): void {
    for (const open of this.#items.openKeys) {
      if (open === key) continue;
      const call = this.#calls.get(open);
      if (call === undefined) this.#endText(open, false);
      else if (call.isCustom || call.progress.isComplete) this.#endCall(call, false);
    }
  }

  /** A call that has ended may wait for the end of another one, and is open until then. */
  #endCall(call: OpenCall, isCut: boolean): void {
    if (call.isEnded) return;
    call.isEnded = true;
    if (this.#isWrapped(call) && call.tool !== null && !isCut)
      this.#items.delta(call.key, readCallInput(call.tool, { ...call, text: call.text.toString() }));
    this.#items.end(call.key, { isCut });
  }

  #endItems(): void {
    const isLength = this.#stop === "length";
    for (const key of this.#items.openKeys) {
      const call = this.#calls.get(key);
      const isCut = isLength && (call === undefined || (!call.isCustom && isCutInput(call.text.toString())));
      if (call === undefined) this.#endText(key, isCut);
      else {
        this.#hasCutCall ||= isCut;
        this.#endCall(call, isCut);
      }
    }
  }

  #finish(): void {
    this.#endItems();
    // `[DONE]` without any chunk: the upstream has failed.
    if (this.#callIds === null) {
      this.#events.fail({ ...BROKEN_OFF, message: "" });
      return;
    }
    if (this.#citations.length > 0) this.#options.dropped.add(ANNOTATIONS);
    this.#events.end(resolveStop(this.#stop, this.#hasCalls && !this.#hasCutCall));
  }
}

/** Some upstreams number all calls of a response 0. Complete arguments cannot go on, so they belong to another call. */
function isAnotherCall({ upstreamId, progress }: OpenCall, id: string, part: ChatCall): boolean {
  if (part.name === null || !progress.isComplete) return false;
  return id === "" ? part.text !== "" : id !== upstreamId;
}

/** Errors of vLLM and others, whose fields are at the top level. */
function isErrorObject({ object, type, choices }: Json): boolean {
  return choices === undefined && (object === "error" || type === "error");
}

export function readStop(reason: unknown): HubStop | null {
  switch (reason) {
    case "stop":
    case "eos":
      return "end";
    case "tool_calls":
    case "function_call":
      return "tools";
    case "length":
      return "length";
    case "content_filter":
      return "filtered";
    default:
      return typeof reason === "string" ? "end" : null;
  }
}
