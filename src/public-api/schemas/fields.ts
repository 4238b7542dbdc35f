/** Fields that several schemas of the public API share. Every object is open: unknown fields are passed through. */

import { z } from "zod";

export const model = z
  .string()
  .min(1)
  .describe("An `id` from `GET /v1/models`, exactly as listed.")
  .meta({ examples: ["fast-chat"] });

export const stream = z
  .boolean()
  .nullish()
  .describe("`true`: the response is streamed as server-sent events. `false` or omitted: one JSON response.");

export const metadata = z
  .record(z.string(), z.string())
  .nullish()
  .describe("Up to 16 key-value pairs, stored by the upstream.");

export const promptCacheKey = z
  .string()
  .nullish()
  .describe(
    "Identifies the conversation. Requests with the same value are sent to the same account, to use its prompt cache.",
  );

export const serviceTier = z
  .string()
  .nullish()
  .describe(
    "Forwarded to the upstream. The tier that the upstream reports decides the price, if the model has prices for tiers.",
  );

export const unixSeconds = z.int().describe("Unix time in seconds.");

export const decimalUsd = z.string().describe("USD as a decimal string, with up to 9 decimal places.");

/** An object of any shape, which only the upstream interprets. */
export const anyObject = z.looseObject({});
