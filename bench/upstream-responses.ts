/** The responses of the upstream, built once: a completion of about 1 KB, and streams of events in the real shapes. */

import { EVENTS_PER_STREAM } from "./request-bodies.ts";

const MODEL = "bench-model";
const CREATED = 1_790_000_000;

/** Large numbers never reach a bench, so usage is the same for every response. */
const CHAT_USAGE = {
  prompt_tokens: 212,
  completion_tokens: 57,
  total_tokens: 269,
  prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0 },
};

export function completion(): string {
  const content =
    "The second step reads a file that the first one writes only when it succeeds.\n\n" +
    'Run both with "--verbose" and compare the paths: '.repeat(7);
  return JSON.stringify({
    id: "chatcmpl-BenchBenchBenchBenchBench01",
    object: "chat.completion",
    created: CREATED,
    model: MODEL,
    choices: [
      {
        index: 0,
        message: { role: "assistant", content, refusal: null, annotations: [] },
        logprobs: null,
        finish_reason: "stop",
      },
    ],
    usage: CHAT_USAGE,
    service_tier: "default",
    system_fingerprint: "fp_benchbench",
  });
}

export interface StreamEvent {
  text: string;
  /** Sent only when the request includes usage; clients of the bench do not, so it is no event to them. */
  onlyWithUsage: boolean;
}

/** What stands in the event's data, which over a socket is all of it. */
export function eventJson({ text }: StreamEvent): string {
  return text.slice(text.indexOf("data: ") + "data: ".length).trimEnd();
}

const WORDS = [" the", " second", " step", " reads", " a", " file", ",", " then", ' "waits"', "\n"];

function word(i: number): string {
  return WORDS[i % WORDS.length] ?? "";
}

export function chatStream(): StreamEvent[] {
  const chunk = (rest: object) =>
    `data: ${JSON.stringify({
      id: "chatcmpl-BenchBenchBenchBenchBench01",
      object: "chat.completion.chunk",
      created: CREATED,
      model: MODEL,
      service_tier: "default",
      system_fingerprint: "fp_benchbench",
      ...rest,
    })}\n\n`;
  const choice = (delta: object, finish: string | null, i: number) =>
    chunk({
      choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
      obfuscation: "x".repeat(4 + (i % 9)),
    });
  const events = [choice({ role: "assistant", content: "", refusal: null }, null, 0)];
  for (let i = 0; events.length < EVENTS_PER_STREAM - 2; i++) {
    events.push(choice({ content: word(i) }, null, i));
  }
  events.push(choice({}, "stop", 0));
  const stream = events.map((text) => ({ text, onlyWithUsage: false }));
  stream.push({ text: chunk({ choices: [], usage: CHAT_USAGE }), onlyWithUsage: true });
  stream.push({ text: "data: [DONE]\n\n", onlyWithUsage: false });
  return stream;
}

export function responsesStream(count: number): StreamEvent[] {
  const events: string[] = [];
  const add = (type: string, rest: object) => {
    const data = JSON.stringify({ type, sequence_number: events.length, ...rest });
    events.push(`event: ${type}\ndata: ${data}\n\n`);
  };
  const position = {
    item_id: "msg_benchbenchbenchbenchbench0001",
    output_index: 0,
    content_index: 0,
  };
  const deltas = count - 8;
  let fullText = "";
  for (let i = 0; i < deltas; i++) fullText += word(i);
  const part = (text: string) => ({ type: "output_text", annotations: [], logprobs: [], text });
  const item = (status: string, content: object[]) => ({
    id: position.item_id,
    type: "message",
    status,
    role: "assistant",
    content,
  });
  const response = (status: string, output: object[], usage: object | null) => ({
    id: "resp_benchbenchbenchbenchbench0001",
    object: "response",
    created_at: CREATED,
    status,
    background: false,
    error: null,
    incomplete_details: null,
    model: MODEL,
    output,
    parallel_tool_calls: true,
    previous_response_id: null,
    reasoning: { effort: null, summary: null },
    service_tier: "default",
    store: false,
    temperature: 1,
    text: { format: { type: "text" }, verbosity: "medium" },
    tool_choice: "auto",
    tools: [],
    top_p: 1,
    truncation: "disabled",
    usage,
    metadata: {},
  });

  add("response.created", { response: response("in_progress", [], null) });
  add("response.in_progress", { response: response("in_progress", [], null) });
  add("response.output_item.added", { output_index: 0, item: item("in_progress", []) });
  add("response.content_part.added", { ...position, part: part("") });
  for (let i = 0; i < deltas; i++) {
    const obfuscation = "x".repeat(4 + (i % 9));
    add("response.output_text.delta", { ...position, delta: word(i), logprobs: [], obfuscation });
  }
  add("response.output_text.done", { ...position, text: fullText, logprobs: [] });
  add("response.content_part.done", { ...position, part: part(fullText) });
  add("response.output_item.done", { output_index: 0, item: item("completed", [part(fullText)]) });
  const usage = {
    input_tokens: 212,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 57,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 269,
  };
  add("response.completed", {
    response: response("completed", [item("completed", [part(fullText)])], usage),
  });
  return events.map((text) => ({ text, onlyWithUsage: false }));
}
