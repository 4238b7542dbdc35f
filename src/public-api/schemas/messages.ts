/** Schemas of Anthropic's Messages API. */

import { z } from "zod";
import { anyObject, model, stream } from "./fields.ts";

const block = z
  .union([
    z.looseObject({ type: z.literal("text"), text: z.string() }),
    z.looseObject({ type: z.literal("image"), source: anyObject }),
    z.looseObject({ type: z.string() }),
  ])
  .describe("`text`, `image`, `document`, `tool_use`, `tool_result`, `thinking` and others.");

const message = z
  .looseObject({
    role: z.enum(["user", "assistant", "system"]),
    content: z.union([z.string(), z.array(block)]),
  })
  .describe("A message of the conversation.");

const prompt = {
  model,
  messages: z.array(message).min(1).describe("The messages of the conversation, oldest first."),
  system: z
    .union([z.string(), z.array(block)])
    .nullish()
    .describe("The system prompt."),
  tools: z.array(anyObject).nullish(),
  tool_choice: anyObject.nullish().describe("`auto`, `any`, `tool` or `none`."),
  thinking: anyObject.nullish().describe("`enabled` with `budget_tokens`, `adaptive` or `disabled`."),
};

export const messageRequest = z.looseObject({
  ...prompt,
  max_tokens: z
    .int()
    .min(1)
    .describe("Maximum number of output tokens. The gateway lowers it if the payer cannot afford it."),
  stream,
  stop_sequences: z.array(z.string()).nullish(),
  temperature: z.number().nullish(),
  top_p: z.number().nullish(),
  top_k: z.int().nullish(),
  output_config: anyObject.nullish().describe("`effort`, and `format` for structured output."),
  metadata: anyObject.nullish(),
  service_tier: z.string().nullish(),
});

export const countTokensRequest = z.looseObject(prompt);

export const tokenCount = z.looseObject({ input_tokens: z.int() });

const messageUsage = z.looseObject({
  input_tokens: z.int().describe("Without the tokens that were read from the cache or written to it."),
  cache_creation_input_tokens: z.int().nullish(),
  cache_read_input_tokens: z.int().nullish(),
  output_tokens: z.int(),
});

export const messageObject = z.looseObject({
  id: z.string(),
  type: z.literal("message"),
  role: z.literal("assistant"),
  model: z.string().describe("The public model name of the request."),
  content: z.array(block),
  stop_reason: z
    .string()
    .nullable()
    .describe("`end_turn`, `max_tokens`, `stop_sequence`, `tool_use`, `pause_turn` or `refusal`."),
  stop_sequence: z.string().nullable(),
  usage: messageUsage,
});

export const messageEvent = z
  .looseObject({ type: z.string() })
  .describe(
    "The `data:` line of one event: `message_start`, `content_block_start`, `content_block_delta`, `content_block_stop`, `message_delta`, `message_stop`, `ping` or `error`.",
  );
