/** The effective price of a model in a group, including every fallback and multiplier. */

import { z } from "zod";
import { decimalText } from "../../money/nano.ts";
import type { TokenRates } from "../../money/prices.ts";
import type { Tariff } from "../../money/tariff.ts";
import { TOKEN_UNITS, type TokenUnit } from "../../records/price.ts";

const rates = z.object({
  input: z.string(),
  cached_input: z.string(),
  output: z.string(),
  /** Only if it differs from `input` or `output`, its fallback. */
  cache_write: z.string().optional(),
  cache_write_1h: z.string().optional(),
  reasoning: z.string().optional(),
  image_input: z.string().optional(),
  audio_input: z.string().optional(),
  audio_output: z.string().optional(),
});

export const priceResponse = z.object({
  /** USD per million tokens. */
  tokens: rates,
  /** A request with more input tokens is priced entirely by these rates. */
  long_context: z.object({ above: z.number(), tokens: rates }).nullable(),
  /** USD per image, if it is not priced by its tokens; by size and quality if the price depends on them. */
  image: z.string().nullable(),
  images: z.record(z.string(), z.string()),
  /** USD per request, in addition to the rest. */
  request: z.string().nullable(),
});

/** One pico-USD per token is one USD per million tokens with six decimals. Multipliers add twelve. */
const PER_MILLION_DECIMALS = 18;
const EACH_DECIMALS = 24;

export function priceObject({ prices, multiplierTrillionths }: Tariff): z.input<typeof priceResponse> {
  const each = (pico: bigint) => usd(pico * multiplierTrillionths, EACH_DECIMALS);
  const tokens = (unitRates: TokenRates) => ratesObject(unitRates, multiplierTrillionths);
  const { longContext, image, images, request } = prices;
  return {
    tokens: tokens(prices.tokens),
    long_context:
      longContext === null ? null : { above: longContext.above, tokens: tokens(longContext.tokens) },
    image: image === 0n ? null : each(image),
    images: Object.fromEntries([...images].map(([kind, pico]) => [kind, each(pico)])),
    request: request === 0n ? null : each(request),
  };
}

const FALLBACK_UNIT: Readonly<Record<TokenUnit, TokenUnit>> = {
  input: "input",
  cached_input: "input",
  cache_write: "input",
  cache_write_1h: "cache_write",
  image_input: "input",
  audio_input: "input",
  output: "output",
  reasoning: "output",
  audio_output: "output",
};

function ratesObject(unitRates: TokenRates, multiplierTrillionths: bigint): z.input<typeof rates> {
  const rate = (unit: TokenUnit) =>
    usd(BigInt(unitRates[unit]) * multiplierTrillionths, PER_MILLION_DECIMALS);
  const others = TOKEN_UNITS.filter((unit) => unitRates[unit] !== unitRates[FALLBACK_UNIT[unit]]);
  return {
    ...Object.fromEntries(others.map((unit) => [unit, rate(unit)])),
    input: rate("input"),
    cached_input: rate("cached_input"),
    output: rate("output"),
  };
}

/** Exact, with at least two decimals. */
function usd(value: bigint, decimals: number): string {
  const [whole = "0", rest = ""] = decimalText(value, decimals).split(".");
  return `${whole}.${rest.padEnd(2, "0")}`;
}
