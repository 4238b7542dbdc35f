/** Prices as the operator writes them → whole pico-dollars, with every fallback taken. */

import { LONG_CONTEXT_UNITS, type Price, TOKEN_UNITS, type TokenUnit } from "../records.ts";
import { decimalText, parseDecimal } from "./nano.ts";

/**
 * Pico-dollars for one token: USD a million tokens with six decimals is exactly that. Safe as numbers, for a price has
 * at most nine digits before its point.
 */
export type TokenRates = Readonly<Record<TokenUnit, number>>;

export interface Prices {
  readonly tokens: TokenRates;
  /** Tokens of an answer have a price: pictures are then paid by theirs. */
  readonly hasOutput: boolean;
  readonly longContext: { readonly above: number; readonly tokens: TokenRates } | null;
  /** Pico-dollars for one image, where its size and quality have no price of their own. */
  readonly image: bigint;
  readonly images: ReadonlyMap<string, bigint>;
  /** Pico-dollars for one request. */
  readonly request: bigint;
}

/** Decimals of a price in the file. */
const PRICE_DECIMALS = 6;
const PICO_DECIMALS = 12;

export function pricesOf(price: Price): Prices {
  const { long_context: long } = price;
  const images = new Map(Object.entries(price.images ?? {}).map(([kind, usd]) => [kind, picoEach(usd)]));
  return {
    tokens: ratesOf(price),
    hasOutput: price.output !== undefined,
    longContext:
      long === undefined ? null : { above: long.above, tokens: ratesOf(longContextPrice(price, long)) },
    image: price.image === undefined ? dearest(images) : picoEach(price.image),
    images,
    request: picoEach(price.request),
  };
}

/** For tokens whose kind is not known yet: all of a kind that may be meant at the price of the dearest among them. */
export function withDearest(prices: Prices, ...kinds: readonly (readonly TokenUnit[])[]): Prices {
  const { tokens, longContext } = prices;
  const raise = (rates: TokenRates): TokenRates => {
    const raised = { ...rates };
    for (const units of kinds) {
      const most = Math.max(...units.map((unit) => rates[unit]));
      for (const unit of units) raised[unit] = most;
    }
    return raised;
  };
  return {
    ...prices,
    tokens: raise(tokens),
    longContext: longContext && { ...longContext, tokens: raise(longContext.tokens) },
  };
}

/** For pictures whose size or quality is left to the upstream: at the price of the dearest that it may choose. */
export function withDearestPictures(prices: Prices): Prices {
  const { images } = prices;
  if (images.size === 0) return prices;
  const raised = new Map(images);
  for (const [kind, price] of images) {
    const [size = kind] = kind.split("/");
    const most = raised.get(size) ?? prices.image;
    raised.set(size, price > most ? price : most);
  }
  const most = dearest(images);
  return { ...prices, image: most > prices.image ? most : prices.image, images: raised };
}

function ratesOf(price: Price): TokenRates {
  const input = picoPerToken(price.input);
  const output = picoPerToken(price.output);
  const or = (usd: string | undefined, fallback: number) =>
    usd === undefined ? fallback : picoPerToken(usd);
  return {
    input,
    cached_input: or(price.cached_input, input),
    cache_write: or(price.cache_write, input),
    output,
    reasoning: or(price.reasoning, output),
    image_input: or(price.image_input, input),
    audio_input: or(price.audio_input, input),
    audio_output: or(price.audio_output, output),
  };
}

/** It has an input price of its own, so its cached input must not stay at the cheaper price of a short context. */
function longContextPrice(price: Price, long: NonNullable<Price["long_context"]>): Price {
  const { cached_input: _cached, cache_write: _write, ...rest } = price;
  const { above: _above, ...named } = long;
  if (long.output === undefined || long.reasoning !== undefined) return { ...rest, ...named };
  const { reasoning: _reasoning, ...others } = rest;
  return { ...others, ...named };
}

function picoPerToken(usd: string | undefined): number {
  const pico = usd === undefined ? 0 : Number(parseDecimal(usd, PRICE_DECIMALS));
  if (!Number.isSafeInteger(pico))
    throw new Error(`$${usd} for a million tokens is more than can be charged.`);
  return pico;
}

function picoEach(usd: string | undefined): bigint {
  return usd === undefined ? 0n : parseDecimal(usd, PICO_DECIMALS);
}

/** The same price is the same object, field for field in the same order: its JSON can be compared and digested. */
export function canonicalPrice(price: Price): Price {
  const { images, long_context: long } = price;
  const sizes = Object.entries(images ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    ...decimals(price, TOKEN_UNITS),
    ...decimals(price, ["image"]),
    ...(sizes.length === 0
      ? {}
      : { images: Object.fromEntries(sizes.map(([kind, usd]) => [kind, shortest(usd)])) }),
    ...decimals(price, ["request"]),
    ...(long === undefined
      ? {}
      : {
          long_context: {
            above: long.above,
            input: shortest(long.input),
            ...decimals(long, LONG_CONTEXT_UNITS),
          },
        }),
  };
}

function decimals<Unit extends string>(
  from: Readonly<Partial<Record<Unit, string>>>,
  units: readonly Unit[],
): Partial<Record<Unit, string>> {
  const found: Partial<Record<Unit, string>> = {};
  for (const unit of units) {
    const usd = from[unit];
    if (usd !== undefined) found[unit] = shortest(usd);
  }
  return found;
}

function shortest(usd: string): string {
  return decimalText(parseDecimal(usd, PRICE_DECIMALS), PRICE_DECIMALS);
}

/** One level of names, like `images.1024x1024` and `long_context.above`: for a reader. */
export function flatPrice(price: Price): Record<string, string> {
  const { images = {}, long_context: long = {}, ...plain } = price;
  const under = (name: string, fields: object) =>
    Object.entries(fields).map(([field, value]) => [`${name}.${field}`, String(value)]);
  return Object.fromEntries([
    ...Object.entries(plain),
    ...under("images", images),
    ...under("long_context", long),
  ]);
}

/** The price of a picture whose size is not in the list, or not said: it must not be free. */
function dearest(images: ReadonlyMap<string, bigint>): bigint {
  let most = 0n;
  for (const price of images.values()) if (price > most) most = price;
  return most;
}
