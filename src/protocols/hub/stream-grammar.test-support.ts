/** Small state machines that accept the streams that clients of each dialect accept. They throw at the first fault. */

import { parseSse } from "./codec.test-support.ts";

type Json = Record<string, unknown>;

function fault(at: number, text: string): never {
  throw new Error(`event ${at}: ${text}`);
}

/** `event:` equals the type, numbers are dense, items do not overlap, and every part is closed. */
export function checkResponsesStream(text: string): void {
  const events = parseSse(text);
  if (events.pop()?.data !== "[DONE]") fault(events.length, "no [DONE] at the end");
  const machine = new ResponsesMachine();
  events.forEach(({ name, data }, at) => {
    const json: Json = JSON.parse(data);
    if (json.type !== name) fault(at, `named ${name}, but of type ${json.type}`);
    if (json.sequence_number !== at) fault(at, `has the number ${json.sequence_number}`);
    machine.accept(at, json);
  });
  if (machine.state !== "ended") fault(events.length, `ends in state ${machine.state}`);
}

class ResponsesMachine {
  state: "new" | "created" | "between" | "item" | "part" | "ended" = "new";
  #items = 0;
  #item: Json = {};
  #text = "";

  accept(at: number, event: Json): void {
    const type = String(event.type);
    if (this.state === "ended") fault(at, "follows the terminal event");
    if (type === "response.created") this.#move(at, "new", "created");
    else if (type === "response.in_progress") this.#move(at, "created", "between");
    else if (type === "response.output_item.added") this.#add(at, event);
    else if (type.endsWith("part.added")) this.#move(at, "item", "part");
    else if (type.endsWith("part.done")) this.#move(at, "part", "item");
    else if (type.endsWith(".delta")) this.#text += this.#inItem(at, event).delta;
    else if (type === "response.output_item.done") this.#end(at, event);
    else if (type.endsWith("annotation.added") || type.startsWith("response.web_search_call."))
      this.#inItem(at, event);
    else if (type.endsWith(".done")) this.#check(at, this.#inItem(at, event));
    else this.#finish(at, type, event);
  }

  #move(at: number, from: typeof this.state, to: typeof this.state): void {
    if (this.state !== from) fault(at, `in state ${this.state}, expected ${from}`);
    this.state = to;
  }

  #add(at: number, event: Json): void {
    this.#move(at, "between", "item");
    if (event.output_index !== this.#items) fault(at, `item ${event.output_index}, expected ${this.#items}`);
    this.#item = event.item as Json;
    this.#text = "";
  }

  #inItem(at: number, event: Json): Json {
    if (this.state !== "item" && this.state !== "part") fault(at, `outside of an item`);
    if (event.item_id !== this.#item.id || event.output_index !== this.#items) fault(at, "of another item");
    return event;
  }

  #check(at: number, event: Json): void {
    const whole = event.text ?? event.arguments ?? event.input ?? event.refusal;
    if (whole !== this.#text) fault(at, "differs from its deltas");
  }

  #end(at: number, event: Json): void {
    this.#move(at, "item", "between");
    const item = event.item as Json;
    if (item.id !== this.#item.id || item.type !== this.#item.type) fault(at, "ends another item");
    this.#items++;
  }

  #finish(at: number, type: string, event: Json): void {
    if (!["response.completed", "response.incomplete", "response.failed"].includes(type))
      fault(at, `unknown ${type}`);
    if (type !== "response.failed" && this.state !== "between") fault(at, `in state ${this.state}`);
    const { output } = event.response as { output: unknown[] };
    if (output.length !== this.#items) fault(at, `has ${output.length} items, expected ${this.#items}`);
    this.state = "ended";
  }
}

/** One id, the role first, dense indexes of calls, one finish reason, at most one usage chunk, then `[DONE]`. */
export function checkChatStream(text: string): void {
  const events = parseSse(text);
  const chunks: Json[] = events.slice(0, -1).map(({ data }) => JSON.parse(data));
  if (events.at(-1)?.data !== "[DONE]") fault(events.length, "no [DONE] at the end");
  if (new Set(chunks.map(({ id, created }) => `${id} ${created}`)).size !== 1) fault(0, "several ids");
  let calls = 0;
  let state: "new" | "open" | "finished" | "counted" = "new";
  chunks.forEach(({ choices, usage }, at) => {
    const [choice] = choices as { delta: Json; finish_reason: string | null }[];
    if (choice === undefined) {
      if (state !== "finished" || usage == null) fault(at, "a chunk without a choice");
      state = "counted";
      return;
    }
    if (state !== (at === 0 ? "new" : "open")) fault(at, `in state ${state}`);
    if (at === 0 && choice.delta.role !== "assistant") fault(at, "no role");
    state = choice.finish_reason === null ? "open" : "finished";
    for (const call of (choice.delta.tool_calls ?? []) as Json[]) {
      if (typeof call.id === "string" ? call.index !== calls++ : call.index !== calls - 1)
        fault(at, `call ${call.index} of ${calls}`);
    }
    if (choice.finish_reason === "tool_calls" && calls === 0) fault(at, "no calls");
  });
  const last: string = state;
  if (last !== "finished" && last !== "counted") fault(chunks.length, `ends in state ${last}`);
}

/** One start, dense blocks one after the other, deltas of the type of their block, and one end. */
export function checkMessagesStream(text: string): void {
  const machine = new MessagesMachine();
  const events = parseSse(text);
  events.forEach(({ name, data }, at) => {
    const json: Json = JSON.parse(data);
    if (json.type !== name) fault(at, `named ${name}, but of type ${json.type}`);
    machine.accept(at, json);
  });
  if (machine.state !== "ended") fault(events.length, `ends in state ${machine.state}`);
}

const DELTAS_BY_BLOCK: Readonly<Record<string, readonly string[]>> = {
  text: ["text_delta"],
  thinking: ["thinking_delta", "signature_delta"],
  tool_use: ["input_json_delta"],
};

class MessagesMachine {
  state: "new" | "between" | "block" | "stopping" | "ended" = "new";
  #blocks = 0;
  #calls = 0;
  #block: Json = {};
  #input = "";
  /** The types of the block's deltas. */
  #deltas: string[] = [];

  accept(at: number, event: Json): void {
    switch (event.type) {
      case "ping":
        if (this.state === "ended") fault(at, "follows the end");
        return;
      case "message_start":
        this.#move(at, "new", "between");
        this.#checkStart(at, event.message as Json);
        return;
      case "content_block_start":
        this.#move(at, "between", "block");
        this.#startBlock(at, event);
        return;
      case "content_block_delta":
        this.#move(at, "block", "block");
        this.#addDelta(at, event);
        return;
      case "content_block_stop":
        this.#move(at, "block", "between");
        this.#stopBlock(at, event);
        return;
      case "message_delta":
        this.#move(at, "between", "stopping");
        this.#checkStop(at, event);
        return;
      case "message_stop":
        this.#move(at, "stopping", "ended");
        return;
      default:
        fault(at, `unknown ${event.type}`);
    }
  }

  #move(at: number, from: typeof this.state, to: typeof this.state): void {
    if (this.state !== from) fault(at, `in state ${this.state}, expected ${from}`);
    this.state = to;
  }

  /** Clients take the first number for the size of their context. */
  #checkStart(at: number, { content, usage }: Json): void {
    if ((content as unknown[]).length > 0) fault(at, "starts with content");
    if (Number((usage as Json).input_tokens) <= 0) fault(at, "starts without the size of the input");
  }

  #startBlock(at: number, { index, content_block }: Json): void {
    if (index !== this.#blocks) fault(at, `block ${index}, expected ${this.#blocks}`);
    this.#block = content_block as Json;
    this.#deltas = [];
    this.#input = "";
    if (this.#block.type === "tool_use") {
      this.#calls++;
      if (JSON.stringify(this.#block.input) !== "{}") fault(at, "a call starts with input");
    }
  }

  #addDelta(at: number, { index, delta }: Json): void {
    if (index !== this.#blocks) fault(at, "of another block");
    const { type, partial_json: piece } = delta as Json;
    if (!DELTAS_BY_BLOCK[String(this.#block.type)]?.includes(String(type)))
      fault(at, `${type} in a block of type ${this.#block.type}`);
    if (this.#deltas.at(-1) === "signature_delta") fault(at, "follows the signature");
    this.#deltas.push(String(type));
    this.#input += typeof piece === "string" ? piece : "";
  }

  #stopBlock(at: number, { index }: Json): void {
    if (index !== this.#blocks) fault(at, "ends another block");
    if (this.#deltas.length === 0) fault(at, "ends an empty block");
    if (this.#block.type === "thinking" && this.#deltas.at(-1) !== "signature_delta")
      fault(at, "ends thinking without a signature");
    if (this.#block.type === "tool_use" && this.#input === "") fault(at, "ends a call without input");
    this.#blocks++;
  }

  #checkStop(at: number, { delta, usage }: Json): void {
    const { stop_reason: reason } = delta as Json;
    if (typeof reason !== "string") fault(at, "no stop reason");
    if (reason === "tool_use" && this.#calls === 0) fault(at, "no calls");
    if (typeof (usage as Json).output_tokens !== "number") fault(at, "no count of the output");
  }
}

/** Whole responses with new parts, one finish reason in the last one, and no names or end marker. */
export function checkGeminiStream(text: string): void {
  const events = parseSse(text);
  if (events.length === 0) fault(0, "no events");
  const ids = new Set<unknown>();
  events.forEach(({ name, data }, at) => {
    if (name !== null) fault(at, `named ${name}`);
    const { candidates, responseId, modelVersion }: Json = JSON.parse(data);
    ids.add(`${responseId} ${modelVersion}`);
    const [candidate, ...others] = candidates as { content: Json; finishReason?: string; index: number }[];
    if (candidate === undefined || others.length > 0) fault(at, "not one candidate");
    if (candidate.content.role !== "model" || candidate.index !== 0) fault(at, "not of the model");
    if ((candidate.finishReason !== undefined) !== (at === events.length - 1))
      fault(at, `finish reason ${candidate.finishReason}`);
    for (const part of candidate.content.parts as Json[]) checkGeminiPart(at, part);
  });
  if (ids.size !== 1) fault(0, "several ids");
}

/** Signatures are bytes in Base64, which Google and its clients check. */
function checkGeminiPart(at: number, { text, functionCall, thoughtSignature }: Json): void {
  if ((typeof text === "string") === (functionCall !== undefined)) fault(at, "not one of text and call");
  if (functionCall !== undefined) {
    const { name, args } = functionCall as Json;
    if (typeof name !== "string" || typeof args !== "object" || args === null) fault(at, "an invalid call");
  }
  if (thoughtSignature === undefined) return;
  const signature = String(thoughtSignature);
  if (Buffer.from(signature, "base64").toString("base64") !== signature)
    fault(at, "a signature not in Base64");
}
