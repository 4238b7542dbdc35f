/** Schemas of models and their prices. */

import { z } from "zod";
import { INTERFACES } from "../../records/interfaces.ts";
import type { CallUnit, LongContextUnit, Price, ServiceTier } from "../../records/price.ts";
import { COUNT_MAX, decimal, describeFields, modelName, text, wholeNumber } from "./basic-values.ts";
import { modelFallback } from "./fallback.ts";
import { count } from "./limits.ts";

export const interfaces = z.array(z.enum(INTERFACES)).min(1, { error: "a list with at least one entry" });
export const allInterfaces = () => [...INTERFACES];

const priceDecimal = decimal(6);
const hasPrice = z.exactOptional(priceDecimal);
const imageKind = text(
  "an image size like 1024x1024, or a size and a quality like 1024x1024/high",
  (value) => value.length <= 64 && /^[^\s/\p{C}]+(\/[^\s/\p{C}]+)?$/u.test(value),
);

const longContext = describeFields({
  above: {
    is: wholeNumber(1, COUNT_MAX),
    means: "input tokens above which **the whole request** is charged at the prices below",
  },
  input: { is: priceDecimal, means: "USD per million input tokens" },
  cached_input: {
    is: hasPrice,
    means: "USD per million input tokens read from the upstream's cache",
    leftOut: "same as `long_context.input`",
  },
  cache_write: {
    is: hasPrice,
    means: "USD per million input tokens written to the upstream's cache",
    leftOut: "same as `long_context.input`",
  },
  cache_write_1h: {
    is: hasPrice,
    means: "USD per million input tokens written to the upstream's cache for an hour",
    leftOut: "same as `long_context.cache_write`",
  },
  output: { is: hasPrice, means: "USD per million output tokens", leftOut: "same as `output`" },
  reasoning: {
    is: hasPrice,
    means: "USD per million reasoning tokens",
    leftOut: "same as `long_context.output`, or as `reasoning` if that is omitted",
  },
} satisfies Record<LongContextUnit | "above", unknown>);

const perCall = describeFields({
  web_search: { is: hasPrice, means: "USD per search of the web", leftOut: "free" },
} satisfies Record<CallUnit, unknown>);

const tier = describeFields({
  flex: { is: hasPrice, means: 'multiplier of the tier `flex`, like `"0.5"`', leftOut: '`"1"`' },
  priority: { is: hasPrice, means: 'multiplier of the tier `priority`, like `"2"`', leftOut: '`"1"`' },
  fast: {
    is: hasPrice,
    means: 'multiplier of requests with `speed: "fast"` (Anthropic), like `"6"`',
    leftOut: '`"1"`',
  },
} satisfies Record<ServiceTier, unknown>);

const price = describeFields(
  {
    input: { is: hasPrice, means: "USD per million input tokens", leftOut: "free" },
    cached_input: {
      is: hasPrice,
      means: "USD per million input tokens read from the upstream's cache",
      leftOut: "same as `input`",
    },
    cache_write: {
      is: hasPrice,
      means: "USD per million input tokens written to the upstream's cache",
      leftOut: "same as `input`",
    },
    cache_write_1h: {
      is: hasPrice,
      means: "USD per million input tokens written to the upstream's cache for an hour",
      leftOut: "same as `cache_write`",
    },
    output: { is: hasPrice, means: "USD per million output tokens", leftOut: "free" },
    reasoning: {
      is: hasPrice,
      means: "USD per million reasoning tokens",
      leftOut: "same as `output`",
    },
    image_input: {
      is: hasPrice,
      means: "USD per million image input tokens",
      leftOut: "same as `input`",
    },
    audio_input: { is: hasPrice, means: "USD per million audio input tokens", leftOut: "same as `input`" },
    audio_output: {
      is: hasPrice,
      means: "USD per million audio output tokens",
      leftOut: "same as `output`",
    },
    image: {
      is: hasPrice,
      means: "USD per generated image",
      leftOut: "the highest price in `images`, else free",
    },
    images: {
      is: z.exactOptional(z.record(imageKind, priceDecimal)),
      means: 'USD per generated image by size, or by size and quality: `"1024x1024"`, `"1024x1024/hd"`',
      leftOut: "a missing size and quality uses the price of its size, a missing size uses `image`",
    },
    request: { is: hasPrice, means: "USD per request, in addition to the other units", leftOut: "free" },
    long_context: {
      is: z.exactOptional(longContext),
      means: "prices for requests with a long input",
      leftOut: "the same prices for all requests",
    },
    per_call: {
      is: z.exactOptional(perCall),
      means: "prices of tools that the upstream runs and bills by the call",
      leftOut: "free",
    },
    tier: {
      is: z.exactOptional(tier),
      means: "multipliers of the token prices for requests that the upstream served in another service tier",
      leftOut: "the same prices for all tiers",
    },
  } satisfies Record<keyof Price, unknown>,
  "prices",
);

export const priceField = price.refine((units) => Object.keys(units).length > 0, {
  error: 'a price, like { input: "0.15" }',
  // An unknown unit is reported separately.
  when: ({ issues }) => issues.length === 0,
});

export const modelSizes = { context_tokens: count.optional(), max_output_tokens: count.optional() };

export const model = describeFields({
  id: { is: modelName, means: "the public name of the model" },
  interfaces: { is: interfaces, means: "the interfaces that the model supports" },
  price: {
    is: price.optional(),
    means: "the price of the model",
    leftOut: "the price in a [price list](#price-lists), if it has the model",
  },
  context_tokens: {
    is: modelSizes.context_tokens,
    means:
      "the context window: maximum of input and output tokens together; limits [the hold](billing.md#what-is-held)",
    leftOut: "the value in a price list",
  },
  max_output_tokens: {
    is: modelSizes.max_output_tokens,
    means:
      "maximum number of output tokens per response; if unknown, [charged responses](billing.md#what-is-held) are limited to 16,384",
    leftOut: "the value in a price list",
  },
  fallback: {
    is: modelFallback.optional(),
    means:
      "[other models](routing.md) that serve a request which this model cannot serve, in groups that have both, after the steps of the group",
    leftOut: "none",
  },
});
