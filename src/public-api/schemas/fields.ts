/** Fields that several schemas of the public API share. Every object is open: unknown fields are passed through. */

import { z } from "zod";

export const model = z
  .string()
  .min(1)
  .describe("An `id` from `GET /v1/models`, exactly as it is listed there.")
  .meta({ examples: ["fast-chat"] });

export const stream = z
  .boolean()
  .nullish()
  .describe("`true`: server-sent events as they come; `false` or left out: one answer.");

export const metadata = z
  .record(z.string(), z.string())
  .nullish()
  .describe("Up to 16 pairs, kept by the upstream.");

export const promptCacheKey = z
  .string()
  .nullish()
  .describe(
    "Names the conversation: requests that share it go to the same account, where its prompt cache is.",
  );

export const serviceTier = z
  .string()
  .nullish()
  .describe("Passed on; every tier costs what the model's price says.");

export const unixSeconds = z.int().describe("Unix time in seconds.");

export const decimalUsd = z.string().describe("USD as a decimal string, exact to the billionth.");

/** An object of any shape, which only the upstream interprets. */
export const anyObject = z.looseObject({});
