/** Schemas of the gateway's own responses: models, usage, requests, errors, health. */

import { z } from "zod";
import { mapKinds } from "../../base/map-kinds.ts";
import { ERROR_CODES, UPSTREAM_CODES } from "../../errors.ts";
import { RATE_KINDS } from "../../records/limits.ts";
import { USAGE_COUNT_NAMES } from "../../records/usage-counts.ts";
import { decimalUsd, unixSeconds } from "./fields.ts";

export const modelObject = z.looseObject({
  id: z.string().describe("The value for `model`."),
  object: z.literal("model"),
  type: z.literal("model"),
  display_name: z.string().describe("The same as `id`."),
  created: unixSeconds,
  created_at: z.string().describe("The same time in the format of RFC 3339."),
  owned_by: z.string(),
  interfaces: z
    .array(z.enum(["chat", "responses", "messages", "embeddings", "images"]))
    .describe("The interfaces that this key can use with the model."),
  translated_interfaces: z
    .array(z.enum(["chat", "responses", "embeddings", "images"]))
    .describe("Those of them that no account of the model has itself: requests are translated."),
});

export const modelList = z.looseObject({
  object: z.literal("list"),
  data: z.array(modelObject),
  has_more: z
    .boolean()
    .describe("Whether the list continues after `last_id`. Always `false` without `limit`."),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
});

const counts = {
  requests: z.int(),
  failed_requests: z.int(),
  refused_requests: z.int(),
  ...mapKinds(USAGE_COUNT_NAMES, () => z.int()),
  cache_hit_rate: z.number().nullable().describe("The cached share of the input tokens; null without input."),
  total_tokens: z.int(),
  cost: decimalUsd,
  charged: decimalUsd,
};

const limitUsage = z.looseObject({ limit: z.int(), used: z.int(), remaining: z.int() });
const limits = z.looseObject({
  ...mapKinds(RATE_KINDS, () => limitUsage.nullable()),
  windows: z.array(z.looseObject({ per_seconds: z.int() })),
});

export const usageReport = z
  .looseObject({
    object: z.literal("gateway.usage"),
    version: z.literal(1),
    key: z.looseObject({
      id: z.string(),
      name: z.string(),
      created_at: unixSeconds,
      expires_at: unixSeconds.nullable(),
    }),
    group: z.looseObject({ name: z.string(), interfaces: z.array(z.string()) }),
    billing: z.looseObject({ mode: z.enum(["none", "balance", "subscription"]) }),
    limits: z.looseObject({ key: limits, user: limits.nullable(), group: limits }),
    usage: z.looseObject({
      today: z.looseObject({ since: unixSeconds, ...counts }),
      range: z.looseObject({
        from: unixSeconds,
        to: unixSeconds,
        granularity: z.enum(["hour", "day"]),
        ...counts,
        by_model: z.array(z.looseObject({ model: z.string(), ...counts })),
        points: z.array(z.looseObject({ start: unixSeconds, ...counts })),
      }),
      total: z.looseObject(counts),
    }),
    isValid: z.boolean(),
    planName: z.string(),
    remaining: z.number().nullable(),
    unit: z.string(),
  })
  .describe("Usage and remaining limits of the key.");

export const requestReport = z
  .looseObject({
    object: z.literal("gateway.request"),
    id: z.string(),
    request_count: z
      .int()
      .describe(
        "1, or the number of rejected requests of the same kind in this record. The id is that of the first request.",
      ),
    created_at: unixSeconds.describe("When the request was received."),
    completed_at: unixSeconds.describe("When the request ended. It is counted in this hour and day."),
    endpoint: z.string(),
    model: z.string(),
    stream: z.boolean(),
    status: z.int(),
    outcome: z.string(),
    error_code: z.string().nullable(),
    usage: z.looseObject({ input_tokens: z.int(), output_tokens: z.int(), source: z.string() }),
    money: z.looseObject({ currency: z.literal("USD"), cost: decimalUsd, charged: decimalUsd }),
    timing: z.looseObject({
      waited_ms: z.int(),
      first_byte_ms: z.int().nullable(),
      duration_ms: z.int(),
    }),
    attempts: z.array(z.looseObject({ number: z.int() })),
  })
  .describe("The record of a request.");

export const errorResponse = z
  .strictObject({
    error: z.strictObject({
      message: z.string().describe("What happened and what to do."),
      type: z.string(),
      param: z.string().nullable().describe("The field that caused the error."),
      code: z.enum([...ERROR_CODES, ...UPSTREAM_CODES]).describe("Stable error code for use in programs."),
      request_id: z.string().describe("Equal to the `x-request-id` header."),
      failed_generation: z
        .string()
        .optional()
        .describe("With `tool_use_failed` and `json_validate_failed`: the output that could not be read."),
      resets_at: unixSeconds.optional().describe("When the exhausted limit resets."),
      tried: z
        .array(z.strictObject({ group: z.string(), model: z.string(), reason: z.string() }))
        .optional()
        .describe("With fallback: the steps that could not serve the request, from the first."),
    }),
  })
  .describe("The format of all errors.");

export const health = z.looseObject({ status: z.string() });
