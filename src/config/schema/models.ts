/** Schemas of models and their prices. */

import { z } from "zod";
import { INTERFACES, type LongContextUnit, type Price } from "../../records.ts";
import { limits } from "../product-limits.ts";
import { count } from "./limits.ts";
import { COUNT_MAX, decimal, described, text, wholeNumber } from "./words.ts";

export const modelName = text(
  `a model name of 1 to ${limits.modelNameCharsMax} characters, without spaces or *`,
  (value) => value.length >= 1 && value.length <= limits.modelNameCharsMax && !/[\s*\p{C}]/u.test(value),
);

export const interfaces = z.array(z.enum(INTERFACES)).min(1, { error: "a list with at least one entry" });
export const allInterfaces = () => [...INTERFACES];

const priceDecimal = decimal(6);
const somePrice = z.exactOptional(priceDecimal);
const imageKind = text(
  "an image size like 1024x1024, or a size and a quality like 1024x1024/high",
  (value) => value.length <= 64 && /^[^\s/\p{C}]+(\/[^\s/\p{C}]+)?$/u.test(value),
);

const longContext = described({
  above: {
    is: wholeNumber(1, COUNT_MAX),
    means: "a request with more input tokens than this is priced **as a whole** by the following",
  },
  input: { is: priceDecimal, means: "USD for a million of its input tokens" },
  cached_input: {
    is: somePrice,
    means: "USD for a million of these read from the upstream's cache",
    leftOut: "as `long_context.input`",
  },
  cache_write: {
    is: somePrice,
    means: "USD for a million of these written to the cache",
    leftOut: "as `long_context.input`",
  },
  output: { is: somePrice, means: "USD for a million of its output tokens", leftOut: "as `output`" },
  reasoning: {
    is: somePrice,
    means: "USD for a million of these thought and not said",
    leftOut: "as `long_context.output`, or `reasoning` if that is left out",
  },
} satisfies Record<LongContextUnit | "above", unknown>);

const price = described(
  {
    input: { is: somePrice, means: "USD for a million input tokens", leftOut: "free" },
    cached_input: {
      is: somePrice,
      means: "USD for a million input tokens read from the upstream's cache",
      leftOut: "as `input`",
    },
    cache_write: {
      is: somePrice,
      means: "USD for a million input tokens written to the upstream's cache",
      leftOut: "as `input`",
    },
    output: { is: somePrice, means: "USD for a million output tokens", leftOut: "free" },
    reasoning: {
      is: somePrice,
      means: "USD for a million output tokens thought and not said",
      leftOut: "as `output`",
    },
    image_input: {
      is: somePrice,
      means: "USD for a million input tokens of pictures",
      leftOut: "as `input`",
    },
    audio_input: { is: somePrice, means: "USD for a million input tokens of sound", leftOut: "as `input`" },
    audio_output: {
      is: somePrice,
      means: "USD for a million output tokens of sound",
      leftOut: "as `output`",
    },
    image: { is: somePrice, means: "USD for one image made", leftOut: "the dearest of `images`, else free" },
    images: {
      is: z.exactOptional(z.record(imageKind, priceDecimal)),
      means: 'USD for one image of a size, or of a size and a quality: `"1024x1024"`, `"1024x1024/hd"`',
      leftOut: "a size and quality is priced as its size, a size as `image`",
    },
    request: { is: somePrice, means: "USD for every request, beside the rest", leftOut: "free" },
    long_context: {
      is: z.exactOptional(longContext),
      means: "other prices for requests with much input",
      leftOut: "all requests are priced alike",
    },
  } satisfies Record<keyof Price, unknown>,
  "prices",
);

export const priceField = price.refine((units) => Object.keys(units).length > 0, {
  error: 'a price, like { input: "0.15" }',
  // An unknown unit is reported separately.
  when: ({ issues }) => issues.length === 0,
});

/** Token limits of a model. */
export const modelSizes = { context_tokens: count.optional(), max_output_tokens: count.optional() };

export const model = described({
  id: { is: modelName, means: "the name" },
  interfaces: { is: interfaces, means: "what the model can be called through" },
  price: {
    is: price.optional(),
    means: "what it costs",
    leftOut: "that of a [price list](#price-lists), if one knows the model",
  },
  context_tokens: {
    is: modelSizes.context_tokens,
    means: "how many tokens, in and out, fit together; bounds [what is held](billing.md#what-is-held)",
    leftOut: "as a price list says",
  },
  max_output_tokens: {
    is: modelSizes.max_output_tokens,
    means:
      "the most output tokens of one answer; where it is not known, [answers that are paid for](billing.md#what-is-held) are bounded to 16,384",
    leftOut: "as a price list says",
  },
});
