/** Prices as a column: JSON with the field names of the configuration file, checked when read. */

import { z } from "zod";
import type {
  CallUnit,
  LongContextUnit,
  Price,
  PriceList,
  PriceQuotation,
  ServiceTier,
  TokenUnit,
} from "../../records/price.ts";

const usdSchema = z.string().regex(/^\d{1,9}(\.\d{1,6})?$/);
const optionalUsd = z.exactOptional(usdSchema);

const tokenFields = {
  input: optionalUsd,
  cached_input: optionalUsd,
  cache_write: optionalUsd,
  cache_write_1h: optionalUsd,
  output: optionalUsd,
  reasoning: optionalUsd,
  image_input: optionalUsd,
  audio_input: optionalUsd,
  audio_output: optionalUsd,
} satisfies Record<TokenUnit, typeof optionalUsd>;

const longContextSchema = z.object({
  above: z.int().nonnegative(),
  input: usdSchema,
  cached_input: optionalUsd,
  cache_write: optionalUsd,
  cache_write_1h: optionalUsd,
  output: optionalUsd,
  reasoning: optionalUsd,
} satisfies Record<LongContextUnit | "above", unknown>);

export const priceForm: z.ZodType<Price> = z.object({
  ...tokenFields,
  image: optionalUsd,
  images: z.exactOptional(z.record(z.string(), usdSchema)),
  request: optionalUsd,
  long_context: z.exactOptional(longContextSchema),
  per_call: z.exactOptional(z.object({ web_search: optionalUsd } satisfies Record<CallUnit, unknown>)),
  tier: z.exactOptional(
    z.object({ flex: optionalUsd, priority: optionalUsd, fast: optionalUsd } satisfies Record<
      ServiceTier,
      unknown
    >),
  ),
});

const tokensSchema = z.int().positive().nullable();
const quotationSchema = z.object({
  units: z.array(z.string()),
  source: z.string(),
  date: z.string(),
} satisfies Record<keyof PriceQuotation, unknown>);

export const priceListForm: z.ZodType<PriceList> = z.object({
  date: z.string(),
  models: z.record(
    z.string(),
    z.object({
      price: priceForm,
      contextTokens: tokensSchema,
      outputTokensMax: tokensSchema,
      quotation: z.exactOptional(quotationSchema),
    }),
  ),
});
