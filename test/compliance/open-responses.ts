/** The shapes of the Open Responses specification: a response, its items and the events of its stream. */

import { z } from "zod";

const count = z.int().nonnegative();

const outputText = z.object({
  type: z.literal("output_text"),
  text: z.string(),
  annotations: z.array(z.unknown()),
  logprobs: z.array(z.unknown()).optional(),
});
const refusal = z.object({ type: z.literal("refusal"), refusal: z.string() });
const summaryText = z.object({ type: z.literal("summary_text"), text: z.string() });
const part = z.discriminatedUnion("type", [outputText, refusal, summaryText]);

const itemStatus = z.enum(["in_progress", "completed", "incomplete"]);

const item = z.discriminatedUnion("type", [
  z.looseObject({
    type: z.literal("message"),
    id: z.string(),
    status: itemStatus,
    role: z.literal("assistant"),
    content: z.array(z.discriminatedUnion("type", [outputText, refusal])),
  }),
  z.looseObject({
    type: z.literal("function_call"),
    id: z.string(),
    status: itemStatus,
    call_id: z.string(),
    name: z.string(),
    arguments: z.string(),
  }),
  z.looseObject({ type: z.literal("reasoning"), id: z.string(), summary: z.array(summaryText) }),
  z.looseObject({ type: z.literal("compaction"), id: z.string(), encrypted_content: z.string() }),
]);

const usage = z.looseObject({
  input_tokens: count,
  input_tokens_details: z.looseObject({ cached_tokens: count }),
  output_tokens: count,
  output_tokens_details: z.looseObject({ reasoning_tokens: count }),
  total_tokens: count,
});

/** Every key is required; those that may be null say so. */
export const responseObject = z.looseObject({
  id: z.string(),
  object: z.literal("response"),
  created_at: z.int(),
  completed_at: z.int().nullable(),
  status: z.enum(["completed", "failed", "in_progress", "cancelled", "queued", "incomplete"]),
  incomplete_details: z.looseObject({ reason: z.string() }).nullable(),
  model: z.string(),
  previous_response_id: z.string().nullable(),
  instructions: z.union([z.string(), z.array(z.unknown())]).nullable(),
  output: z.array(item),
  error: z.looseObject({ code: z.string(), message: z.string() }).nullable(),
  tools: z.array(z.looseObject({ type: z.string() })),
  tool_choice: z.union([z.string(), z.looseObject({ type: z.string() })]),
  truncation: z.string(),
  parallel_tool_calls: z.boolean(),
  text: z.looseObject({ format: z.looseObject({ type: z.string() }) }),
  top_p: z.number(),
  presence_penalty: z.number(),
  frequency_penalty: z.number(),
  top_logprobs: z.int(),
  temperature: z.number(),
  reasoning: z.looseObject({}).nullable(),
  usage: usage.nullable(),
  max_output_tokens: z.int().nullable(),
  max_tool_calls: z.int().nullable(),
  store: z.boolean(),
  background: z.boolean(),
  service_tier: z.string(),
  metadata: z.record(z.string(), z.string()),
  safety_identifier: z.string().nullable(),
  prompt_cache_key: z.string().nullable(),
});
export type ResponseObject = z.infer<typeof responseObject>;

export const compactionObject = z.looseObject({
  id: z.string(),
  object: z.literal("response.compaction"),
  created_at: z.int(),
  output: z.array(z.looseObject({ type: z.string() })).min(1),
  usage,
});

const numbered = { sequence_number: count };
const ofItem = { ...numbered, item_id: z.string(), output_index: count };
const ofContent = { ...ofItem, content_index: count };
const ofSummary = { ...ofItem, summary_index: count };
const logprobs = z.array(z.unknown());

function ofResponse<Type extends string>(type: Type) {
  return z.object({ type: z.literal(type), ...numbered, response: responseObject });
}

/** An event of a type that is not here is none, nor is one that lacks a key. */
const streamEvent = z.discriminatedUnion("type", [
  ofResponse("response.created"),
  ofResponse("response.queued"),
  ofResponse("response.in_progress"),
  ofResponse("response.completed"),
  ofResponse("response.incomplete"),
  ofResponse("response.failed"),
  z.object({
    type: z.enum(["response.output_item.added", "response.output_item.done"]),
    ...numbered,
    output_index: count,
    item,
  }),
  z.object({
    type: z.enum(["response.content_part.added", "response.content_part.done"]),
    ...ofContent,
    part,
  }),
  z.object({ type: z.literal("response.output_text.delta"), ...ofContent, delta: z.string(), logprobs }),
  z.object({ type: z.literal("response.output_text.done"), ...ofContent, text: z.string(), logprobs }),
  z.object({ type: z.literal("response.function_call_arguments.delta"), ...ofItem, delta: z.string() }),
  z.object({ type: z.literal("response.function_call_arguments.done"), ...ofItem, arguments: z.string() }),
  z.object({
    type: z.enum(["response.reasoning_summary_part.added", "response.reasoning_summary_part.done"]),
    ...ofSummary,
    part: summaryText,
  }),
  z.object({ type: z.literal("response.reasoning_summary_text.delta"), ...ofSummary, delta: z.string() }),
  z.object({ type: z.literal("response.reasoning_summary_text.done"), ...ofSummary, text: z.string() }),
]);
export type StreamEvent = z.infer<typeof streamEvent>;

/** All of a stream: each event in its shape, numbered from 0 without a gap, with one end. */
export function readEvents(events: readonly unknown[]): { events: StreamEvent[]; final: ResponseObject } {
  const read = events.map((event) => streamEvent.parse(event));
  for (const [i, { sequence_number }] of read.entries()) {
    if (sequence_number !== i) throw new Error(`event ${i} has the number ${sequence_number}`);
  }
  const ends = read.filter(
    ({ type }) =>
      type === "response.completed" || type === "response.incomplete" || type === "response.failed",
  );
  const last = read.at(-1);
  if (ends.length !== 1 || last === undefined || last !== ends[0] || !("response" in last)) {
    throw new Error(`the stream does not end with its one terminal event: ${read.map(({ type }) => type)}`);
  }
  return { events: read, final: last.response };
}
