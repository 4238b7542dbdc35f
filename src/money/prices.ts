/** Converts configured prices to whole pico-USD, with all fallbacks resolved. */

import {
  CALL_UNITS,
  LONG_CONTEXT_UNITS,
  type Price,
  SERVICE_TIERS,
  type ServiceTier,
  TOKEN_UNITS,
  type TokenUnit,
} from "../records/price.ts";
import { decimalText, parseDecimal } from "./nano.ts";

/**
 * Pico-USD per token: USD per million tokens with six decimals is exactly that. Safe as numbers, because a price has
 * at most nine digits before the point.
 */
export type TokenRates = Readonly<Record<TokenUnit, number>>;

interface TierRates {
  readonly tokens: TokenRates;
  readonly longContext: { readonly above: number; readonly tokens: TokenRates } | null;
}

export interface Prices extends TierRates {
  /** Output tokens have a price: images are then charged by their tokens. */
  readonly hasOutput: boolean;
  /** Tiers with their own rates. All others have those of the standard tier. */
  readonly tiers: ReadonlyMap<ServiceTier, TierRates>;
  /** Pico-USD per image, if its size and quality have no price. */
  readonly image: bigint;
  readonly images: ReadonlyMap<string, bigint>;
  /** Pico-USD per request. */
  readonly request: bigint;
  /** Pico-USD per search of the web. */
  readonly webSearch: bigint;
}

const PRICE_DECIMALS = 6;
const PICO_DECIMALS = 12;

export function parsePrices(price: Price): Prices {
  const { long_context: long } = price;
  const images = new Map(Object.entries(price.images ?? {}).map(([kind, usd]) => [kind, picoEach(usd)]));
  const standard: TierRates = {
    tokens: buildRates(price),
    longContext:
      long === undefined ? null : { above: long.above, tokens: buildRates(longContextPrice(price, long)) },
  };
  return {
    ...standard,
    tiers: buildTiers(price, standard),
    hasOutput: price.output !== undefined,
    image: price.image === undefined ? highestPrice(images) : picoEach(price.image),
    images,
    request: picoEach(price.request),
    webSearch: picoEach(price.per_call?.web_search),
  };
}

function buildTiers({ tier = {} }: Price, standard: TierRates): ReadonlyMap<ServiceTier, TierRates> {
  const tiers = new Map<ServiceTier, TierRates>();
  for (const name of SERVICE_TIERS) {
    const multiplier = tier[name];
    if (multiplier === undefined) continue;
    const millionths = Number(parseDecimal(multiplier, PRICE_DECIMALS));
    tiers.set(
      name,
      mapRates(standard, (rates) => multiplyRates(rates, millionths)),
    );
  }
  return tiers;
}

/** Rounded up to a whole pico-USD per token. */
function multiplyRates(rates: TokenRates, millionths: number): TokenRates {
  const multiplied = { ...rates };
  for (const unit of TOKEN_UNITS) {
    const pico = (BigInt(rates[unit]) * BigInt(millionths) + 999_999n) / 1_000_000n;
    if (pico > BigInt(Number.MAX_SAFE_INTEGER)) throw new Error("A price of a tier exceeds the maximum.");
    multiplied[unit] = Number(pico);
  }
  return multiplied;
}

function mapRates({ tokens, longContext }: TierRates, change: (rates: TokenRates) => TokenRates): TierRates {
  return {
    tokens: change(tokens),
    longContext: longContext && { above: longContext.above, tokens: change(longContext.tokens) },
  };
}

/** For tokens whose kind is not known yet: all units of a kind get the highest price among them. */
export function withHighestRates(prices: Prices, ...kinds: readonly (readonly TokenUnit[])[]): Prices {
  const raise = (rates: TokenRates): TokenRates => {
    const raised = { ...rates };
    for (const units of kinds) {
      const highest = Math.max(...units.map((unit) => rates[unit]));
      for (const unit of units) raised[unit] = highest;
    }
    return raised;
  };
  const tiers = [...prices.tiers].map(([name, rates]) => [name, mapRates(rates, raise)] as const);
  return { ...prices, ...mapRates(prices, raise), tiers: new Map(tiers) };
}

/** For images whose size or quality the upstream chooses: the highest price that may apply. */
export function withHighestImagePrices(prices: Prices): Prices {
  const { images } = prices;
  if (images.size === 0) return prices;
  const raised = new Map(images);
  for (const [kind, price] of images) {
    const [size = kind] = kind.split("/");
    const highest = raised.get(size) ?? prices.image;
    raised.set(size, price > highest ? price : highest);
  }
  const highest = highestPrice(images);
  return { ...prices, image: highest > prices.image ? highest : prices.image, images: raised };
}

function buildRates(price: Price): TokenRates {
  const input = picoPerToken(price.input);
  const output = picoPerToken(price.output);
  const orElse = (usd: string | undefined, fallback: number) =>
    usd === undefined ? fallback : picoPerToken(usd);
  return {
    input,
    cached_input: orElse(price.cached_input, input),
    cache_write: orElse(price.cache_write, input),
    cache_write_1h: orElse(price.cache_write_1h ?? price.cache_write, input),
    output,
    reasoning: orElse(price.reasoning, output),
    image_input: orElse(price.image_input, input),
    audio_input: orElse(price.audio_input, input),
    audio_output: orElse(price.audio_output, output),
  };
}

/** A long context has its own input price, so its cached input must not keep the lower price of a short context. */
function longContextPrice(price: Price, long: NonNullable<Price["long_context"]>): Price {
  const { cached_input: _cached, cache_write: _write, cache_write_1h: _hour, ...rest } = price;
  const { above: _above, ...named } = long;
  if (long.output === undefined || long.reasoning !== undefined) return { ...rest, ...named };
  const { reasoning: _reasoning, ...others } = rest;
  return { ...others, ...named };
}

function picoPerToken(usd: string | undefined): number {
  const pico = usd === undefined ? 0 : Number(parseDecimal(usd, PRICE_DECIMALS));
  if (!Number.isSafeInteger(pico))
    throw new Error(`A price of $${usd} per million tokens exceeds the maximum.`);
  return pico;
}

function picoEach(usd: string | undefined): bigint {
  return usd === undefined ? 0n : parseDecimal(usd, PICO_DECIMALS);
}

/** Equal prices become equal objects with the same field order, so that their JSON can be compared and hashed. */
export function canonicalPrice(price: Price): Price {
  const { images, long_context: long, per_call: calls = {}, tier = {} } = price;
  const sizes = Object.entries(images ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    ...decimals(price, TOKEN_UNITS),
    ...decimals(price, ["image"]),
    ...(sizes.length === 0
      ? {}
      : { images: Object.fromEntries(sizes.map(([kind, usd]) => [kind, shortestDecimal(usd)])) }),
    ...decimals(price, ["request"]),
    ...(long === undefined
      ? {}
      : {
          long_context: {
            above: long.above,
            input: shortestDecimal(long.input),
            ...decimals(long, LONG_CONTEXT_UNITS),
          },
        }),
    ...nonEmpty("per_call", decimals(calls, CALL_UNITS)),
    ...nonEmpty("tier", decimals(tier, SERVICE_TIERS)),
  };
}

function nonEmpty<Name extends string, Value extends object>(
  name: Name,
  value: Value,
): { readonly [name in Name]?: Value } {
  return Object.keys(value).length === 0 ? {} : ({ [name]: value } as { [name in Name]: Value });
}

function decimals<Unit extends string>(
  from: Readonly<Partial<Record<Unit, string>>>,
  units: readonly Unit[],
): Partial<Record<Unit, string>> {
  const result: Partial<Record<Unit, string>> = {};
  for (const unit of units) {
    const usd = from[unit];
    if (usd !== undefined) result[unit] = shortestDecimal(usd);
  }
  return result;
}

function shortestDecimal(usd: string): string {
  return decimalText(parseDecimal(usd, PRICE_DECIMALS), PRICE_DECIMALS);
}

/** The price with flat names, like `images.1024x1024` and `long_context.above`, for display. */
export function flatPrice(price: Price): Record<string, string> {
  const { images = {}, long_context: long = {}, per_call: calls = {}, tier = {}, ...plain } = price;
  const prefixed = (name: string, fields: object) =>
    Object.entries(fields).map(([field, value]) => [`${name}.${field}`, String(value)]);
  return Object.fromEntries([
    ...Object.entries(plain),
    ...prefixed("images", images),
    ...prefixed("long_context", long),
    ...prefixed("per_call", calls),
    ...prefixed("tier", tier),
  ]);
}

/** The price of an image whose size is unlisted or unknown: it must not be free. */
function highestPrice(images: ReadonlyMap<string, bigint>): bigint {
  let highest = 0n;
  for (const price of images.values()) if (price > highest) highest = price;
  return highest;
}
