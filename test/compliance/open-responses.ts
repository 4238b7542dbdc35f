/** The schemas of the Open Responses specification (2026-04-24): a response, its items and the events of its stream. */

import { z } from "zod";

const integer = z.int();
const count = z.int().nonnegative();
const text = z.string();

// Content parts. `oneOf` with a discriminator: a part of an unknown type is none.

const citation = z.looseObject({
  type: z.literal("url_citation"),
  url: text,
  start_index: integer,
  end_index: integer,
  title: text,
});
const topLogprob = z.looseObject({ token: text, logprob: z.number(), bytes: z.array(integer) });
const logprob = topLogprob.extend({ top_logprobs: z.array(topLogprob) });

const textPart = <Type extends string>(type: Type) => z.looseObject({ type: z.literal(type), text });
const outputText = textPart("output_text").extend({
  annotations: z.array(citation),
  logprobs: z.array(logprob).optional(),
});
const contentPart = z.discriminatedUnion("type", [
  textPart("input_text"),
  outputText,
  textPart("text"),
  textPart("summary_text"),
  textPart("reasoning_text"),
  z.looseObject({ type: z.literal("refusal"), refusal: text }),
  z.looseObject({
    type: z.literal("input_image"),
    image_url: text.nullable(),
    detail: z.enum(["low", "high", "auto"]),
  }),
  z.looseObject({ type: z.literal("input_file"), filename: text.optional(), file_url: text.optional() }),
]);

// Items.

const itemStatus = z.enum(["in_progress", "completed", "incomplete"]);

const item = z.discriminatedUnion("type", [
  z.looseObject({
    type: z.literal("message"),
    id: text,
    status: itemStatus,
    role: z.enum(["user", "assistant", "system", "developer"]),
    content: z.array(contentPart),
    phase: z.enum(["commentary", "final_answer"]).optional(),
  }),
  z.looseObject({
    type: z.literal("function_call"),
    id: text,
    call_id: text,
    name: text,
    arguments: text,
    status: itemStatus,
  }),
  z.looseObject({
    type: z.literal("function_call_output"),
    id: text,
    call_id: text,
    output: z.union([text, z.array(contentPart)]),
    status: itemStatus,
  }),
  z.looseObject({
    type: z.literal("reasoning"),
    id: text,
    summary: z.array(contentPart),
    content: z.array(contentPart).optional(),
    encrypted_content: text.optional(),
  }),
  z.looseObject({
    type: z.literal("compaction"),
    id: text,
    encrypted_content: text,
    created_by: text.optional(),
  }),
]);

// The settings that a response repeats.

const functionTool = z.looseObject({
  type: z.literal("function"),
  name: text,
  description: text.nullable(),
  parameters: z.record(z.string(), z.unknown()).nullable(),
  strict: z.boolean().nullable(),
});
const choiceWord = z.enum(["none", "auto", "required"]);
const functionChoice = z.looseObject({ type: z.literal("function"), name: text.optional() });
const allowedTools = z.looseObject({
  type: z.literal("allowed_tools"),
  tools: z.array(functionChoice),
  mode: choiceWord,
});
const textFormat = z.discriminatedUnion("type", [
  z.looseObject({ type: z.literal("text") }),
  z.looseObject({ type: z.literal("json_object") }),
  z.looseObject({
    type: z.literal("json_schema"),
    name: text,
    description: text.nullable(),
    // The specification leaves room for null alone, and every server repeats the schema.
    schema: z.record(z.string(), z.unknown()).nullable(),
    strict: z.boolean(),
  }),
]);
const reasoning = z.looseObject({
  effort: z.enum(["none", "minimal", "low", "medium", "high", "xhigh"]).nullable(),
  summary: z.enum(["concise", "detailed", "auto"]).nullable(),
});
const usage = z.looseObject({
  input_tokens: count,
  input_tokens_details: z.looseObject({ cached_tokens: count }),
  output_tokens: count,
  output_tokens_details: z.looseObject({ reasoning_tokens: count }),
  total_tokens: count,
});

/** Every key is required; nullable ones are marked. */
export const responseObject = z.looseObject({
  id: text,
  object: z.literal("response"),
  created_at: integer,
  completed_at: integer.nullable(),
  status: z.enum(["completed", "failed", "in_progress", "cancelled", "queued", "incomplete"]),
  incomplete_details: z.looseObject({ reason: text }).nullable(),
  model: text,
  previous_response_id: text.nullable(),
  instructions: text.nullable(),
  output: z.array(item),
  error: z.looseObject({ code: text, message: text }).nullable(),
  tools: z.array(functionTool),
  tool_choice: z.union([choiceWord, functionChoice, allowedTools]),
  truncation: z.enum(["auto", "disabled"]),
  parallel_tool_calls: z.boolean(),
  text: z.looseObject({ format: textFormat, verbosity: z.enum(["low", "medium", "high"]).optional() }),
  top_p: z.number(),
  presence_penalty: z.number(),
  frequency_penalty: z.number(),
  top_logprobs: count,
  temperature: z.number(),
  reasoning: reasoning.nullable(),
  usage: usage.nullable(),
  max_output_tokens: integer.nullable(),
  max_tool_calls: integer.nullable(),
  store: z.boolean(),
  background: z.boolean(),
  service_tier: text,
  metadata: z.record(z.string(), z.string()),
  safety_identifier: text.nullable(),
  prompt_cache_key: text.nullable(),
});
export type ResponseObject = z.infer<typeof responseObject>;

export const compactionObject = z.looseObject({
  id: text,
  object: z.literal("response.compaction"),
  created_at: integer,
  output: z.array(item).min(1),
  usage,
});

/** A rejection over HTTP. */
export const errorObject = z.looseObject({
  error: z.looseObject({ type: text, code: text.nullable(), message: text, param: text.nullable() }),
});

/** A rejection over a WebSocket. */
export const socketError = z.looseObject({
  type: z.literal("error"),
  status: integer,
  error: z.looseObject({
    type: text.optional(),
    code: text,
    message: text,
    param: text.nullable().optional(),
  }),
});

// Events.

const numbered = { sequence_number: count };
const ofItem = { ...numbered, item_id: text, output_index: count };
const ofContent = { ...ofItem, content_index: count };
const ofSummary = { ...ofItem, summary_index: count };
const obfuscation = text.optional();
const logprobs = z.array(logprob).optional();

const event = <Type extends string, Shape extends z.ZodRawShape>(type: Type, shape: Shape) =>
  z.object({ type: z.literal(type), ...shape });
const ofResponse = <Type extends string>(type: Type) =>
  event(type, { ...numbered, response: responseObject });
const aboutItem = { ...numbered, output_index: count, item };

/** An event of an unknown type, or one that lacks a key, is invalid. */
const streamEvent = z.discriminatedUnion("type", [
  ofResponse("response.created"),
  ofResponse("response.queued"),
  ofResponse("response.in_progress"),
  ofResponse("response.completed"),
  ofResponse("response.incomplete"),
  ofResponse("response.failed"),
  event("response.output_item.added", aboutItem),
  event("response.output_item.done", aboutItem),
  event("response.content_part.added", { ...ofContent, part: contentPart }),
  event("response.content_part.done", { ...ofContent, part: contentPart }),
  event("response.output_text.delta", { ...ofContent, delta: text, logprobs, obfuscation }),
  event("response.output_text.done", { ...ofContent, text, logprobs }),
  event("response.output_text.annotation.added", {
    ...ofContent,
    annotation_index: count,
    annotation: citation.nullable(),
  }),
  event("response.refusal.delta", { ...ofContent, delta: text }),
  event("response.refusal.done", { ...ofContent, refusal: text }),
  event("response.reasoning.delta", { ...ofContent, delta: text, obfuscation }),
  event("response.reasoning.done", { ...ofContent, text }),
  event("response.reasoning_summary_part.added", { ...ofSummary, part: contentPart }),
  event("response.reasoning_summary_part.done", { ...ofSummary, part: contentPart }),
  event("response.reasoning_summary_text.delta", { ...ofSummary, delta: text, obfuscation }),
  event("response.reasoning_summary_text.done", { ...ofSummary, text }),
  event("response.function_call_arguments.delta", { ...ofItem, delta: text, obfuscation }),
  event("response.function_call_arguments.done", { ...ofItem, arguments: text }),
  event("error", {
    ...numbered,
    error: z.looseObject({ type: text, code: text.nullable(), message: text, param: text.nullable() }),
  }),
]);
export type StreamEvent = z.infer<typeof streamEvent>;

/** A whole stream: each event matches its schema, numbered from 0 without a gap, with one terminal event. */
export function readEvents(events: readonly unknown[]): { events: StreamEvent[]; final: ResponseObject } {
  const read = events.map((one) => streamEvent.parse(one));
  for (const [i, { sequence_number }] of read.entries()) {
    if (sequence_number !== i) throw new Error(`event ${i} has the number ${sequence_number}`);
  }
  const ends = read.filter(
    ({ type }) =>
      type === "response.completed" || type === "response.incomplete" || type === "response.failed",
  );
  const last = read.at(-1);
  if (
    ends.length !== 1 ||
    last === undefined ||
    last !== ends[0] ||
    !(
      last.type === "response.completed" ||
      last.type === "response.incomplete" ||
      last.type === "response.failed"
    )
  ) {
    throw new Error(`the stream does not end with its one terminal event: ${read.map(({ type }) => type)}`);
  }
  checkLifeCycles(read);
  return { events: read, final: last.response };
}

/** An item is added before its other events, ends once, and its deltas add up to the content at its end. */
function checkLifeCycles(events: readonly StreamEvent[]): void {
  const open = new Map<number, string>();
  const itemText = new Map<string, string>();
  for (const one of events) {
    if (one.type === "response.output_item.added") open.set(one.output_index, one.item.id);
    else if (one.type === "response.output_item.done") {
      if (open.get(one.output_index) !== one.item.id) throw new Error(`${one.item.id} ends and never began`);
      open.delete(one.output_index);
    } else if ("item_id" in one && open.get(one.output_index) !== one.item_id) {
      throw new Error(`${one.type} is about ${one.item_id}, which is not open`);
    }
    if (one.type === "response.output_text.delta" || one.type === "response.function_call_arguments.delta") {
      itemText.set(one.item_id, (itemText.get(one.item_id) ?? "") + one.delta);
    }
    const whole =
      one.type === "response.output_text.done"
        ? one.text
        : one.type === "response.function_call_arguments.done"
          ? one.arguments
          : null;
    if (whole !== null && "item_id" in one && whole !== (itemText.get(one.item_id) ?? "")) {
      throw new Error(`the deltas of ${one.item_id} do not add up to its end`);
    }
  }
}
