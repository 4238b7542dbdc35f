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
