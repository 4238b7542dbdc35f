/** Schemas of Embeddings. */

import { z } from "zod";
import { model } from "./fields.ts";

export const embeddingsRequest = z.looseObject({
  model,
  input: z
    .union([z.string(), z.array(z.string()), z.array(z.int()), z.array(z.array(z.int()))])
    .describe("A text, an array of texts, or tokens."),
  encoding_format: z
    .enum(["float", "base64"])
    .nullish()
    .describe("`base64`: little-endian 32-bit floats in one string. The SDKs use it by default."),
  dimensions: z.int().min(1).nullish(),
  user: z.string().nullish(),
});

export const embeddingsResponse = z.looseObject({
  object: z.literal("list"),
  data: z.array(
    z.looseObject({
      object: z.literal("embedding"),
      index: z.int(),
      embedding: z.union([z.array(z.number()), z.string()]),
    }),
  ),
  model: z.string(),
  usage: z.looseObject({ prompt_tokens: z.int(), total_tokens: z.int() }).nullish(),
});
