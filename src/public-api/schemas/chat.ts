/** Schemas of Chat Completions. */

import { z } from "zod";
import { anyObject, metadata, model, promptCacheKey, serviceTier, stream, unixSeconds } from "./fields.ts";

const part = z
  .union([
    z.looseObject({ type: z.literal("text"), text: z.string() }),
    z.looseObject({
      type: z.literal("image_url"),
      image_url: z.looseObject({ url: z.string(), detail: z.string().nullish() }),
    }),
    z.looseObject({ type: z.string() }),
  ])
  .describe("`text`, `image_url`, `input_audio` or `file`.");

const toolCall = z.looseObject({
  id: z.string().optional(),
  type: z.string().optional(),
  function: z.looseObject({ name: z.string().optional(), arguments: z.string().optional() }).optional(),
});

const message = z
  .looseObject({
    role: z.enum(["system", "developer", "user", "assistant", "tool", "function"]),
    content: z.union([z.string(), z.array(part)]).nullish(),
    name: z.string().nullish(),
    tool_calls: z.array(toolCall).nullish(),
    tool_call_id: z.string().nullish(),
  })
  .describe("A message of the conversation.");

export const chatRequest = z.looseObject({
  model,
  messages: z.array(message).min(1).describe("The messages of the conversation, oldest first."),
  stream,
  stream_options: z
    .looseObject({ include_usage: z.boolean().nullish() })
    .nullish()
    .describe("`include_usage: true` adds a final chunk with the usage, if the upstream reports it."),
  n: z.int().min(1).max(128).nullish().describe("Number of choices. Each choice is charged."),
  max_completion_tokens: z
    .int()
    .min(1)
    .nullish()
    .describe(
      "Maximum number of output tokens per choice. The gateway lowers it if the payer cannot afford it.",
    ),
  max_tokens: z.int().min(1).nullish().describe("Deprecated name of `max_completion_tokens`."),
  temperature: z.number().nullish(),
  top_p: z.number().nullish(),
  stop: z.union([z.string(), z.array(z.string())]).nullish(),
  presence_penalty: z.number().nullish(),
  frequency_penalty: z.number().nullish(),
  seed: z.int().nullish(),
  tools: z.array(anyObject).nullish(),
  tool_choice: z.union([z.string(), anyObject]).nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  response_format: anyObject.nullish().describe("`text`, `json_object` or `json_schema`."),
  reasoning_effort: z.string().nullish(),
  user: z.string().nullish(),
  metadata,
  prompt_cache_key: promptCacheKey,
  service_tier: serviceTier,
});

export const chatUsage = z.looseObject({
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  total_tokens: z.int(),
  prompt_tokens_details: z.looseObject({ cached_tokens: z.int().optional() }).nullish(),
  completion_tokens_details: z.looseObject({ reasoning_tokens: z.int().optional() }).nullish(),
});

const finishReason = z.string().nullable().describe("`stop`, `length`, `tool_calls` or `content_filter`.");

export const chatCompletion = z.looseObject({
  id: z.string(),
  object: z.literal("chat.completion"),
  created: unixSeconds,
  model: z.string().describe("The public model name of the request."),
  choices: z.array(
    z.looseObject({
      index: z.int(),
      message: z.looseObject({
        role: z.literal("assistant"),
        content: z.string().nullable(),
        tool_calls: z.array(toolCall).nullish(),
      }),
      finish_reason: finishReason,
    }),
  ),
  usage: chatUsage.nullish(),
});

export const chatChunk = z
  .looseObject({
    id: z.string(),
    object: z.literal("chat.completion.chunk"),
    created: unixSeconds,
    model: z.string(),
    choices: z.array(
      z.looseObject({
        index: z.int(),
        delta: z.looseObject({
          role: z.string().optional(),
          content: z.string().nullish(),
          tool_calls: z.array(toolCall).nullish(),
        }),
        finish_reason: finishReason.optional(),
      }),
    ),
    usage: chatUsage.nullish(),
  })
  .describe("One `data:` line of the stream, which ends with `data: [DONE]`.");
