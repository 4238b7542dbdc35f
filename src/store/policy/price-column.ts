/** Prices in the store: JSON in the file's words, checked before it gets a type. */

import { z } from "zod";
import type { LongContextUnit, Price, PriceList, TokenUnit } from "../../records.ts";

const usd = z.string().regex(/^\d{1,9}(\.\d{1,6})?$/);
const maybe = z.exactOptional(usd);

const tokenForm = {
  input: maybe,
  cached_input: maybe,
  cache_write: maybe,
  output: maybe,
  reasoning: maybe,
  image_input: maybe,
  audio_input: maybe,
  audio_output: maybe,
} satisfies Record<TokenUnit, typeof maybe>;

const longContextForm = z.object({
  above: z.int().nonnegative(),
  input: usd,
  cached_input: maybe,
  cache_write: maybe,
  output: maybe,
  reasoning: maybe,
} satisfies Record<LongContextUnit | "above", unknown>);

export const priceForm: z.ZodType<Price> = z.object({
  ...tokenForm,
  image: maybe,
  images: z.exactOptional(z.record(z.string(), usd)),
  request: maybe,
  long_context: z.exactOptional(longContextForm),
});

const tokens = z.int().positive().nullable();
export const priceListForm: z.ZodType<PriceList> = z.object({
  date: z.string(),
  models: z.record(
    z.string(),
    z.object({ price: priceForm, contextTokens: tokens, outputTokensMax: tokens }),
  ),
});
