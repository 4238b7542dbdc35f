/** Schemas of Responses, for the fields that the gateway uses. */

import { z } from "zod";
import { anyObject, metadata, model, promptCacheKey, serviceTier, stream, unixSeconds } from "./fields.ts";

const contentPart = z
  .union([
    z.looseObject({ type: z.literal("input_text"), text: z.string() }),
    z.looseObject({
      type: z.literal("input_image"),
      image_url: z
        .string()
        .nullish()
        .describe("An https or data URL. The gateway passes it on and never fetches it."),
      file_id: z.string().nullish(),
      detail: z.string().nullish(),
    }),
    z.looseObject({
      type: z.literal("input_file"),
      file_data: z.string().nullish(),
      file_url: z.string().nullish(),
      file_id: z.string().nullish(),
      filename: z.string().nullish(),
    }),
    z.looseObject({ type: z.string() }),
  ])
  .describe("A part of a message: `input_text`, `input_image`, `input_file`, or what the model said before.");

const message = z.looseObject({
  type: z.literal("message").optional(),
  role: z.enum(["user", "assistant", "system", "developer"]),
  content: z.union([z.string(), z.array(contentPart)]),
});

const functionOutput = z.looseObject({
  type: z.literal("function_call_output"),
  call_id: z.string(),
  output: z.union([z.string(), z.array(anyObject)]),
});

const item = z.union([message, functionOutput, z.looseObject({ type: z.string() })]);

const responseInput = z
  .union([z.string(), z.array(item)])
  .describe("Text to answer, or a list of items: messages, calls of tools and what they gave.");

const tool = z
  .looseObject({
    type: z.string().describe("`function`, `custom`, `web_search`, …"),
    name: z.string().optional(),
    description: z.string().nullish(),
    parameters: anyObject.nullish().describe("JSON Schema of the arguments, for `function`."),
  })
  .describe("A tool that the model may call.");

const common = {
  model,
  input: responseInput,
  instructions: z.string().nullish().describe("What comes before the conversation."),
  previous_response_id: z
    .string()
    .nullish()
    .describe("Goes on from a kept response of the same key. `input` may then be left out."),
  tools: z.array(tool).nullish(),
  tool_choice: z.union([z.string(), anyObject]).nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  reasoning: z
    .looseObject({ effort: z.string().nullish(), summary: z.string().nullish() })
    .nullish()
    .describe("How much the model thinks, and whether it tells."),
  text: anyObject.nullish().describe("`format` for JSON answers, `verbosity`."),
  prompt_cache_key: promptCacheKey,
};

export const responseRequest = z.looseObject({
  ...common,
  stream,
  max_output_tokens: z
    .int()
    .min(1)
    .nullish()
    .describe("The most tokens of the answer. Lowered where the payer cannot afford as many."),
  temperature: z.number().nullish(),
  top_p: z.number().nullish(),
  store: z.boolean().nullish().describe("`false`: the upstream keeps nothing."),
  background: z.boolean().nullish().describe("`true`: answered at once; ask for the response by its id."),
  include: z.array(z.string()).nullish(),
  truncation: z.string().nullish(),
  metadata,
  service_tier: serviceTier,
});

export const inputTokensRequest = z.looseObject(common);

export const compactRequest = z.looseObject({
  model,
  input: responseInput,
  instructions: z.string().nullish(),
  previous_response_id: z.string().nullish(),
  prompt_cache_key: promptCacheKey,
});

const responseUsage = z
  .looseObject({
    input_tokens: z.int(),
    input_tokens_details: z.looseObject({ cached_tokens: z.int() }).optional(),
    output_tokens: z.int(),
    output_tokens_details: z.looseObject({ reasoning_tokens: z.int() }).optional(),
    total_tokens: z.int(),
  })
  .describe("Cached tokens are among the input, reasoning tokens among the output.");

const outputItem = z
  .looseObject({ type: z.string(), id: z.string().optional(), status: z.string().nullish() })
  .describe("`message`, `reasoning`, `function_call`, …");

export const responseObject = z.looseObject({
  id: z.string(),
  object: z.literal("response"),
  created_at: unixSeconds,
  status: z.enum(["completed", "failed", "in_progress", "cancelled", "queued", "incomplete"]),
  model: z.string().describe("The public name that was asked for."),
  output: z.array(outputItem),
  error: z.looseObject({ code: z.string(), message: z.string() }).nullish(),
  incomplete_details: anyObject.nullish(),
  usage: responseUsage.nullish(),
});

export const responseEvent = z
  .looseObject({
    type: z
      .string()
      .describe(
        "`response.created`, `response.output_text.delta`, … and exactly one of `response.completed`, `response.incomplete`, `response.failed` at the end.",
      ),
    sequence_number: z.int(),
    response: responseObject.optional(),
    delta: z.string().optional(),
  })
  .describe(
    "One event of a streamed response: `event:` and `data:` over HTTP, one text frame over WebSocket.",
  );

export const inputTokensAnswer = z.looseObject({
  object: z.literal("response.input_tokens"),
  input_tokens: z.int(),
});

export const compactionObject = z.looseObject({
  id: z.string(),
  object: z.literal("response.compaction"),
  created_at: unixSeconds,
  output: z.array(outputItem),
  usage: responseUsage.nullish(),
});

export const deletedResponse = z.looseObject({ id: z.string(), deleted: z.boolean() });

export const itemList = z.looseObject({
  object: z.literal("list"),
  data: z.array(outputItem),
  first_id: z.string().nullish(),
  last_id: z.string().nullish(),
  has_more: z.boolean(),
});

/** A message from the client over the WebSocket. */
export const socketMessage = z
  .looseObject({
    type: z.literal("response.create"),
    ...common,
    generate: z.boolean().optional().describe("`false`: a warm-up, answered by the gateway and free."),
    stream_id: z
      .string()
      .regex(/^[A-Za-z0-9_.-]{1,256}$/)
      .optional()
      .describe("A lane: turns of one lane follow each other, lanes run side by side."),
  })
  .describe(
    "One turn: all fields of `POST /v1/responses` at the top level. Answered by the same events, one text frame each.",
  );
