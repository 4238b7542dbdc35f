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
        .describe("An https or data URL. The gateway forwards it and never downloads it."),
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
  .describe(
    "A content part of a message: `input_text`, `input_image`, `input_file`, or earlier output of the model.",
  );

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
  .describe("Text, or a list of items: messages, tool calls and tool outputs.");

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
  instructions: z.string().nullish().describe("Instructions that precede the conversation."),
  previous_response_id: z
    .string()
    .nullish()
    .describe("Continues from a stored response of the same key. `input` is then optional."),
  tools: z.array(tool).nullish(),
  tool_choice: z.union([z.string(), anyObject]).nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  reasoning: z
    .looseObject({ effort: z.string().nullish(), summary: z.string().nullish() })
    .nullish()
    .describe("Reasoning effort, and the summary of the reasoning."),
  text: anyObject.nullish().describe("`format` for JSON output, and `verbosity`."),
  prompt_cache_key: promptCacheKey,
};

export const responseRequest = z.looseObject({
  ...common,
  stream,
  max_output_tokens: z
    .int()
    .min(1)
    .nullish()
    .describe("Maximum number of output tokens. The gateway lowers it if the payer cannot afford it."),
  temperature: z.number().nullish(),
  top_p: z.number().nullish(),
  store: z.boolean().nullish().describe("`false`: the upstream does not store the response."),
  background: z
    .boolean()
    .nullish()
    .describe(
      "`true`: returns immediately and generates the response in the background. Retrieve it by its id.",
    ),
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
  .describe("Input tokens include cached tokens, and output tokens include reasoning tokens.");

const outputItem = z
  .looseObject({ type: z.string(), id: z.string().optional(), status: z.string().nullish() })
  .describe("`message`, `reasoning`, `function_call`, …");

export const responseObject = z.looseObject({
  id: z.string(),
  object: z.literal("response"),
  created_at: unixSeconds,
  status: z.enum(["completed", "failed", "in_progress", "cancelled", "queued", "incomplete"]),
  model: z.string().describe("The public model name of the request."),
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
        "`response.created`, `response.output_text.delta`, …, and exactly one of `response.completed`, `response.incomplete`, `response.failed` at the end.",
      ),
    sequence_number: z.int(),
    response: responseObject.optional(),
    delta: z.string().optional(),
  })
  .describe(
    "One event of a streamed response: `event:` and `data:` over HTTP, one text frame over WebSocket.",
  );

export const inputTokensResponse = z.looseObject({
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
    generate: z
      .boolean()
      .optional()
      .describe("`false`: a free warm-up request, which the gateway answers itself."),
    stream_id: z
      .string()
      .regex(/^[A-Za-z0-9_.-]{1,256}$/)
      .optional()
      .describe("The lane of the turn. Turns of one lane run one after the other; lanes run in parallel."),
  })
  .describe(
    "One turn, with the fields of `POST /v1/responses` at the top level. The gateway sends the same events, one text frame per event.",
  );
